import { isJsonObject } from '../base/json/json-object.ts';
import { hashOf, LedgerError, wholeNumberOf } from './ledger-error.ts';
import type { MerkleRoot } from './merkle-root.ts';
import { nodeHash } from './merkle-tree.ts';

const WHAT = 'consistency';
/** More siblings than any tree has that JSON can number. */
const MAX_PATH = 128;

/** The tree over all record hashes of an org, as a root signs it. Hashes are lower-case hex. */
export interface TreeHead {
  /** Of the root. */
  readonly sequence: number;
  readonly tree_size: number;
  readonly tree_hash: string;
}

/** That the tree of `second` is that of `first` with leaves behind it (RFC 6962 §2.1.2). */
export interface ConsistencyProof {
  readonly first: TreeHead;
  readonly second: TreeHead;
  readonly path: readonly string[];
}

/** Leaves from `start` up to `end`, which is not among them; both count from 0. */
export interface LeafRange {
  readonly start: number;
  readonly end: number;
}

/** The tree that a root signs; undefined: it was signed before roots had one. */
export function treeHeadOf({ sequence, tree_size, tree_hash }: MerkleRoot): TreeHead | undefined {
  return tree_size === undefined || tree_hash === undefined ? undefined : { sequence, tree_size, tree_hash };
}

/** The largest power of two below a number, which is at least 2: where RFC 6962 splits a tree of so many leaves. */
export function splitOf(leaves: number): number {
  let split = 1;
  while (split * 2 < leaves) split *= 2;
  return split;
}

/**
 * The subtrees whose roots are the path from a tree of `first` leaves to one of `second`, in its order.
 * @param first at least 1, and at most `second`
 */
export function consistencyRanges(first: number, second: number): readonly LeafRange[] {
  const ranges: LeafRange[] = [];
  let [start, end] = [0, second];
  let old = first;
  let isWhole = true;
  while (old < end - start) {
    const split = start + splitOf(end - start);
    if (start + old <= split) {
      ranges.push({ start: split, end });
      end = split;
    } else {
      ranges.push({ start, end: split });
      old -= split - start;
      start = split;
      isWhole = false;
    }
  }
  if (!isWhole) ranges.push({ start, end });
  return ranges.reverse();
}

/** Reads an answer of `/consistency`; whether it proves anything is {@link checkConsistency}. @throws LedgerError */
export function readConsistency(value: unknown): ConsistencyProof {
  if (!isJsonObject(value)) throw new LedgerError(`${WHAT}: it is not an object`);
  const { path } = value;
  if (!Array.isArray(path) || path.length > MAX_PATH) throw new LedgerError(`${WHAT}: path is not a list of at most ${MAX_PATH}`);
  return {
    first: readTreeHead(value['first'], `${WHAT}: first`),
    second: readTreeHead(value['second'], `${WHAT}: second`),
    path: path.map((hash: unknown, at) => hashOf({ hash }, 'hash', `${WHAT}: path ${at + 1}`)),
  };
}

/** @param what for messages @throws LedgerError */
export function readTreeHead(value: unknown, what: string): TreeHead {
  if (!isJsonObject(value)) throw new LedgerError(`${what} is not an object`);
  return {
    sequence: wholeNumberOf(value, 'sequence', 1, what),
    tree_size: wholeNumberOf(value, 'tree_size', 1, what),
    tree_hash: hashOf(value, 'tree_hash', what),
  };
}

/**
 * That the tree of one root goes on in that of a later one.
 * @param first as the earlier root signs it @param second as the later root does
 * @throws LedgerError that says what does not fit
 */
export function checkConsistency(proof: ConsistencyProof, first: TreeHead, second: TreeHead): void {
  expectHead('first', proof.first, first);
  expectHead('second', proof.second, second);
  const [from, to] = [first.tree_size, second.tree_size];
  const what = `${WHAT}: the path from root ${first.sequence} to root ${second.sequence}`;
  if (from > to)
    throw new LedgerError(
      `${WHAT}: the tree of root ${second.sequence} has fewer leaves (${to}) than that of root ${first.sequence} (${from})`,
    );
  if (proof.path.length !== consistencyRanges(from, to).length)
    throw new LedgerError(`${what} is not that of a tree of ${from} leaves and one of ${to}`);
  const roots = rootsOfPath(from, to, proof.path, first.tree_hash);
  if (roots.first !== first.tree_hash)
    throw new LedgerError(`${what} does not lead to the tree_hash of root ${first.sequence}: its leaves were changed`);
  if (roots.second !== second.tree_hash) throw new LedgerError(`${what} does not lead to the tree_hash of root ${second.sequence}`);
}

function expectHead(name: string, said: TreeHead, signed: TreeHead): void {
  if (said.sequence !== signed.sequence) throw new LedgerError(`${WHAT}: ${name} is root ${said.sequence}, not root ${signed.sequence}`);
  if (said.tree_size !== signed.tree_size || said.tree_hash !== signed.tree_hash)
    throw new LedgerError(`${WHAT}: ${name} has another tree than root ${signed.sequence} signs`);
}

/** RFC 9162 §2.1.4.2; the length of the path is right. */
function rootsOfPath(
  from: number,
  to: number,
  path: readonly string[],
  firstHash: string,
): { readonly first: string; readonly second: string } {
  if (from === to) return { first: firstHash, second: firstHash };
  let [old, last] = [from - 1, to - 1];
  while (old % 2 === 1) [old, last] = [Math.floor(old / 2), Math.floor(last / 2)];
  const hashes: Buffer[] = path.map((hash) => Buffer.from(hash, 'hex'));
  // Where the old tree is a whole subtree of the new one its own root begins the path, and is left out.
  const [seed = Buffer.alloc(0), ...rest] = old === 0 ? [Buffer.from(firstHash, 'hex'), ...hashes] : hashes;
  let first: Buffer = seed;
  let second: Buffer = seed;
  for (const hash of rest) {
    if (old % 2 === 1 || old === last) {
      [first, second] = [nodeHash(hash, first), nodeHash(hash, second)];
      while (old % 2 === 0 && old !== 0) [old, last] = [Math.floor(old / 2), Math.floor(last / 2)];
    } else second = nodeHash(second, hash);
    [old, last] = [Math.floor(old / 2), Math.floor(last / 2)];
  }
  return { first: first.toString('hex'), second: second.toString('hex') };
}
