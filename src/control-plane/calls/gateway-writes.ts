import { isJsonObject, type JsonObject } from '../../base/json/json-object.ts';
import { type ErrorDetail, GatewayError } from '../../base/lib/gateway-error.ts';
import { TurnPerKey } from '../../base/lib/turn.ts';
import type { Principal } from '../../base/model/principal.ts';
import type { Commit } from '../../services/registers/commit.ts';
import type { WriteRequest, WriteResponse, WrittenEntry } from '../proto/messages.ts';
import type { Org } from '../state/control-plane-state.ts';
import type { NodeId } from '../state/enrolled-nodes.ts';
import type { StoredControlPlane } from '../state/stored-control-plane.ts';
import { invalid, shortText } from './checked-input.ts';
import type { NodeStates } from './node-states.ts';

const MAX_ENTRIES = 1_000;
const MAX_NAME = 128;
/** Who may have written something at a gateway. */
const KINDS = ['admin', 'management_key', 'mcp_key'] as const satisfies readonly Principal['kind'][];
const MEMBER = { node_ids: 'node_ids', name: 'name', distribution: 'distribution' } as const;

interface ReadEntry {
  readonly id: string;
  readonly body: JsonObject;
}

interface Write {
  readonly org: Org;
  readonly entries: readonly ReadEntry[];
  readonly only: 'create' | 'update' | undefined;
  readonly commit: Commit;
}

/** What is stored, as the gateway shows it. */
type Done = readonly JsonObject[];

/**
 * Carries out what was written at a gateway (decision 13.12): by the rules of the admin API, in the name of who has
 * written it there. A write that is refused is an answer, in the words that its writer would have got here.
 */
export class GatewayWrites {
  readonly #state: StoredControlPlane;
  readonly #states: NodeStates;
  /**
   * One write of an org after the other: two of the same thing at the same moment both count, as at one gateway, and
   * the later one stays.
   */
  readonly #turns = new TurnPerKey();

  constructor(state: StoredControlPlane, states: NodeStates) {
    this.#state = state;
    this.#states = states;
  }

  /** @throws ProtocolError INVALID_ARGUMENT for what no gateway sends */
  async write(node: NodeId, request: WriteRequest): Promise<WriteResponse> {
    const { register } = this.#state.registers;
    const kind = WRITES[request.kind];
    if (kind === undefined) throw invalid('kind', `must be one of ${Object.keys(WRITES).join(', ')}`);
    const { only } = request;
    if (only !== '' && only !== 'create' && only !== 'update') throw invalid('only', 'must be create, update or empty');
    const entries = entriesIn(request);
    const commit = this.#commit(node, request);
    try {
      const org = register.require(node.orgId);
      if (org.gateway_writes === 'deny')
        throw new GatewayError('managed_remotely', 'The control plane takes no writes of gateways for this org: change it there.');
      const asked: Write = { org, entries, only: only === '' ? undefined : only, commit };
      const results = await this.#turns.take(node.orgId, () => kind(this.#state, asked));
      return { org: this.#states.stateFor(node), results: results.map((one) => JSON.stringify(one)), error: '' };
    } catch (error) {
      if (!(error instanceof GatewayError) || error.code === 'record_store_unavailable' || error.code === 'shutting_down') throw error;
      return { org: this.#states.stateFor(node), results: [], error: JSON.stringify(told(error)) };
    }
  }

  #commit({ nodeId }: NodeId, { principal_kind: kind, principal_id: id, operation, from }: WriteRequest): Commit {
    const known = KINDS.find((one) => one === kind);
    if (known === undefined) throw invalid('principal_kind', `must be one of ${KINDS.join(', ')}`);
    const principal = { kind: known, id: shortText('principal_id', id, MAX_NAME) };
    const asked = { operation: shortText('operation', operation, MAX_NAME), from: shortText('from', from, MAX_NAME), nodeId };
    return this.#state.audit.commitFor({ principal, ...asked });
  }
}

function entriesIn({ kind, entries }: WriteRequest): readonly ReadEntry[] {
  const most = kind === 'credentials.put' ? MAX_ENTRIES : 1;
  if (entries.length === 0 || entries.length > most) throw invalid('entries', `must be 1 to ${most}`);
  const read = entries.map(readEntry);
  if (new Set(read.map(({ id }) => id)).size < read.length) throw invalid('entries', 'must have an id each of its own');
  return read;
}

function readEntry({ id, body, secret }: WrittenEntry): ReadEntry {
  const read = body === '' ? {} : parsed(body);
  if (!isJsonObject(read)) throw invalid('body', 'must be a JSON object');
  return { id: shortText('id', id, 2 * MAX_NAME), body: secret === '' ? read : { ...read, secret_ref: secret } };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** What each kind of write does. */
const WRITES: Readonly<Record<string, (state: StoredControlPlane, write: Write) => Promise<Done>>> = {
  'credentials.put': async ({ registers }, { org, entries, only, commit }) => {
    const put = await registers.entities.putAll(org, 'credentials', entries, commit, only);
    return Promise.all(put.map(({ id, value }) => credential(registers, org, id, value)));
  },
  'credentials.amend': async ({ registers }, { org, entries, commit }) => {
    const { id, body } = first(entries);
    const { [MEMBER.name]: name, [MEMBER.distribution]: distribution, [MEMBER.node_ids]: nodes } = body;
    const amendment = { ...textIn('name', name), ...textIn('distribution', distribution), ...textsIn(nodes) };
    const { value } = await registers.entities.amend(org.org_id, id, amendment, commit);
    return [await credential(registers, org, id, value)];
  },
  'credentials.assign': async ({ registers }, { org, entries, commit }) => {
    const { id, body } = first(entries);
    const { value } = await registers.entities.amend(org.org_id, id, textsIn(body[MEMBER.node_ids] ?? []), commit);
    return [await credential(registers, org, id, value)];
  },
  'credentials.remove': removing('credentials'),
  // All of one connector, whose id stands in the place of theirs.
  'credentials.remove_of': async ({ registers: { entities } }, { org: { org_id: orgId }, entries, commit }) => {
    const { id: connectorId } = first(entries);
    const all = await entities.list(orgId, 'credentials');
    const ids = all.filter(({ value }) => value['connector_id'] === connectorId).map(({ id }) => id);
    if (ids.length > 0) await entities.removeAll(orgId, 'credentials', ids, commit);
    return [];
  },
  'workloads.put': async ({ registers }, { org, entries, only, commit }) => {
    const put = await registers.entities.putAll(org, 'workloads', entries, commit, only);
    return put.map(({ value }) => value);
  },
  'workloads.remove': removing('workloads'),
  'addons.put': async ({ registers }, { org, entries, commit }) => {
    const put = await registers.entities.putAll(org, 'addons', entries, commit);
    return put.map(({ value }) => value);
  },
  'overlays.put': async ({ registers }, { org, entries, commit }) => {
    const { id, body } = first(entries);
    const { bundle_yaml: text } = body;
    if (typeof text !== 'string') throw invalid('body', 'needs bundle_yaml');
    if (text === '') {
      const isThere = (await registers.overlays.list(org.org_id)).some((one) => one.id === id);
      if (isThere) await registers.overlays.remove(org, id, commit);
      return [];
    }
    const { level, node_id: nodeId, put_at: at } = await registers.overlays.put(org, id, text, commit);
    return [{ level, ...(nodeId === undefined ? {} : { node_id: nodeId }), put_at: at }];
  },
  'org.suspend': ({ registers }, { org, entries, commit }) => {
    const { reason } = first(entries).body;
    return standing(registers, org, { status: 'suspended', suspended_reason: typeof reason === 'string' ? reason : null }, commit);
  },
  'org.reactivate': ({ registers }, { org, commit }) => standing(registers, org, { status: 'active', suspended_reason: null }, commit),
};

type Registers = StoredControlPlane['registers'];

function removing(kind: 'credentials' | 'workloads') {
  return async ({ registers }: StoredControlPlane, { org, entries, commit }: Write): Promise<Done> => {
    await registers.entities.remove(org.org_id, kind, first(entries).id, commit);
    return [];
  };
}

async function credential({ entities }: Registers, { org_id: orgId }: Org, id: string, value: JsonObject): Promise<JsonObject> {
  return { ...value, secret_source: await entities.secretSource(orgId, 'credentials', id) };
}

async function standing(
  { register }: Registers,
  { org_id: orgId, status }: Org,
  change: { readonly status: 'active' | 'suspended'; readonly suspended_reason: string | null },
  commit: Commit,
): Promise<Done> {
  if (status === 'terminated') throw new GatewayError('conflict', `The org ${orgId} is terminated; no gateway can change that.`);
  const org = await register.orgs.put(orgId, change, commit);
  return [{ org_id: orgId, status: org.status, ...(org.suspended_reason === undefined ? {} : { suspended_reason: org.suspended_reason }) }];
}

function first(entries: readonly ReadEntry[]): ReadEntry {
  const [entry] = entries;
  if (entry === undefined) throw invalid('entries', 'must be 1');
  return entry;
}

function textIn<K extends string>(name: K, value: unknown): { readonly [P in K]?: string } {
  return typeof value === 'string' ? ({ [name]: value } as { [P in K]?: string }) : {};
}

function textsIn(value: unknown): { readonly node_ids?: readonly string[] } {
  return Array.isArray(value) ? { node_ids: value.filter((one): one is string => typeof one === 'string') } : {};
}

function told({ code, message, details }: GatewayError): { code: string; message: string; details?: readonly ErrorDetail[] } {
  return { code, message, ...(details === undefined ? {} : { details }) };
}
