import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Maybe } from '../../base/lib/maybe.ts';
import { usdFromPico } from '../../base/lib/money.ts';
import type { Store } from '../../storage/contract/store.ts';
import type { Cluster, NodeHoldings } from '../../storage/drivers/open-store.ts';
import { type Commit, unlessConflict } from '../registers/commit.ts';

const NODES = 'node';
/** What was charged for nodes that were forgotten, by their names. */
const FORGOTTEN = 'forgotten_node';
const NOTHING: NodeHoldings = { accounts: 0, pico: 0n };

/** A gateway that stands on this store (specification, "Node"). */
export interface GatewayNode {
  readonly node_id: string;
  readonly registered_at: string;
  /** `embedded`: it keeps its own store and counts by itself; `distributed`: it shares a database with others. */
  readonly mode: 'embedded' | 'distributed';
  /** Of the program; this and what follows of nodes that share a database. */
  readonly version?: string;
  readonly last_seen_at?: string;
  /** What it had not carried into the database when it was last heard of. */
  readonly backlog?: { readonly records: number; readonly seconds: number };
  /** What it has taken of the caps that nodes share. */
  readonly allowances?: Allowances;
}

/** What a node holds of shared caps. */
export interface Allowances {
  /** Of how many scopes, delegations and orgs' months it holds something. */
  readonly accounts: number;
  /** Of the spend of scopes; a call counts in each of its own. */
  readonly usd: string;
}

/** A node that was forgotten. */
export interface ForgottenNode {
  readonly node_id: string;
  readonly last_seen_at: string;
  /** What it held, and may have spent: it counts as spent. */
  readonly charged: Allowances;
}

type NodesOf = Pick<Cluster, 'nodes' | 'holdings' | 'isAlive' | 'forget'>;

/**
 * Lists the gateways that serve a store. An embedded store has one gateway, and keeps the time of its first start under
 * its name. A database keeps a row for each of its nodes.
 */
export class NodeRegister {
  readonly #nodeId: string;
  readonly #known: () => Maybe<readonly GatewayNode[]>;
  readonly #cluster: NodesOf | undefined;

  private constructor(nodeId: string, known: () => Maybe<readonly GatewayNode[]>, cluster?: NodesOf) {
    this.#nodeId = nodeId;
    this.#known = known;
    this.#cluster = cluster;
  }

  static async open(store: Store, clock: Clock, nodeId: string, cluster?: NodesOf): Promise<NodeRegister> {
    if (cluster) return new NodeRegister(nodeId, () => nodesOf(cluster), cluster);
    const node = await embeddedNode(store, clock, nodeId);
    return new NodeRegister(nodeId, () => [node]);
  }

  /** By name. @throws GatewayError `record_store_unavailable` while the database is away */
  list(): Maybe<readonly GatewayNode[]> {
    return this.#known();
  }

  /**
   * Forgets a node that never comes back. What it held of shared caps counts as spent.
   * @returns undefined: there is none of this name
   * @throws GatewayError `conflict` for this node itself, and for one that was heard of within a minute;
   * `record_store_unavailable`
   */
  async forget(nodeId: string, commit: Commit): Promise<ForgottenNode | undefined> {
    if (nodeId === this.#nodeId)
      throw new GatewayError('conflict', `${nodeId} is the node that was asked: a node that is gone is forgotten by another one.`);
    const node = (await this.#known()).find(({ node_id: id }) => id === nodeId);
    if (node === undefined || this.#cluster === undefined) return undefined;
    const { last_seen_at: lastSeen = '', allowances: charged = allowancesOf(NOTHING) } = node;
    const forgotten: ForgottenNode = { node_id: nodeId, last_seen_at: lastSeen, charged };
    if (await this.#cluster.isAlive(nodeId)) throw stillThere(nodeId, lastSeen);
    // The entry of the audit trail comes first: what cannot be told is not done.
    await commit(nodeId, [{ op: 'put', space: FORGOTTEN, key: nodeId, value: forgotten }]);
    if ((await this.#cluster.forget(nodeId)) === 'alive') throw stillThere(nodeId, lastSeen);
    return forgotten;
  }
}

function stillThere(nodeId: string, lastSeen: string): GatewayError {
  return new GatewayError(
    'conflict',
    `The node ${nodeId} was last heard of at ${lastSeen}, within the last minute: stop it first; it can be forgotten a minute later.`,
  );
}

async function nodesOf(cluster: NodesOf): Promise<readonly GatewayNode[]> {
  const [nodes, holdings] = [await cluster.nodes(), await cluster.holdings()];
  return nodes.map(({ node, version, registeredAt, seenAt, backlog }) => ({
    node_id: node,
    registered_at: registeredAt,
    mode: 'distributed',
    version,
    last_seen_at: seenAt,
    backlog,
    allowances: allowancesOf(holdings.get(node) ?? NOTHING),
  }));
}

function allowancesOf({ accounts, pico }: NodeHoldings): Allowances {
  return { accounts, usd: usdFromPico(pico) };
}

async function embeddedNode(store: Store, clock: Clock, nodeId: string): Promise<GatewayNode> {
  const node: GatewayNode = { node_id: nodeId, registered_at: timestamp(clock.now()), mode: 'embedded' };
  const first = store.commit(
    undefined,
    [{ op: 'put', space: NODES, key: nodeId, value: node }],
    [{ space: NODES, key: nodeId, version: undefined }],
  );
  if (await unlessConflict(first)) return node;
  return { ...node, ...((await store.get(NODES, nodeId)) as GatewayNode) };
}

/**
 * Under which name a gateway has stood on this store before writers had names of their own; undefined: none has. That
 * of now where it is known, else the one that came last.
 */
export async function nodeThatWrote(store: Pick<Store, 'list'>, nodeId: string): Promise<string | undefined> {
  const nodes = (await store.list(NODES)).map(({ value }) => value as GatewayNode);
  if (nodes.some(({ node_id: known }) => known === nodeId)) return nodeId;
  return nodes.toSorted((a, b) => (a.registered_at < b.registered_at ? -1 : 1)).at(-1)?.node_id;
}
