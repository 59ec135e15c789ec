import { ownText } from '../../base/lib/text.ts';
import { CONTROL_BOUNDS } from '../../base/model/org-bounds.ts';

/** Stands for all orgs together that nobody has laid down; no org's id holds a space. */
export const STRANGERS = ' ';

/**
 * Which org something is counted for that each org has of its own, such as a rate or a month's requests: itself, where
 * somebody has laid it down. Of other names the first few have counts of their own as well, so that orgs which are only
 * named are told apart; all further ones share theirs, so that another made-up name is no fresh count (decision 7.12).
 */
export class CountedOrgs {
  readonly #isKnown: (orgId: string) => boolean;
  readonly #named = new Set<string>();

  constructor(isKnown: (orgId: string) => boolean) {
    this.#isKnown = isKnown;
  }

  /** The org under whose id it is counted. */
  of(orgId: string): string {
    if (this.#isKnown(orgId) || this.#named.has(orgId)) return orgId;
    if (this.#named.size >= CONTROL_BOUNDS.rateBuckets.one) return STRANGERS;
    this.#named.add(ownText(orgId));
    return orgId;
  }
}

/** Who asks for a place that orgs share. */
export interface ShareCaller {
  readonly orgId: string;
  readonly workloadId: string;
  readonly callerIp: string;
  /** Of a key that he has shown. */
  readonly apiKeyId?: string | undefined;
}

/** Which names somebody has laid down. */
export interface LaidDown {
  org(id: string): boolean;
  workload(orgId: string, id: string): boolean;
}

/** Of a gateway where names cannot be made up, such as one of a test. */
export const ALL_LAID_DOWN: LaidDown = { org: () => true, workload: () => true };

/** Whose share a place comes from. */
export interface Sharer {
  readonly org: string;
  readonly caller: string;
}

/**
 * Whose share of a bounded place a caller takes from (decision 7.12). Names that a caller can make up give nobody
 * another share: orgs that nobody has laid down are one, and a workload that nobody has registered counts by the
 * address that it calls from; what a caller calls himself counts nowhere.
 */
export function sharerOf({ orgId, workloadId, callerIp, apiKeyId }: ShareCaller, known: LaidDown): Sharer {
  const isOrg = known.org(orgId);
  if (isOrg && apiKeyId !== undefined) return { org: orgId, caller: `key ${apiKeyId}` };
  const isWorkload = isOrg && known.workload(orgId, workloadId);
  return { org: isOrg ? orgId : STRANGERS, caller: isWorkload ? `workload ${workloadId}` : `address ${callerIp}` };
}
