/*
 * Services: stateful verbs that the pipeline and the surfaces share. A service owns its entities in the store and keeps what the path of a request
 * needs in memory; it never writes an HTTP answer.
 */
import { randomBytes } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { WORKLOAD_TOKEN_PREFIX } from '../base/lib/own-tokens.ts';
import { sameSecret } from '../base/lib/secret.ts';
import { sha256Hex } from '../base/lib/sha256.ts';
import type { Attribution } from '../base/model/attribution.ts';
import type { Workload } from '../base/model/workload.ts';
import type { Effect, Store } from '../storage/contract/store.ts';
import { changeEntity } from './change-entity.ts';
import { type Commit, commitAlone } from './commit.ts';
import { OrgDefaultsService } from './org-defaults.ts';
import { WatchedSpace } from './watched-space.ts';

export const WORKLOADS = 'workload';
export const WORKLOAD_TOKENS = 'workload_token';
const SEEDED = 'seeded';

/** The workload that a fresh store contains (decision 4.4). */
export const DEFAULT_WORKLOAD_ID = 'default';
const SEEDED_WORKLOAD: Workload = { workload_id: DEFAULT_WORKLOAD_ID, name: 'Default workload' };

/** The registered workloads, their tokens and the org defaults (decisions 4.1, 4.4, 4.5), in memory, also as other writers of the store change them. */
export class WorkloadService {
  readonly #store: Store;
  readonly #workloads: WatchedSpace<Workload>;
  /** Workload id to SHA-256 of its token. */
  readonly #tokens: WatchedSpace<string>;
  /** The other way round. */
  readonly #holders: ReadonlyMap<string, string>;
  /** What an org gives to traffic that names none of it. */
  readonly orgDefaults: OrgDefaultsService;

  private constructor(store: Store, spaces: Spaces) {
    this.#store = store;
    this.#workloads = spaces.workloads;
    this.#tokens = spaces.tokens;
    this.#holders = spaces.holders;
    this.orgDefaults = spaces.defaults;
  }

  /** Reads everything into memory; a fresh store gets the workload `default` and org defaults that name it. */
  static async open(store: Store): Promise<WorkloadService> {
    if ((await store.get(SEEDED, WORKLOADS)) === undefined) await seed(store);
    return new WorkloadService(store, await openSpaces(store));
  }

  /** The workload of proxied traffic that names none. */
  defaultWorkloadId(orgId: string): string {
    return this.orgDefaults.workloadId(orgId) ?? DEFAULT_WORKLOAD_ID;
  }

  /** What is charged where neither caller, workload nor policy says it; undefined when the org says nothing either. */
  defaultAttribution(orgId: string): Attribution | undefined {
    return this.orgDefaults.attribution(orgId);
  }

  /** A workload that this org may use; undefined when there is none. */
  get(orgId: string, workloadId: string): Workload | undefined {
    const found = this.#workloads.get(workloadId);
    return found?.org_id === undefined || found.org_id === orgId ? found : undefined;
  }

  /** In the order of their ids. @param orgId only those that this org may use */
  list(orgId?: string): readonly Workload[] {
    const all = this.#workloads;
    return (orgId === undefined ? [...all.values()] : [...all.ofOrg(orgId), ...all.ofOrg(undefined)]).sort((a, b) =>
      a.workload_id < b.workload_id ? -1 : 1,
    );
  }

  /**
   * Creates or replaces one, from the state that `next` has seen.
   * @param next gives the workload, from the one of this id that is there, of whichever org
   * @throws GatewayError what `next` throws
   */
  async change(workloadId: string, next: (current: Workload | undefined) => Workload, commit: Commit): Promise<Workload> {
    const changed = await changeEntity<Workload>(this.#store, { space: WORKLOADS, key: workloadId, object: workloadId, commit, next });
    await this.#workloads.refresh(workloadId);
    return changed;
  }

  /** Whichever org it is of. */
  find(workloadId: string): Workload | undefined {
    return this.#workloads.get(workloadId);
  }

  /** Creates or replaces. */
  async put(workload: Workload, commit: Commit = commitAlone(this.#store)): Promise<void> {
    await commit(workload.workload_id, [{ op: 'put', space: WORKLOADS, key: workload.workload_id, value: workload }]);
    await this.#workloads.refresh(workload.workload_id);
  }

  /**
   * These are all workloads from now on, in one commit; tokens of those that stay are kept. Only `default` stays as a fresh store has it where it is none of them:
   * traffic that names no workload is of somebody.
   */
  async replaceAll(workloads: readonly Workload[], commit: Commit = commitAlone(this.#store)): Promise<void> {
    const next = new Map<string, Workload>([
      [DEFAULT_WORKLOAD_ID, SEEDED_WORKLOAD],
      ...workloads.map((one) => [one.workload_id, one] as const),
    ]);
    const before = this.list();
    const gone = before.map(({ workload_id: id }) => id).filter((id) => !next.has(id));
    const others = [...next].filter(([id, one]) => !isDeepStrictEqual(one, this.#workloads.get(id)));
    await commit(undefined, [
      ...gone.flatMap((key): readonly Effect[] => [WORKLOADS, WORKLOAD_TOKENS].map((space) => ({ op: 'delete', space, key }))),
      ...others.map(([key, value]): Effect => ({ op: 'put', space: WORKLOADS, key, value })),
    ]);
    await Promise.all([...gone, ...others.map(([id]) => id)].map((id) => this.#workloads.refresh(id)));
    await Promise.all(gone.map((id) => this.#tokens.refresh(id)));
  }

  /** Removes the workload and its token. False when there is none. */
  async remove(workloadId: string, commit: Commit = commitAlone(this.#store)): Promise<boolean> {
    if (!this.#workloads.has(workloadId)) return false;
    await commit(workloadId, [
      { op: 'delete', space: WORKLOADS, key: workloadId },
      { op: 'delete', space: WORKLOAD_TOKENS, key: workloadId },
    ]);
    await Promise.all([this.#workloads.refresh(workloadId), this.#tokens.refresh(workloadId)]);
    return true;
  }

  /** Makes a new token, replacing an older one; the plain text is returned this once (decision 4.5). Undefined when the workload is unknown. */
  async issueToken(workloadId: string, commit: Commit = commitAlone(this.#store)): Promise<string | undefined> {
    if (!this.#workloads.has(workloadId)) return undefined;
    const token = WORKLOAD_TOKEN_PREFIX + randomBytes(32).toString('base64url');
    const hash = sha256Hex(token);
    await commit(workloadId, [{ op: 'put', space: WORKLOAD_TOKENS, key: workloadId, value: hash }]);
    await this.#tokens.refresh(workloadId);
    return token;
  }

  /** False when the workload has no token. */
  async removeToken(workloadId: string, commit: Commit = commitAlone(this.#store)): Promise<boolean> {
    if (!this.#tokens.has(workloadId)) return false;
    await commit(workloadId, [{ op: 'delete', space: WORKLOAD_TOKENS, key: workloadId }]);
    await this.#tokens.refresh(workloadId);
    return true;
  }

  hasToken(workloadId: string): boolean {
    return this.#tokens.has(workloadId);
  }

  /** True when the workload has a token and this is it. */
  tokenMatches(workloadId: string, presented: string): boolean {
    const stored = this.#tokens.get(workloadId);
    return stored !== undefined && sameSecret(stored, sha256Hex(presented));
  }

  /** The workload whose token this is; undefined when it is nobody's. */
  holderOf(presented: string): string | undefined {
    return this.#holders.get(sha256Hex(presented));
  }
}

interface Spaces {
  readonly workloads: WatchedSpace<Workload>;
  readonly tokens: WatchedSpace<string>;
  readonly holders: ReadonlyMap<string, string>;
  readonly defaults: OrgDefaultsService;
}

async function openSpaces(store: Store): Promise<Spaces> {
  const holders = new Map<string, string>();
  return {
    workloads: await WatchedSpace.open(store, WORKLOADS, { read: (value) => value as Workload, orgOf: ({ org_id }) => org_id }),
    tokens: await WatchedSpace.open<string>(store, WORKLOAD_TOKENS, {
      read: (value) => (typeof value === 'string' ? value : undefined),
      changed: (workloadId, hash, before) => {
        if (before !== undefined) holders.delete(before);
        if (hash !== undefined) holders.set(hash, workloadId);
      },
    }),
    holders,
    defaults: await OrgDefaultsService.open(store),
  };
}

/** Of several writers that come to a fresh store at once, one seeds it. */
async function seed(store: Store): Promise<void> {
  const effects: readonly Effect[] = [
    { op: 'put', space: WORKLOADS, key: DEFAULT_WORKLOAD_ID, value: SEEDED_WORKLOAD },
    OrgDefaultsService.ofAll({ workload_id: DEFAULT_WORKLOAD_ID }),
    { op: 'put', space: SEEDED, key: WORKLOADS, value: true },
  ];
  try {
    await store.commit(undefined, effects, [{ space: SEEDED, key: WORKLOADS, version: undefined }]);
  } catch (error) {
    if (!(error instanceof GatewayError) || error.code !== 'conflict') throw error;
  }
}
