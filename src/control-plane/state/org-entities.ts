import type { JsonObject } from '../../base/json/json-object.ts';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { SealError, type Sealed, type SecretBox } from '../../base/lib/secret-box.ts';
import type { PlanTier } from '../../base/model/org.ts';
import type { Commit } from '../../services/registers/commit.ts';
import type { Effect, Expectation, Store } from '../../storage/contract/store.ts';
import { ENTITY_SPACE, keyIn, prefixOf } from './control-plane-spaces.ts';
import type { EntityKind, Org, OrgEntity, Resource } from './control-plane-state.ts';
import type { OrgVersions } from './org-versions.ts';

const PAGE = 500;
const RESOURCE: Readonly<Record<EntityKind, Resource>> = {
  workloads: 'workloads',
  credentials: 'credentials',
  'export-destinations': 'export_config',
  addons: 'addons',
};
const WHAT: Readonly<Record<EntityKind, string>> = {
  workloads: 'workload',
  credentials: 'credential',
  'export-destinations': 'export destination',
  addons: 'add-on',
};

/** What a body asks for. */
export interface AskedEntity {
  readonly orgId: string;
  /** What the org has bought. */
  readonly tier: PlanTier;
  readonly id: string;
  readonly body: JsonObject;
  /** What is there, without its secret; undefined: nothing. */
  readonly before: JsonObject | undefined;
  /** Whether what is there has a secret. */
  readonly hasSecret: boolean;
  /** Now, RFC 3339. */
  readonly at: string;
}

export interface ReadEntity {
  /** Without secrets. */
  readonly value: JsonObject;
  /** Undefined: the one that is there stays. */
  readonly secret: string | undefined;
}

/**
 * Judges bodies by the rules of the gateway's own API.
 * @throws GatewayError `invalid_request` naming every member that is wrong
 */
export type ReadBodies = Readonly<Record<EntityKind, (asked: AskedEntity) => ReadEntity>>;

/** What becomes of something, from what is there. */
type NextState = (before: StoredEntity | undefined) => StoredEntity;

/** What can be changed of a credential that stays. */
export interface CredentialAmendment {
  readonly name?: string;
  readonly distribution?: string;
  readonly node_ids?: readonly string[];
}

interface StoredEntity {
  readonly org_id: string;
  readonly value: JsonObject;
  readonly sealed?: Sealed;
}

/** With its secret, for gateways and nobody else. */
export interface OpenEntity extends OrgEntity {
  readonly value: JsonObject;
  /** Undefined: it has none. */
  readonly secret: string | undefined;
}

export interface OrgEntitiesOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly versions: OrgVersions;
  readonly box: SecretBox;
  readonly read: ReadBodies;
}

/**
 * Workloads, credentials, export destinations and add-ons of orgs. What is secret of them is sealed at rest, and opened
 * for gateways alone (decision 13.5).
 */
export class OrgEntities {
  readonly #options: OrgEntitiesOptions;

  constructor(options: OrgEntitiesOptions) {
    this.#options = options;
  }

  async list(orgId: string, kind: EntityKind): Promise<readonly OrgEntity[]> {
    const found: OrgEntity[] = [];
    for (let after: string | undefined, more = true; more; ) {
      const page = await this.#page(orgId, kind, after, PAGE);
      found.push(...page.map(({ id, value }) => ({ id, value })));
      after = page.at(-1)?.id;
      more = page.length === PAGE;
    }
    return found;
  }

  /** @throws GatewayError `not_found` */
  async get(orgId: string, kind: EntityKind, id: string): Promise<OrgEntity> {
    const stored = (await this.#options.store.get(ENTITY_SPACE[kind], keyIn(orgId, id))) as StoredEntity | undefined;
    if (stored === undefined) throw unknown(kind, id);
    return { id, value: stored.value };
  }

  /**
   * Those behind `after`, in the order of their ids, with their secrets.
   * @throws SealError when one cannot be opened
   */
  async open(orgId: string, kind: EntityKind, after: string | undefined, limit: number): Promise<readonly OpenEntity[]> {
    const page = await this.#page(orgId, kind, after, limit);
    return page.map(({ id, value, sealed }) => ({ id, value, secret: this.#secret(orgId, kind, id, sealed) }));
  }

  /**
   * @throws GatewayError `invalid_request` naming every member that is wrong, `conflict` when somebody else was first
   */
  async put(org: Org, kind: EntityKind, id: string, body: JsonObject, commit: Commit): Promise<OrgEntity> {
    const [put = { id, value: {} }] = await this.putAll(org, kind, [{ id, body }], commit);
    return put;
  }

  /**
   * Several in one commit, all of them or none.
   * @param only `create`: none of them may be there; `update`: all of them must be
   * @throws GatewayError as {@link put}; `precondition_failed`
   */
  async putAll(
    org: Org,
    kind: EntityKind,
    given: readonly { readonly id: string; readonly body: JsonObject }[],
    commit: Commit,
    only?: 'create' | 'update',
  ): Promise<readonly OrgEntity[]> {
    const next = given.map(({ id, body }) => ({ id, next: this.#asking(org, kind, id, body, only) }));
    return this.#changeAll(org.org_id, kind, next, commit);
  }

  /** Whence the secret of what is there comes. @throws SealError when it cannot be opened */
  async secretSource(orgId: string, kind: EntityKind, id: string): Promise<'stored' | 'environment' | 'none'> {
    const stored = (await this.#options.store.get(ENTITY_SPACE[kind], keyIn(orgId, id))) as StoredEntity | undefined;
    const secret = this.#secret(orgId, kind, id, stored?.sealed);
    return secret === undefined ? 'none' : secret.startsWith('env:') ? 'environment' : 'stored';
  }

  #asking(org: Org, kind: EntityKind, id: string, body: JsonObject, only: 'create' | 'update' | undefined): NextState {
    const { clock, box, read } = this.#options;
    const { org_id: orgId, plan_tier: tier } = org;
    return (before) => {
      if (only !== undefined && (before === undefined) !== (only === 'create'))
        throw new GatewayError('precondition_failed', `The ${WHAT[kind]} ${id} is ${before === undefined ? 'not ' : ''}there.`);
      const asked: AskedEntity = {
        orgId,
        tier,
        id,
        body,
        before: before?.value,
        hasSecret: before?.sealed !== undefined,
        at: timestamp(clock.now()),
      };
      const { value, secret } = read[kind](asked);
      const sealed = secret === undefined ? before?.sealed : box.seal(secret, contextOf(orgId, kind, id));
      return { org_id: orgId, value, ...(sealed === undefined ? {} : { sealed }) };
    };
  }

  /** @throws GatewayError `not_found` */
  async remove(orgId: string, kind: EntityKind, id: string, commit: Commit): Promise<void> {
    await this.removeAll(orgId, kind, [id], commit);
  }

  /**
   * Several in one commit, all of them or none.
   * @throws GatewayError `not_found`; `conflict` when somebody else was first
   */
  async removeAll(orgId: string, kind: EntityKind, ids: readonly string[], commit: Commit): Promise<void> {
    const space = ENTITY_SPACE[kind];
    const effects: Effect[] = [];
    const expect: Expectation[] = [];
    for (const id of ids) {
      const key = keyIn(orgId, id);
      const found = await this.#options.store.entity(space, key);
      if (found === undefined) throw unknown(kind, id);
      effects.push({ op: 'delete', space, key });
      expect.push({ space, key, version: found.version });
    }
    await this.#raising(orgId, kind, commit)(ids.length === 1 ? ids[0] : undefined, effects, expect);
  }

  /**
   * Gives a `node_scoped` credential to a node, or takes it away.
   * @throws GatewayError `not_found`; `conflict` for one that is org_wide
   */
  async assign(orgId: string, id: string, nodeId: string, assigned: boolean, commit: Commit): Promise<OrgEntity> {
    return this.#change(orgId, 'credentials', id, commit, (before) => {
      if (before === undefined) throw unknown('credentials', id);
      if (before.value['distribution'] !== 'node_scoped')
        throw new GatewayError('conflict', 'An org_wide credential is on every node; none can be assigned.');
      const others = nodesOf(before.value).filter((one) => one !== nodeId);
      return { ...before, value: { ...before.value, node_ids: assigned ? [...others, nodeId].sort() : others } };
    });
  }

  /**
   * Changes what can be changed of a credential that stays: its name, and the nodes that it is assigned to. What is
   * undefined stays.
   * @throws GatewayError `not_found`; `INVALID_ARGUMENT` for another distribution, or nodes of an org_wide one
   */
  async amend(orgId: string, id: string, { name, distribution, node_ids: nodes }: CredentialAmendment, commit: Commit): Promise<OrgEntity> {
    return this.#change(orgId, 'credentials', id, commit, (before) => {
      if (before === undefined) throw unknown('credentials', id);
      const present = before.value['distribution'];
      if (distribution !== undefined && distribution !== present)
        throw new GatewayError('INVALID_ARGUMENT', 'The distribution of a credential is fixed when it is made.');
      if (nodes !== undefined && present !== 'node_scoped')
        throw new GatewayError('INVALID_ARGUMENT', 'An org_wide credential is on every node; none can be assigned.');
      const value = {
        ...before.value,
        ...(name === undefined ? {} : { name }),
        ...(nodes === undefined ? {} : { node_ids: [...new Set(nodes)].sort() }),
        updated_at: timestamp(this.#options.clock.now()),
      };
      return { ...before, value };
    });
  }

  async #change(orgId: string, kind: EntityKind, id: string, commit: Commit, next: NextState): Promise<OrgEntity> {
    const [changed = { id, value: {} }] = await this.#changeAll(orgId, kind, [{ id, next }], commit);
    return changed;
  }

  async #changeAll(
    orgId: string,
    kind: EntityKind,
    changes: readonly { readonly id: string; readonly next: NextState }[],
    commit: Commit,
  ): Promise<readonly OrgEntity[]> {
    const space = ENTITY_SPACE[kind];
    const effects: Effect[] = [];
    const expect: Expectation[] = [];
    const changed: OrgEntity[] = [];
    for (const { id, next } of changes) {
      const key = keyIn(orgId, id);
      const found = await this.#options.store.entity(space, key);
      const value = next(found?.value as StoredEntity | undefined);
      effects.push({ op: 'put', space, key, value });
      expect.push({ space, key, version: found?.version });
      changed.push({ id, value: value.value });
    }
    await this.#raising(orgId, kind, commit)(changes.length === 1 ? changes[0]?.id : undefined, effects, expect);
    return changed;
  }

  async #page(
    orgId: string,
    kind: EntityKind,
    after: string | undefined,
    limit: number,
  ): Promise<readonly (StoredEntity & { id: string })[]> {
    const prefix = prefixOf(orgId);
    const rows = await this.#options.store.list(ENTITY_SPACE[kind], {
      prefix,
      limit,
      ...(after === undefined ? {} : { after: prefix + after }),
    });
    return rows.map(({ key, value }) => ({ ...(value as StoredEntity), id: key.slice(prefix.length) }));
  }

  #secret(orgId: string, kind: EntityKind, id: string, sealed: Sealed | undefined): string | undefined {
    if (sealed === undefined) return undefined;
    try {
      return this.#options.box.open(sealed, contextOf(orgId, kind, id)).toString();
    } catch (error) {
      if (!(error instanceof SealError)) throw error;
      throw new SealError(`the secret of the ${WHAT[kind]} ${id} cannot be opened; was CP_SECRETS_KEY changed?`, { cause: error });
    }
  }

  #raising(orgId: string, kind: EntityKind, commit: Commit): Commit {
    return this.#options.versions.raising(orgId, [RESOURCE[kind]], commit);
  }
}

/** Nodes that a credential is assigned to. */
export function nodesOf(value: JsonObject): readonly string[] {
  const nodes = value['node_ids'];
  return Array.isArray(nodes) ? nodes.filter((one): one is string => typeof one === 'string') : [];
}

/** Spaces whose entities may have a sealed secret, and where what stands under a key belongs. */
export const SEALED_OF_PLANE: readonly (readonly [space: string, contextOf: (key: string) => string])[] = (
  Object.entries(ENTITY_SPACE) as [EntityKind, string][]
).map(([kind, space]) => [space, (key) => contextOf(key.slice(0, key.indexOf(' ')), kind, key.slice(key.indexOf(' ') + 1))]);

/** Where a sealed secret belongs. */
function contextOf(orgId: string, kind: EntityKind, id: string): string {
  return `control plane ${kind} ${orgId} ${id}`;
}

function unknown(kind: EntityKind, id: string): GatewayError {
  return new GatewayError('not_found', `There is no ${WHAT[kind]} ${id}.`);
}
