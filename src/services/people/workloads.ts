/*
 * Services: stateful verbs that the pipeline and the surfaces share. A service owns its entities in the store and keeps
 * what the path of a request needs in memory; it never writes an HTTP answer.
 */
import { randomBytes } from 'node:crypto';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { WORKLOAD_TOKEN_PREFIX } from '../../base/lib/own-tokens.ts';
import { sameSecret } from '../../base/lib/secret-box.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import type { Attribution } from '../../base/model/action-request.ts';
import type { Workload } from '../../base/model/workload.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import { workloadRateRemoval } from '../money/workload-rates.ts';
import { type Commit, commitInParts, unlessConflict } from '../registers/commit.ts';
import { type WorkloadName, workloadKey } from '../registers/org-key.ts';
import { type Along, changesTo, REMOVED, Register } from '../registers/register.ts';
import { entityWith } from '../registers/watched-space.ts';
import { OrgDefaultsService } from './org-defaults.ts';

export const WORKLOADS = 'workload';
export const WORKLOAD_TOKENS = 'workload_token';
const SEEDED = 'seeded';

const stored = entityWith<Workload>('workload_id');

/** The workload that a fresh store contains (decision 4.4). */
export const DEFAULT_WORKLOAD_ID = 'default';
const SEEDED_WORKLOAD: Workload = { workload_id: DEFAULT_WORKLOAD_ID, name: 'Default workload' };

/**
 * The registered workloads, their tokens and the org defaults (decisions 4.1, 4.4, 4.5), in memory, also as other
 * writers of the store change them. Each org has ids of its own: what another calls its workloads is neither in its way
 * nor told to it. One of no org counts for every org that has none of that id.
 */
export class WorkloadService {
  readonly #workloads: Register<Workload>;
  /** By org, then by id. */
  readonly #byOrg: ByOrg;
  /** Key of a workload to SHA-256 of its token. */
  readonly #tokens: Register<string>;
  /** The other way round. */
  readonly #holders: ReadonlyMap<string, string>;
  /** What an org gives to traffic that names none of it. */
  readonly orgDefaults: OrgDefaultsService;

  private constructor(spaces: Spaces) {
    this.#workloads = spaces.workloads;
    this.#byOrg = spaces.byOrg;
    this.#tokens = spaces.tokens;
    this.#holders = spaces.holders;
    this.orgDefaults = spaces.defaults;
  }

  /** Reads everything into memory; a fresh store gets the workload `default` and org defaults that name it. */
  static async open(store: Store): Promise<WorkloadService> {
    if ((await store.get(SEEDED, WORKLOADS)) === undefined) await seed(store);
    await moveWorkloads(store);
    return new WorkloadService(await openSpaces(store));
  }

  /** The workload of proxied traffic that names none. */
  defaultWorkloadId(orgId: string): string {
    return this.orgDefaults.workloadId(orgId) ?? DEFAULT_WORKLOAD_ID;
  }

  /** What is charged where neither caller, workload nor policy says it; undefined when the org says nothing either. */
  defaultAttribution(orgId: string): Attribution | undefined {
    return this.orgDefaults.attribution(orgId);
  }

  /** A workload that this org may use: its own, else one that counts for every org; undefined when there is none. */
  get(orgId: string, workloadId: string): Workload | undefined {
    return this.#byOrg.get(orgId)?.get(workloadId) ?? this.#byOrg.get(EVERY_ORG)?.get(workloadId);
  }

  /** In the order of their ids. */
  list(): readonly Workload[] {
    return [...this.#workloads.values()].sort(byId);
  }

  /** Those that an org may use, in the order of their ids: its own, and those of every org whose ids it has none of. */
  usableBy(orgId: string): readonly Workload[] {
    const own = this.#byOrg.get(orgId);
    const shared = [...(this.#byOrg.get(EVERY_ORG)?.values() ?? [])].filter(({ workload_id: id }) => own?.has(id) !== true);
    return [...(own?.values() ?? []), ...shared].sort(byId);
  }

  /**
   * Creates or replaces one, from the state that `next` has seen.
   * @param next gives the workload, from the one of this name that is there
   * @throws GatewayError what `next` throws
   */
  change(name: WorkloadName, next: (current: Workload | undefined) => Workload, commit: Commit): Promise<Workload> {
    return this.#workloads.change(workloadKey(name), next, { commit, object: name.workload_id });
  }

  /**
   * The one that an admin means who names no org: one that counts for every org, else the only one of this id.
   * @throws GatewayError `conflict` where several orgs have one
   */
  named(workloadId: string, orgId: string | undefined): Workload | undefined {
    if (orgId !== undefined) return this.#byOrg.get(orgId)?.get(workloadId);
    const shared = this.#byOrg.get(EVERY_ORG)?.get(workloadId);
    if (shared !== undefined) return shared;
    const all = this.list().filter((one) => one.workload_id === workloadId);
    if (all.length > 1)
      throw new GatewayError('conflict', `${all.length} orgs have a workload ${workloadId}: say by org_id which is meant.`);
    return all[0];
  }

  /** The only org that has one of this id; undefined where none or several have one. */
  onlyOrgOf(workloadId: string): string | undefined {
    let only: string | undefined;
    for (const [org, workloads] of this.#byOrg) {
      if (org === EVERY_ORG || !workloads.has(workloadId)) continue;
      if (only !== undefined) return undefined;
      only = org;
    }
    return only;
  }

  /**
   * Creates or changes one as {@link change}. One that counted for every org becomes that of an org, as {@link put} has
   * it.
   * @param next gives the workload, from the one that is there, by this name or to become it
   * @throws GatewayError what `next` throws
   */
  async changeOrMove(name: WorkloadName, next: (current: Workload | undefined) => Workload, commit?: Commit): Promise<Workload> {
    const key = workloadKey(name);
    const before = this.#formerKey(key, name);
    const moved = (current: Workload | undefined, { effects }: Along): Workload => {
      if (before !== key) effects.push(this.#workloads.effect(before, REMOVED), ...this.#tokenMoved(before, key));
      return next(current ?? this.#workloads.get(before));
    };
    const changed = await this.#workloads.change(key, moved, { commit, object: name.workload_id });
    if (before !== key) await Promise.all([this.#workloads.refresh(before), this.#tokens.refresh(before), this.#tokens.refresh(key)]);
    return changed;
  }

  /**
   * Creates or replaces. One that counted for every org becomes that of an org, with its token, where the org has none
   * of this id: it must not be open beside it.
   */
  async put(workload: Workload, commit?: Commit): Promise<void> {
    await this.changeOrMove(workload, () => workload, commit);
  }

  /** Of which one a workload becomes that is written under this key: itself, or one that counted for every org. */
  #formerKey(key: string, { workload_id: id }: WorkloadName): string {
    return !this.#workloads.has(key) && this.#workloads.has(id) ? id : key;
  }

  #tokenMoved(from: string, to: string): readonly Effect[] {
    const token = this.#tokens.get(from);
    const isMoved = token !== undefined && !this.#tokens.has(to);
    return [this.#tokens.effect(from, REMOVED), ...(isMoved ? [this.#tokens.effect(to, token)] : [])];
  }

  /**
   * These are all workloads from now on, in one commit; tokens of those that stay are kept. Only `default` stays as a
   * fresh store has it where it is none of them: traffic that names no workload is of somebody.
   */
  async replaceAll(workloads: readonly Workload[], commit?: Commit): Promise<void> {
    const next = new Map<string, Workload>([
      ...(workloads.some(({ workload_id: id }) => id === DEFAULT_WORKLOAD_ID) ? [] : [[DEFAULT_WORKLOAD_ID, SEEDED_WORKLOAD] as const]),
      ...workloads.map((one) => [workloadKey(one), one] as const),
    ]);
    // One that is of another org now, or of one, is the same one.
    const heirOf = (key: string): string => {
      const id = this.#workloads.get(key)?.workload_id;
      return [...next].find(([, { workload_id: other }]) => other === id)?.[0] ?? key;
    };
    const changes = changesTo(next, this.#workloads.entries());
    const moves = [...changes].flatMap(([key, value]) => (value === REMOVED ? [[key, heirOf(key)] as const] : []));
    await this.#workloads.changeAll(
      changes,
      { commit },
      moves.flatMap(([from, to]) => this.#tokenMoved(from, to)),
    );
    await Promise.all(moves.flat().map((key) => this.#tokens.refresh(key)));
  }

  /** Removes the workload and its token. False when there is none. */
  async remove(name: WorkloadName, commit?: Commit): Promise<boolean> {
    const key = workloadKey(name);
    const removed = await this.#workloads.remove(key, { commit, object: name.workload_id }, (_workload, { effects }) =>
      effects.push(this.#tokens.effect(key, REMOVED), ...workloadRateRemoval(name)),
    );
    await this.#tokens.refresh(key);
    return removed;
  }

  /**
   * Makes a new token, replacing an older one; the plain text is returned this once (decision 4.5). Undefined when the
   * workload is unknown.
   */
  async issueToken(name: WorkloadName, commit?: Commit): Promise<string | undefined> {
    const key = workloadKey(name);
    if (!this.#workloads.has(key)) return undefined;
    const token = WORKLOAD_TOKEN_PREFIX + randomBytes(32).toString('base64url');
    await this.#tokens.change(key, () => sha256Hex(token), { commit, object: name.workload_id });
    return token;
  }

  /** False when the workload has no token. */
  removeToken(name: WorkloadName, commit?: Commit): Promise<boolean> {
    return this.#tokens.remove(workloadKey(name), { commit, object: name.workload_id });
  }

  /**
   * SHA-256 of the token that a workload must show; undefined where it needs none. Where callers have shown nothing yet
   * no workload has to exist.
   */
  #tokenOf(orgId: string, workloadId: string): string | undefined {
    if (this.#tokens.size === 0) return undefined;
    const found = this.get(orgId, workloadId);
    return found && this.#tokens.get(workloadKey(found));
  }

  hasToken(orgId: string, workloadId: string): boolean {
    return this.#tokenOf(orgId, workloadId) !== undefined;
  }

  /** True when the workload has a token and this is it. */
  tokenMatches(orgId: string, workloadId: string, presented: string): boolean {
    const hash = this.#tokenOf(orgId, workloadId);
    return hash !== undefined && sameSecret(hash, sha256Hex(presented));
  }

  /** The workload whose token this is; undefined when it is nobody's. */
  holderOf(presented: string): Workload | undefined {
    const key = this.#holders.get(sha256Hex(presented));
    return key === undefined ? undefined : this.#workloads.get(key);
  }
}

/** Workloads by id, by org; that of those that count for every org is no id of an org. */
type ByOrg = ReadonlyMap<string, ReadonlyMap<string, Workload>>;
const EVERY_ORG = '';

function byId(a: Workload, b: Workload): number {
  if (a.workload_id !== b.workload_id) return a.workload_id < b.workload_id ? -1 : 1;
  return (a.org_id ?? EVERY_ORG) < (b.org_id ?? EVERY_ORG) ? -1 : 1;
}

interface Spaces {
  readonly workloads: Register<Workload>;
  readonly byOrg: ByOrg;
  readonly tokens: Register<string>;
  readonly holders: ReadonlyMap<string, string>;
  readonly defaults: OrgDefaultsService;
}

async function openSpaces(store: Store): Promise<Spaces> {
  const holders = new Map<string, string>();
  const byOrg = new Map<string, Map<string, Workload>>();
  return {
    workloads: await Register.open(store, WORKLOADS, {
      read: stored,
      changed: (_key, workload, before) => {
        if (before !== undefined) byOrg.get(before.org_id ?? EVERY_ORG)?.delete(before.workload_id);
        if (workload === undefined) return;
        const org = workload.org_id ?? EVERY_ORG;
        const ofOrg = byOrg.get(org) ?? new Map<string, Workload>();
        byOrg.set(org, ofOrg.set(workload.workload_id, workload));
      },
    }),
    byOrg,
    tokens: await Register.open<string>(store, WORKLOAD_TOKENS, {
      read: (value) => (typeof value === 'string' ? value : undefined),
      changed: (key, hash, before) => {
        if (before !== undefined) holders.delete(before);
        if (hash !== undefined) holders.set(hash, key);
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
  await unlessConflict(store.commit(undefined, effects, [{ space: SEEDED, key: WORKLOADS, version: undefined }]));
}

/**
 * Brings workloads of orgs, with their tokens, to the keys that they have since each org has ids of its own: before,
 * all orgs shared one space of ids.
 */
async function moveWorkloads(store: Store): Promise<void> {
  const moves: Effect[][] = [];
  for (const { key, value } of await store.list(WORKLOADS)) {
    const workload = stored(value);
    const next = workload === undefined ? key : workloadKey(workload);
    if (next === key) continue;
    const spaces = [WORKLOADS, WORKLOAD_TOKENS].map(async (space): Promise<readonly Effect[]> => {
      const moved = await store.get(space, key);
      if (moved === undefined) return [];
      return [
        { op: 'put', space, key: next, value: moved },
        { op: 'delete', space, key },
      ];
    });
    moves.push((await Promise.all(spaces)).flat());
  }
  await commitInParts(store, moves);
}
