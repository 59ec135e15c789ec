import { type Clock, timestamp } from '../../base/lib/clock.ts';
import type { Store } from '../../storage/contract/store.ts';
import { unlessConflict } from '../registers/commit.ts';

const NODES = 'node';

/** A gateway that stands on this store (specification, "Node"). */
export interface GatewayNode {
  readonly node_id: string;
  readonly registered_at: string;
  /** `embedded`: it keeps its own store and counts by itself. */
  readonly mode: 'embedded';
}

/** Since when this gateway is known by its name: stored at its first start under that name, and kept. */
export class NodeRegister {
  readonly #node: GatewayNode;

  private constructor(node: GatewayNode) {
    this.#node = node;
  }

  static async open(store: Store, clock: Clock, nodeId: string): Promise<NodeRegister> {
    const node: GatewayNode = { node_id: nodeId, registered_at: timestamp(clock.now()), mode: 'embedded' };
    const first = store.commit(
      undefined,
      [{ op: 'put', space: NODES, key: nodeId, value: node }],
      [{ space: NODES, key: nodeId, version: undefined }],
    );
    if (await unlessConflict(first)) return new NodeRegister(node);
    return new NodeRegister({ ...node, ...((await store.get(NODES, nodeId)) as GatewayNode) });
  }

  /** Those that serve this store: an embedded one has one. */
  list(): readonly GatewayNode[] {
    return [this.#node];
  }
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
