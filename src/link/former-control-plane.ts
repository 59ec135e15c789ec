import type { Logger } from '../base/lib/log.ts';
import type { CredentialService } from '../services/people/credentials.ts';
import { LOOKED_UP_KEYS } from '../services/people/looked-up-keys.ts';
import type { OrgService } from '../services/people/orgs.ts';
import type { WorkloadService } from '../services/people/workloads.ts';
import type { PolicyService } from '../services/policy/policies.ts';
import type { ExportService } from '../services/sending/exports/export-service.ts';
import type { Effect, Store } from '../storage/contract/store.ts';
import { CONTACTS } from './contact-book.ts';
import { FETCHED_VERSIONS } from './fetched-versions.ts';
import { REMOTE_BUNDLES } from './kept-bundle.ts';
import { REMOTE_ADDONS } from './remote-addons.ts';
import { REMOTE_KEYS } from './remote-keys.ts';

/**
 * What says that there was a control plane, and goes when nothing of it is there any more. How far the sequence of
 * bundles had come is never forgotten.
 */
const MARKS = [FETCHED_VERSIONS, REMOTE_ADDONS, CONTACTS, REMOTE_BUNDLES, LOOKED_UP_KEYS, REMOTE_KEYS];

/** What a control plane had given to this gateway before it was started without one. */
interface Given {
  /** Kinds of things that were fetched at least once: what is here of them is all of that control plane. */
  readonly kinds: ReadonlySet<string>;
  /** Orgs that it has given something to. */
  readonly orgIds: ReadonlySet<string>;
  /** Orgs whose add-ons it has switched. */
  readonly switched: ReadonlySet<string>;
  /** Orgs of which it has said how they stand. */
  readonly told: ReadonlySet<string>;
  readonly marks: readonly Effect[];
}

type Registers = {
  readonly workloads: Pick<WorkloadService, 'replaceAll'>;
  readonly credentials: Pick<CredentialService, 'replaceAll'>;
  readonly policies: Pick<PolicyService, 'changeAutoRules' | 'replaceOverlays' | 'switchAddons'>;
  readonly orgs: Pick<OrgService, 'forget'>;
};

/**
 * A gateway that is started without `GW_CP_ADDR` in a data folder that had a control plane: nothing of that stays in
 * force (decision 13.13). What cannot be removed ends the start, and each step may be done twice, so that a start that
 * was killed goes on in the next one.
 */
export class FormerControlPlane {
  readonly #store: Store;
  readonly #log: Logger;
  readonly #given: Given;

  private constructor(store: Store, log: Logger, given: Given) {
    this.#store = store;
    this.#log = log;
    this.#given = given;
  }

  /** Undefined: there was none. */
  static async find(store: Store, log: Logger): Promise<FormerControlPlane | undefined> {
    const marks: Effect[] = [];
    const orgIds = new Set<string>();
    const switched = new Set<string>();
    const told = new Set<string>();
    const kinds = new Set<string>();
    for (const space of MARKS) {
      for (const { key, value } of await store.list(space)) {
        marks.push({ op: 'delete', space, key });
        if (space === REMOTE_ADDONS) switched.add(key);
        if (space === CONTACTS) told.add(key);
        if (space !== FETCHED_VERSIONS) continue;
        kinds.add(key);
        // `org@host:port`
        const { from } = value as { readonly from: string };
        orgIds.add(from.slice(0, from.lastIndexOf('@')));
      }
    }
    return marks.length === 0 ? undefined : new FormerControlPlane(store, log, { kinds, orgIds, switched, told, marks });
  }

  /** Before credentials of files are read. */
  async leaveRegisters({ workloads, credentials, policies, orgs }: Registers): Promise<void> {
    const { kinds, orgIds, switched, told } = this.#given;
    this.#log.warn({ orgs: [...orgIds] }, 'GW_CP_ADDR is not set any more: what the control plane had given to this gateway is removed');
    if (kinds.has('workloads')) await workloads.replaceAll([]);
    if (kinds.has('credentials')) await credentials.replaceAll([]);
    const commit = (_object: string | undefined, effects: readonly Effect[]): Promise<void> => this.#store.commit(undefined, effects);
    for (const orgId of orgIds) {
      if (kinds.has('credentials')) await policies.changeAutoRules(orgId, [], (effects) => commit(undefined, effects));
      if (kinds.has('overlays')) await policies.replaceOverlays(orgId, [], commit);
    }
    for (const orgId of switched) await policies.switchAddons(orgId, orgId, () => ({ org_id: orgId, providers: {}, presets: {} }));
    for (const orgId of told) await orgs.forget(orgId);
  }

  /** The last step. */
  async leaveExports(exports: Pick<ExportService, 'replaceAll'>): Promise<void> {
    const { kinds, orgIds, marks } = this.#given;
    if (kinds.has('export_config')) for (const orgId of orgIds) await exports.replaceAll(orgId, { destinations: [], inherits: true });
    await this.#store.commit(undefined, marks);
  }
}
