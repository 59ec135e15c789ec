/*
 * The tree of RFC 6962 §2.1: leaves and nodes are hashed with different first bytes, so that neither passes for the
 * other, and a level of odd length hands its last node up as it is. Hashes are 32 raw bytes here.
 */
import { createHash } from 'node:crypto';

const LEAF = Buffer.of(0);
const NODE = Buffer.of(1);

/** The hash that an inner node is made with, and on which side of the way up it stands. */
export interface Sibling {
  readonly side: 'left' | 'right';
  readonly hash: Buffer;
}

/** SHA-256(0x00 ‖ data). */
export function leafHash(data: Uint8Array): Buffer {
  return createHash('sha256').update(LEAF).update(data).digest();
}

/** SHA-256(0x01 ‖ left ‖ right). */
export function nodeHash(left: Uint8Array, right: Uint8Array): Buffer {
  return createHash('sha256').update(NODE).update(left).update(right).digest();
}

/** Root of a tree of these leaf hashes; of none it is SHA-256 of nothing. */
export function treeRoot(leaves: readonly Buffer[]): Buffer {
  let level = leaves;
  while (level.length > 1) level = levelAbove(level);
  return level[0] ?? createHash('sha256').digest();
}

/**
 * The siblings that lead from a leaf to the root, the leaf's own first. A leaf that is alone has none.
 * @throws RangeError when there is no such leaf
 */
export function pathToRoot(leaves: readonly Buffer[], index: number): readonly Sibling[] {
  if (!Number.isInteger(index) || index < 0 || index >= leaves.length) throw new RangeError(`there is no leaf ${index}`);
  const path: Sibling[] = [];
  let at = index;
  for (let level = leaves; level.length > 1; level = levelAbove(level)) {
    const hash = level[at ^ 1];
    if (hash !== undefined) path.push({ side: at % 2 === 0 ? 'right' : 'left', hash });
    at >>= 1;
  }
  return path;
}

/**
 * On which side each sibling of a leaf stands, the leaf's own first. It follows from the index and the number of
 * leaves: a path with other sides, or of another length, belongs to another leaf. Both are whole numbers below 2^53,
 * and the index is below the count.
 */
export function sidesOf(index: number, count: number): readonly Sibling['side'][] {
  const sides: Sibling['side'][] = [];
  let at = index;
  for (let width = count; width > 1; width = Math.ceil(width / 2)) {
    const isLeft = at % 2 === 0;
    if (!isLeft || at + 1 < width) sides.push(isLeft ? 'right' : 'left');
    at = Math.floor(at / 2);
  }
  return sides;
}

/** The root that a leaf and its siblings make. */
export function climb(leaf: Buffer, path: readonly Sibling[]): Buffer {
  return path.reduce((node, { side, hash }) => (side === 'left' ? nodeHash(hash, node) : nodeHash(node, hash)), leaf);
}

function levelAbove(level: readonly Buffer[]): Buffer[] {
  const above: Buffer[] = [];
  for (let at = 0; at < level.length; at += 2) {
    const left = level[at];
    const right = level[at + 1];
    if (left !== undefined) above.push(right === undefined ? left : nodeHash(left, right));
  }
  return above;
}
