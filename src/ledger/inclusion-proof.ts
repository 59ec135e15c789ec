import { isJsonObject } from '../base/json/json-object.ts';
import { expectText, hashOf, LedgerError, textOf, wholeNumberOf } from './ledger-error.ts';
import { type MerkleRoot, readRoot } from './merkle-root.ts';
import { climb, leafHash, pathToRoot, type Sibling, sidesOf } from './merkle-tree.ts';

export const PROOF_SCHEMA = 'gw.inclusion_proof.v1';
const WHAT = 'proof';

/** That a record's hash is a leaf of a batch (specification, "Verification response"). Hashes are lower-case hex. */
export interface InclusionProof {
  readonly schema: typeof PROOF_SCHEMA;
  readonly record_hash: string;
  readonly batch_id: string;
  readonly leaf_index: number;
  readonly leaf_count: number;
  /** From the leaf up; `side` is where the sibling stands. */
  readonly path: readonly { readonly side: Sibling['side']; readonly hash: string }[];
  readonly root: MerkleRoot;
}

/**
 * The leaf of a record: SHA-256(0x00 ‖ the 32 bytes of its hash) (decision 13.1).
 * @param recordHash 64 hexadecimal digits
 */
export function recordLeaf(recordHash: string): Buffer {
  return leafHash(Buffer.from(recordHash, 'hex'));
}

/**
 * The proof of one leaf of a batch.
 * @param recordHashes of the batch, in its order
 * @throws RangeError when there is no such leaf
 */
export function proveInclusion(recordHashes: readonly string[], index: number, root: MerkleRoot): InclusionProof {
  const recordHash = recordHashes[index];
  if (recordHash === undefined) throw new RangeError(`there is no leaf ${index}`);
  const path = pathToRoot(recordHashes.map(recordLeaf), index);
  return {
    schema: PROOF_SCHEMA,
    record_hash: recordHash,
    batch_id: root.batch_id,
    leaf_index: index,
    leaf_count: recordHashes.length,
    path: path.map(({ side, hash }) => ({ side, hash: hash.toString('hex') })),
    root,
  };
}

/**
 * Reads what says of itself that it is a proof; whether it proves anything is {@link checkInclusion}.
 * @throws LedgerError
 */
export function readProof(value: unknown): InclusionProof {
  if (!isJsonObject(value)) throw new LedgerError(`${WHAT}: it is not an object`);
  expectText(value, 'schema', PROOF_SCHEMA, WHAT);
  const leafCount = wholeNumberOf(value, 'leaf_count', 1, WHAT);
  const leafIndex = wholeNumberOf(value, 'leaf_index', 0, WHAT);
  if (leafIndex >= leafCount) throw new LedgerError(`${WHAT}: leaf_index ${leafIndex} is not below leaf_count ${leafCount}`);
  const { path } = value;
  if (!Array.isArray(path)) throw new LedgerError(`${WHAT}: path is not a list`);
  return {
    schema: PROOF_SCHEMA,
    record_hash: hashOf(value, 'record_hash', WHAT),
    batch_id: textOf(value, 'batch_id', WHAT),
    leaf_index: leafIndex,
    leaf_count: leafCount,
    path: path.map(readSibling),
    root: readRoot(value['root']),
  };
}

function readSibling(value: unknown, index: number): InclusionProof['path'][number] {
  const what = `${WHAT}: path ${index + 1}`;
  if (!isJsonObject(value)) throw new LedgerError(`${what} is not an object`);
  const { side } = value;
  if (side !== 'left' && side !== 'right') throw new LedgerError(`${what}: side is neither left nor right`);
  return { side, hash: hashOf(value, 'hash', what) };
}

/**
 * Checks that the record with this hash is where the proof says, in the tree whose root the proof brings. Who signed
 * the root is `checkSignature`.
 * @throws LedgerError that says what does not fit
 */
export function checkInclusion(proof: InclusionProof, recordHash: string): void {
  const { root } = proof;
  if (proof.record_hash !== recordHash) throw new LedgerError(`${WHAT}: it is of another record (${proof.record_hash})`);
  if (root.batch_id !== proof.batch_id) throw new LedgerError(`${WHAT}: its root is of another batch (${root.batch_id})`);
  if (root.leaf_count !== proof.leaf_count) throw new LedgerError(`${WHAT}: its root has another number of leaves (${root.leaf_count})`);
  const sides = sidesOf(proof.leaf_index, proof.leaf_count);
  if (sides.length !== proof.path.length || sides.some((side, at) => side !== proof.path[at]?.side)) {
    throw new LedgerError(`${WHAT}: its path is not that of leaf ${proof.leaf_index} of ${proof.leaf_count}`);
  }
  const path = proof.path.map(({ side, hash }) => ({ side, hash: Buffer.from(hash, 'hex') }));
  if (climb(recordLeaf(recordHash), path).toString('hex') !== root.root_hash) {
    throw new LedgerError(`${WHAT}: its path does not lead to root_hash`);
  }
}
