import { consistencyRanges, type LeafRange, splitOf } from '../../ledger/consistency-proof.ts';
import { leafHash, nodeHash, treeRoot } from '../../ledger/merkle-tree.ts';
import { TreeFrontier } from '../../ledger/tree-frontier.ts';
import type { Leaves } from '../../storage/contract/leaves.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';

const NODES = 'ledger_node';
/**
 * Of each eighth level the nodes are kept, from 256 leaves up: one row for 256 leaves, and whatever the size a proof
 * reads a few hundred leaves and rows.
 */
const LEVELS_PER_ROW = 8;
/** Leaves that are read at a time while the tree is made again. */
const LEAVES_PER_READ = 4_096;
/** Digits of a level and of an index in a key, so that keys are in order. */
const LEVEL_DIGITS = 2;
const INDEX_DIGITS = 15;

export interface OrgTreeOptions {
  readonly orgId: string;
  readonly store: Pick<Store, 'commit' | 'entities'>;
  readonly leaves: Pick<Leaves, 'read'>;
}

/**
 * The tree over all leaves of an org that are under roots (decision 13.16): what grows of it is kept in the commit of
 * the root, so that neither a root nor a proof reads all leaves.
 */
export class OrgTree {
  readonly #options: OrgTreeOptions;

  constructor(options: OrgTreeOptions) {
    this.#options = options;
  }

  /**
   * The frontier over the first `size` leaves.
   * @param peaks as the last root left them; undefined, or of another size: the tree is made again from the leaves
   */
  async frontier(size: number, peaks: readonly string[] | undefined): Promise<TreeFrontier> {
    return TreeFrontier.of(size, peaks) ?? this.#again(size);
  }

  /** Adds leaves. @returns what is to be stored with the root over them */
  grow(frontier: TreeFrontier, hashes: readonly Uint8Array[]): Effect[] {
    const effects: Effect[] = [];
    for (const hash of hashes) {
      frontier.add(hash, (level, index, node) => {
        if (level > 0 && level % LEVELS_PER_ROW === 0)
          effects.push({ op: 'put', space: NODES, key: nodeKey(this.#options.orgId, level, index), value: node.toString('hex') });
      });
    }
    return effects;
  }

  /**
   * The path between two trees of the org, lower-case hex.
   * @param first at least 1, at most `second`, which is at most the leaves under roots
   * @throws Error when leaves or rows cannot be read
   */
  async path(first: number, second: number): Promise<readonly string[]> {
    const path: string[] = [];
    for (const range of consistencyRanges(first, second)) path.push((await this.#rangeRoot(range)).toString('hex'));
    return path;
  }

  /** Rows are the same whoever makes them, so that a try which was broken off harms nothing. */
  async #again(size: number): Promise<TreeFrontier> {
    const frontier = TreeFrontier.empty();
    while (frontier.size < size) {
      const hashes = await this.#leaves(frontier.size, Math.min(LEAVES_PER_READ, size - frontier.size));
      const effects = this.grow(frontier, hashes);
      if (effects.length > 0) await this.#options.store.commit(undefined, effects);
    }
    return frontier;
  }

  /** A subtree at the right edge is no power of two: its parts are. */
  async #rangeRoot({ start, end }: LeafRange): Promise<Buffer> {
    const size = end - start;
    if (size === 1 || splitOf(size) * 2 === size) return this.#node(Math.log2(size), start / size);
    const middle = start + splitOf(size);
    return nodeHash(await this.#rangeRoot({ start, end: middle }), await this.#rangeRoot({ start: middle, end }));
  }

  /** Root of a whole subtree, from the kept nodes or leaves that are next below it. */
  async #node(level: number, index: number): Promise<Buffer> {
    const below = level - (level % LEVELS_PER_ROW);
    const count = 2 ** (level - below);
    return treeRoot(below === 0 ? (await this.#leaves(index * count, count)).map(leafHash) : await this.#rows(below, index * count, count));
  }

  async #leaves(first: number, count: number): Promise<readonly Buffer[]> {
    const leaves = await this.#options.leaves.read(first, count);
    if (leaves.length !== count) throw new Error(`leaf ${first + leaves.length} of the ledger of ${this.#options.orgId} is missing`);
    return leaves;
  }

  async #rows(level: number, first: number, count: number): Promise<readonly Buffer[]> {
    const { orgId, store } = this.#options;
    const rows = await store.entities(NODES, {
      prefix: levelPrefix(orgId, level),
      ...(first > 0 && { after: nodeKey(orgId, level, first - 1) }),
      limit: count,
    });
    const nodes = rows.map(({ key, value }, at) =>
      key === nodeKey(orgId, level, first + at) ? Buffer.from(String(value), 'hex') : undefined,
    );
    const whole = nodes.filter((node) => node !== undefined);
    if (whole.length !== count) throw new Error(`a node of level ${level} of the ledger of ${orgId} is missing`);
    return whole;
  }
}

function levelPrefix(orgId: string, level: number): string {
  return `${orgId} ${String(level).padStart(LEVEL_DIGITS, '0')} `;
}

function nodeKey(orgId: string, level: number, index: number): string {
  return levelPrefix(orgId, level) + String(index).padStart(INDEX_DIGITS, '0');
}
