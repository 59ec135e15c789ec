/* What gateway and control plane answer about the ledger, as it is read from files and from the wire (specification, "Verification response"; decision 13.4). */
import { isJsonObject } from '../base/json/json-object.ts';
import { type InclusionProof, PROOF_SCHEMA, readProof } from './inclusion-proof.ts';
import { LedgerError } from './ledger-error.ts';
import { type ListedKey, listedKey, readKeys } from './ledger-keys.ts';
import { type MerkleRoot, readRoot } from './merkle-root.ts';

/** What is known of a hash: `inclusion_proof` is there when it is `verified`. */
export interface ProofAnswer {
  readonly record_hash: string;
  readonly proof: InclusionProof | undefined;
}

/** Reads an answer about a hash, or a proof that stands alone. @throws LedgerError */
export function readProofAnswer(value: unknown): ProofAnswer {
  if (!isJsonObject(value)) throw new LedgerError('proof: it is not an object');
  if (value['schema'] === PROOF_SCHEMA) {
    const proof = readProof(value);
    return { record_hash: proof.record_hash, proof };
  }
  const { status, record_hash: hash, inclusion_proof: proof } = value;
  if (status !== 'verified' && status !== 'pending_inclusion')
    throw new LedgerError('proof: it is neither an answer with a status of verified or pending_inclusion nor an inclusion proof');
  if (typeof hash !== 'string') throw new LedgerError('proof: the answer has no record_hash');
  if (status === 'pending_inclusion') return { record_hash: hash, proof: undefined };
  const read = readProof(proof);
  if (read.record_hash !== hash) throw new LedgerError(`proof: it is of another record (${read.record_hash}) than its answer (${hash})`);
  return { record_hash: hash, proof: read };
}

/** The roots of one page of a ledger, in its order. @throws LedgerError */
export function readRootsPage(value: unknown): readonly MerkleRoot[] {
  return dataOf(value, 'roots').map(readRoot);
}

/** The ledger keys of a list of keys, in the one spelling that we write. @throws LedgerError */
export function readKeyList(value: unknown): readonly ListedKey[] {
  const entries = dataOf(value, 'keys');
  const keys = readKeys(entries, 'ledger');
  return entries.flatMap((entry) => {
    const kid = isJsonObject(entry) && entry['use'] === 'ledger' ? entry['kid'] : undefined;
    const key = typeof kid === 'string' ? keys.find(kid) : undefined;
    return typeof kid === 'string' && key !== undefined ? [listedKey(kid, 'ledger', key)] : [];
  });
}

function dataOf(value: unknown, what: string): readonly unknown[] {
  const data = isJsonObject(value) ? value['data'] : undefined;
  if (!Array.isArray(data)) throw new LedgerError(`${what}: it is no answer with a list of them as data`);
  return data;
}
