import { leafHash, nodeHash, treeRoot } from './merkle-tree.ts';

/** Told of each inner node and leaf that is complete: its level above the leaves, and its place on that level. */
export type NodeCompleted = (level: number, index: number, hash: Buffer) => void;

/**
 * The right edge of a growing tree (RFC 6962 §2.1): the roots of its complete subtrees, the largest first, one for each
 * bit of its size. A leaf more costs two hashes on average, whatever the size.
 */
export class TreeFrontier {
  readonly #peaks: Buffer[];
  #size: number;

  private constructor(size: number, peaks: Buffer[]) {
    this.#size = size;
    this.#peaks = peaks;
  }

  /**
   * One that was kept. @param peaks as {@link TreeFrontier.peaks} gave them
   * @returns undefined when they are not those of a tree of this size
   */
  static of(size: number, peaks: readonly string[] = []): TreeFrontier | undefined {
    return peaks.length === bitsSet(size)
      ? new TreeFrontier(
          size,
          peaks.map((peak) => Buffer.from(peak, 'hex')),
        )
      : undefined;
  }

  static empty(): TreeFrontier {
    return new TreeFrontier(0, []);
  }

  /** Leaves so far. */
  get size(): number {
    return this.#size;
  }

  /** Lower-case hex. */
  get peaks(): readonly string[] {
    return this.#peaks.map((peak) => peak.toString('hex'));
  }

  /** Root of the tree over all leaves so far. */
  get root(): Buffer {
    const [last, ...higher] = this.#peaks.toReversed();
    return last === undefined ? treeRoot([]) : higher.reduce((right, left) => nodeHash(left, right), last);
  }

  /** @param data of the next leaf, such as the 32 bytes of a record's hash */
  add(data: Uint8Array, completed?: NodeCompleted): void {
    let index = this.#size;
    let hash = leafHash(data);
    completed?.(0, index, hash);
    for (let level = 1; index % 2 === 1; level++) {
      hash = nodeHash(this.#peaks.pop() ?? hash, hash);
      index = Math.floor(index / 2);
      completed?.(level, index, hash);
    }
    this.#peaks.push(hash);
    this.#size++;
  }
}

function bitsSet(size: number): number {
  let bits = 0;
  for (let rest = size; rest > 0; rest = Math.floor(rest / 2)) bits += rest % 2;
  return bits;
}
