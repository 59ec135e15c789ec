import type { JsonObject } from '../../base/json/json-object.ts';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { SealError, type Sealed, type SecretBox } from '../../base/lib/secret-box.ts';
import type { Commit } from '../../services/commit.ts';
import type { Store } from '../../storage/contract/store.ts';
import { ENTITY_SPACE, keyIn, prefixOf } from './control-plane-spaces.ts';
import type { EntityKind, OrgEntity, Resource } from './control-plane-state.ts';
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

/** Judges bodies by the rules of the gateway's own API. @throws GatewayError `invalid_request` naming every member that is wrong */
export type ReadBodies = Readonly<Record<EntityKind, (asked: AskedEntity) => ReadEntity>>;

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

/** Workloads, credentials, export destinations and add-ons of orgs. What is secret of them is sealed at rest, and opened for gateways alone (decision 13.5). */
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

  /** Those behind `after`, in the order of their ids, with their secrets. @throws SealError when one cannot be opened */
  async open(orgId: string, kind: EntityKind, after: string | undefined, limit: number): Promise<readonly OpenEntity[]> {
    const page = await this.#page(orgId, kind, after, limit);
    return page.map(({ id, value, sealed }) => ({ id, value, secret: this.#secret(orgId, kind, id, sealed) }));
  }

  /** @throws GatewayError `invalid_request` naming every member that is wrong, `conflict` when somebody else was first */
  async put(orgId: string, kind: EntityKind, id: string, body: JsonObject, commit: Commit): Promise<OrgEntity> {
    const { clock, box, read } = this.#options;
    return this.#change(orgId, kind, id, commit, (before) => {
      const asked: AskedEntity = {
        orgId,
        id,
        body,
        before: before?.value,
        hasSecret: before?.sealed !== undefined,
        at: timestamp(clock.now()),
      };
      const { value, secret } = read[kind](asked);
      const sealed = secret === undefined ? before?.sealed : box.seal(secret, contextOf(orgId, kind, id));
      return { org_id: orgId, value, ...(sealed === undefined ? {} : { sealed }) };
    });
  }

  /** @throws GatewayError `not_found` */
  async remove(orgId: string, kind: EntityKind, id: string, commit: Commit): Promise<void> {
    const space = ENTITY_SPACE[kind];
    const key = keyIn(orgId, id);
    const found = await this.#options.store.entity(space, key);
    if (found === undefined) throw unknown(kind, id);
    await this.#raising(orgId, kind, commit)(id, [{ op: 'delete', space, key }], [{ space, key, version: found.version }]);
  }

  /** Gives a `node_scoped` credential to a node, or takes it away. @throws GatewayError `not_found`; `conflict` for one that is org_wide */
  async assign(orgId: string, id: string, nodeId: string, assigned: boolean, commit: Commit): Promise<OrgEntity> {
    return this.#change(orgId, 'credentials', id, commit, (before) => {
      if (before === undefined) throw unknown('credentials', id);
      if (before.value['distribution'] !== 'node_scoped')
        throw new GatewayError('conflict', 'An org_wide credential is on every node; none can be assigned.');
      const others = nodesOf(before.value).filter((one) => one !== nodeId);
      return { ...before, value: { ...before.value, node_ids: assigned ? [...others, nodeId].sort() : others } };
    });
  }

  async #change(
    orgId: string,
    kind: EntityKind,
    id: string,
    commit: Commit,
    next: (before: StoredEntity | undefined) => StoredEntity,
  ): Promise<OrgEntity> {
    const space = ENTITY_SPACE[kind];
    const key = keyIn(orgId, id);
    const found = await this.#options.store.entity(space, key);
    const value = next(found?.value as StoredEntity | undefined);
    await this.#raising(orgId, kind, commit)(id, [{ op: 'put', space, key, value }], [{ space, key, version: found?.version }]);
    return { id, value: value.value };
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

/** Where a sealed secret belongs. */
function contextOf(orgId: string, kind: EntityKind, id: string): string {
  return `control plane ${kind} ${orgId} ${id}`;
}

function unknown(kind: EntityKind, id: string): GatewayError {
  return new GatewayError('not_found', `There is no ${WHAT[kind]} ${id}.`);
}
