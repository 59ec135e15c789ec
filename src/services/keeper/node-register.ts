import { type Clock, timestamp } from '../../base/lib/clock.ts';
import type { Maybe } from '../../base/lib/maybe.ts';
import type { Store } from '../../storage/contract/store.ts';
import type { Cluster } from '../../storage/drivers/open-store.ts';
import { unlessConflict } from '../registers/commit.ts';

const NODES = 'node';

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
}

/**
 * Lists the gateways that serve a store. An embedded store has one gateway, and keeps the time of its first start under
 * its name. A database keeps a row for each of its nodes.
 */
export class NodeRegister {
  readonly #known: () => Maybe<readonly GatewayNode[]>;

  private constructor(known: () => Maybe<readonly GatewayNode[]>) {
    this.#known = known;
  }

  static async open(store: Store, clock: Clock, nodeId: string, cluster?: Pick<Cluster, 'nodes'>): Promise<NodeRegister> {
    if (cluster) return new NodeRegister(() => nodesOf(cluster));
    const node = await embeddedNode(store, clock, nodeId);
    return new NodeRegister(() => [node]);
  }

  /** By name. @throws GatewayError `record_store_unavailable` while the database is away */
  list(): Maybe<readonly GatewayNode[]> {
    return this.#known();
  }
}

async function nodesOf(cluster: Pick<Cluster, 'nodes'>): Promise<readonly GatewayNode[]> {
  return (await cluster.nodes()).map(({ node, version, registeredAt, seenAt, backlog }) => ({
    node_id: node,
    registered_at: registeredAt,
    mode: 'distributed',
    version,
    last_seen_at: seenAt,
    backlog,
  }));
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
