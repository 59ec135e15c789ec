/*
 * Services: stateful verbs that the pipeline and the surfaces share. A service owns its entities in the store and keeps what the path of a request
 * needs in memory; it never writes an HTTP answer.
 */
import { randomBytes } from 'node:crypto';
import { WORKLOAD_TOKEN_PREFIX } from '../base/lib/own-tokens.ts';
import { sameSecret } from '../base/lib/secret.ts';
import { sha256Hex } from '../base/lib/sha256.ts';
import type { Workload } from '../base/model/workload.ts';
import type { Store } from '../storage/contract/store.ts';
import { type Commit, commitAlone } from './commit.ts';

const WORKLOADS = 'workload';
const TOKENS = 'workload_token';
const DEFAULTS = 'org_defaults';
const SEEDED = 'seeded';
const ANY_ORG = '*';

/** The workload that a fresh store contains (decision 4.4). */
export const DEFAULT_WORKLOAD_ID = 'default';

/** The registered workloads, their tokens and the org defaults that name one (decisions 4.1, 4.4, 4.5). */
export class WorkloadService {
  readonly #store: Store;
  readonly #workloads = new Map<string, Workload>();
  /** Workload id to SHA-256 of its token. */
  readonly #tokens = new Map<string, string>();
  /** The other way round. */
  readonly #holders = new Map<string, string>();
  /** By org; `*` stands for all that have none of their own. */
  readonly #defaults = new Map<string, string>();

  private constructor(store: Store) {
    this.#store = store;
  }

  /** Reads everything into memory; a fresh store gets the workload `default` and org defaults that name it. */
  static async open(store: Store): Promise<WorkloadService> {
    const service = new WorkloadService(store);
    if ((await store.get(SEEDED, WORKLOADS)) === undefined) await service.#seed();
    for (const { key, value } of await store.list(WORKLOADS)) service.#workloads.set(key, value as Workload);
    for (const { key, value } of await store.list(TOKENS)) if (typeof value === 'string') service.#setToken(key, value);
    for (const { key, value } of await store.list(DEFAULTS)) if (isDefaults(value)) service.#defaults.set(key, value.workload_id);
    return service;
  }

  async #seed(): Promise<void> {
    const workload: Workload = { workload_id: DEFAULT_WORKLOAD_ID, name: 'Default workload' };
    await this.#store.commit(undefined, [
      { op: 'put', space: WORKLOADS, key: DEFAULT_WORKLOAD_ID, value: workload },
      { op: 'put', space: DEFAULTS, key: ANY_ORG, value: { workload_id: DEFAULT_WORKLOAD_ID } },
      { op: 'put', space: SEEDED, key: WORKLOADS, value: true },
    ]);
  }

  /** The workload of proxied traffic that names none. */
  defaultWorkloadId(orgId: string): string {
    return this.#defaults.get(orgId) ?? this.#defaults.get(ANY_ORG) ?? DEFAULT_WORKLOAD_ID;
  }

  /** A workload that this org may use; undefined when there is none. */
  get(orgId: string, workloadId: string): Workload | undefined {
    const found = this.#workloads.get(workloadId);
    return found?.org_id === undefined || found.org_id === orgId ? found : undefined;
  }

  /** True when some workload belongs to this org alone. */
  knowsOrg(orgId: string): boolean {
    for (const workload of this.#workloads.values()) if (workload.org_id === orgId) return true;
    return false;
  }

  /** In the order of their ids. */
  list(): readonly Workload[] {
    return [...this.#workloads.values()].sort((a, b) => (a.workload_id < b.workload_id ? -1 : 1));
  }

  /** Creates or replaces. */
  async put(workload: Workload, commit: Commit = commitAlone(this.#store)): Promise<void> {
    await commit(workload.workload_id, [{ op: 'put', space: WORKLOADS, key: workload.workload_id, value: workload }]);
    this.#workloads.set(workload.workload_id, workload);
  }

  /** Removes the workload and its token. False when there is none. */
  async remove(workloadId: string, commit: Commit = commitAlone(this.#store)): Promise<boolean> {
    if (!this.#workloads.has(workloadId)) return false;
    await commit(workloadId, [
      { op: 'delete', space: WORKLOADS, key: workloadId },
      { op: 'delete', space: TOKENS, key: workloadId },
    ]);
    this.#workloads.delete(workloadId);
    this.#setToken(workloadId, undefined);
    return true;
  }

  /** Makes a new token, replacing an older one; the plain text is returned this once (decision 4.5). Undefined when the workload is unknown. */
  async issueToken(workloadId: string, commit: Commit = commitAlone(this.#store)): Promise<string | undefined> {
    if (!this.#workloads.has(workloadId)) return undefined;
    const token = WORKLOAD_TOKEN_PREFIX + randomBytes(32).toString('base64url');
    const hash = sha256Hex(token);
    await commit(workloadId, [{ op: 'put', space: TOKENS, key: workloadId, value: hash }]);
    this.#setToken(workloadId, hash);
    return token;
  }

  /** False when the workload has no token. */
  async removeToken(workloadId: string, commit: Commit = commitAlone(this.#store)): Promise<boolean> {
    if (!this.#tokens.has(workloadId)) return false;
    await commit(workloadId, [{ op: 'delete', space: TOKENS, key: workloadId }]);
    this.#setToken(workloadId, undefined);
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

  #setToken(workloadId: string, hash: string | undefined): void {
    const before = this.#tokens.get(workloadId);
    if (before !== undefined) this.#holders.delete(before);
    this.#tokens.delete(workloadId);
    if (hash === undefined) return;
    this.#tokens.set(workloadId, hash);
    this.#holders.set(hash, workloadId);
  }
}

function isDefaults(value: unknown): value is { workload_id: string } {
  return typeof value === 'object' && value !== null && 'workload_id' in value && typeof value.workload_id === 'string';
}
