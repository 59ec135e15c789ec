/*
 * What gateway and control plane answer about the ledger, as it is read from files and from the wire (specification,
 * "Verification response"; decision 13.4).
 */

import { createPublicKey, type KeyObject } from 'node:crypto';
import { isJsonObject, type JsonObject } from '../base/json/json-object.ts';
import { bytesOfBase64 } from '../base/lib/basic-credentials.ts';
import { type InclusionProof, PROOF_SCHEMA, readProof } from './inclusion-proof.ts';
import { endorsementIn, type KeyEndorsement } from './key-endorsement.ts';
import { ALWAYS, type KeyWindow, windowIn, windowMembers } from './key-window.ts';
import { LedgerError, textOf, wholeNumberOf } from './ledger-error.ts';
import { type LedgerKeys, type MerkleRoot, readRoot } from './merkle-root.ts';

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
  return listIn(value, 'roots').map(readRoot);
}

/** A time stamp of a root, as it was answered; whether it is one is `checkTimeStamp`. */
export interface ListedTimestamp {
  /** Of the root. */
  readonly sequence: number;
  /** DER. */
  readonly token: Buffer;
}

/** The time stamps of one page, in its order. @throws LedgerError */
export function readTimestampsPage(value: unknown): readonly ListedTimestamp[] {
  return listIn(value, 'timestamps').map((entry, at) => {
    const what = `timestamp ${at + 1}`;
    if (!isJsonObject(entry)) throw new LedgerError(`${what}: it is not an object`);
    const token = typeof entry['token'] === 'string' ? bytesOfBase64(entry['token']) : undefined;
    if (token === undefined) throw new LedgerError(`${what}: token is not base64`);
    return { sequence: wholeNumberOf(entry, 'sequence', 1, what), token: Buffer.from(token) };
  });
}

/** A checkpoint and the root whose tree it is of, as it was answered. */
export interface PublishedCheckpoint {
  readonly sequence: number;
  /** The signed note; what it says is `readCheckpoint`. */
  readonly checkpoint: string;
}

/** @throws LedgerError */
export function readPublished(value: unknown): PublishedCheckpoint {
  const checkpoint = isJsonObject(value) ? value['checkpoint'] : undefined;
  if (!isJsonObject(value) || typeof checkpoint !== 'string') throw new LedgerError('checkpoint: it is no answer with a signed note');
  return { sequence: wholeNumberOf(value, 'sequence', 1, 'checkpoint'), checkpoint };
}

/** The ledger keys of a list of keys, in the one spelling that we write. @throws LedgerError */
export function readKeyList(value: unknown): readonly ListedKey[] {
  const entries = listIn(value, 'keys');
  const keys = readKeys(entries, 'ledger');
  return entries.flatMap((entry) => {
    const kid = isJsonObject(entry) && entry['use'] === 'ledger' ? entry['kid'] : undefined;
    const key = typeof kid === 'string' ? keys.find(kid) : undefined;
    if (typeof kid !== 'string' || key === undefined || !isJsonObject(entry)) return [];
    const endorsed = endorsementIn(entry, `key ${kid}`);
    return [{ ...listedKey(kid, 'ledger', key), ...windowMembers(keys.windowOf(kid)), ...(endorsed && { endorsed_by: endorsed }) }];
  });
}

/** The members of `data` of an answer that is a list. @param what they are called @throws LedgerError */
export function listIn(value: unknown, what: string): readonly unknown[] {
  const data = isJsonObject(value) ? value['data'] : undefined;
  if (!Array.isArray(data)) throw new LedgerError(`${what}: it is no answer with a list of them as data`);
  return data;
}

/** A public key as the control plane lists it. */
export interface ListedKey {
  readonly kid: string;
  readonly alg: 'ed25519';
  readonly use: 'ledger' | 'bundle';
  /** The 32 raw bytes, base64. */
  readonly public_key: string;
  /** When it begins to sign, RFC 3339; absent: with the first root or bundle. */
  readonly not_before?: string;
  /** When it was retired: what is signed later is not its; absent: it was not. */
  readonly not_after?: string;
  /** That the key before it says so; absent: there was none before it. */
  readonly endorsed_by?: KeyEndorsement;
}

/** How a public Ed25519 key is listed. */
export function listedKey(kid: string, use: ListedKey['use'], key: KeyObject): ListedKey {
  const { x } = key.export({ format: 'jwk' });
  if (x === undefined) throw new TypeError('this is no Ed25519 key');
  return { kid, alg: 'ed25519', use, public_key: Buffer.from(x, 'base64url').toString('base64') };
}

/**
 * The keys of one use among those that are listed. One of another algorithm or use is passed over, so that later kinds
 * harm nobody.
 * @param listed the members of `data`
 * @throws LedgerError for a key that cannot be read, or a `kid` that stands there twice
 */
export function readKeys(listed: readonly unknown[], use: ListedKey['use']): LedgerKeys {
  const keys = new Map<string, KeyObject>();
  const windows = new Map<string, KeyWindow>();
  for (const [index, entry] of listed.entries()) {
    const what = `key ${index + 1}`;
    if (!isJsonObject(entry)) throw new LedgerError(`${what}: it is not an object`);
    if (entry['use'] !== use || entry['alg'] !== 'ed25519') continue;
    const kid = textOf(entry, 'kid', what);
    if (keys.has(kid)) throw new LedgerError(`${what}: there are two keys of the name ${kid}`);
    keys.set(kid, keyOf(entry, what));
    windows.set(kid, windowIn(entry, what));
  }
  return { find: (kid) => keys.get(kid), windowOf: (kid) => windows.get(kid) ?? ALWAYS };
}

function keyOf(entry: JsonObject, what: string): KeyObject {
  const bytes = bytesOfBase64(textOf(entry, 'public_key', what));
  if (bytes?.length !== 32) throw new LedgerError(`${what}: public_key is not the 32 bytes of a key in base64`);
  return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: bytes.toString('base64url') }, format: 'jwk' });
}
