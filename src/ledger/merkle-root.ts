import { type KeyObject, sign, verify } from 'node:crypto';
import { CanonicalJsonError, canonicalJson } from '../base/json/jcs.ts';
import { isJsonObject, type JsonObject } from '../base/json/json-object.ts';
import { bytesOfBase64 } from '../base/lib/basic-credentials.ts';
import { sha256Hex } from '../base/lib/sha256.ts';
import { checkWindow, type KeyWindow } from './key-window.ts';
import { expectText, hashOf, LedgerError, textOf, wholeNumberOf } from './ledger-error.ts';
import { type LedgerRestore, restoreIn } from './ledger-restore.ts';

export const ROOT_SCHEMA = 'gw.merkle_root.v1';
/** `prev_root_hash` of the first root of an org. */
export const NO_ROOT = '0'.repeat(64);
const ALGORITHM = 'ed25519';
const SIGNATURE_BYTES = 64;

/** What a batch of an org's record hashes comes to, before it is signed (decision 13.2). */
export interface UnsignedRoot {
  readonly schema: typeof ROOT_SCHEMA;
  readonly batch_id: string;
  readonly org_id: string;
  /** From 1 up, without a gap but for those that a restore has cut. */
  readonly sequence: number;
  /** {@link rootDigest} of the root before it; {@link NO_ROOT} for the first. */
  readonly prev_root_hash: string;
  readonly root_hash: string;
  readonly leaf_count: number;
  /**
   * Hashes under all roots of the org up to this one; a root of before has neither this nor the next (decision 13.16).
   */
  readonly tree_size?: number;
  /** Root of the tree of all of them, in the order of their inclusion (RFC 6962). */
  readonly tree_hash?: string;
  /** When the batch was closed, RFC 3339. */
  readonly closed_at: string;
  /** The first root after a restore says so (decision 13.23). */
  readonly restored?: LedgerRestore;
}

export interface RootSignature {
  readonly alg: typeof ALGORITHM;
  readonly kid: string;
  /** Base64. */
  readonly sig: string;
}

/** A signed root. What was read may have more members: the signature covers them, and nothing else reads them. */
export type MerkleRoot = UnsignedRoot & { readonly sig: RootSignature };

/** Who can tell the public key of a `kid`, and when it signs. */
export interface LedgerKeys {
  find(kid: string): KeyObject | undefined;
  windowOf(kid: string): KeyWindow;
}

/** Signs the RFC 8785 form of the root (decision 13.2). @param key a private Ed25519 key */
export function signRoot(root: UnsignedRoot, kid: string, key: KeyObject): MerkleRoot {
  return { ...root, sig: { alg: ALGORITHM, kid, sig: sign(undefined, signedBytes(root), key).toString('base64') } };
}

/** SHA-256 of the RFC 8785 form of a signed root: what the next one calls `prev_root_hash`. Lower-case hex. */
export function rootDigest(root: MerkleRoot): string {
  return sha256Hex(canonicalJson(root));
}

/** Reads what says of itself that it is a root; whether that is true is {@link checkSignature}. @throws LedgerError */
export function readRoot(value: unknown): MerkleRoot {
  if (!isJsonObject(value)) throw new LedgerError('root: it is not an object');
  expectText(value, 'schema', ROOT_SCHEMA, 'root');
  const sequence = wholeNumberOf(value, 'sequence', 1, 'root');
  const what = `root ${sequence}`;
  const restored = restoreIn(value, sequence, what);
  return {
    ...value,
    schema: ROOT_SCHEMA,
    batch_id: textOf(value, 'batch_id', what),
    org_id: textOf(value, 'org_id', what),
    sequence,
    prev_root_hash: hashOf(value, 'prev_root_hash', what),
    root_hash: hashOf(value, 'root_hash', what),
    leaf_count: wholeNumberOf(value, 'leaf_count', 1, what),
    ...treeOf(value, what),
    closed_at: textOf(value, 'closed_at', what),
    ...(restored && { restored }),
    sig: readSignature(value['sig'], what),
  };
}

/** Both members or neither. @throws LedgerError */
function treeOf(value: JsonObject, what: string): Pick<UnsignedRoot, 'tree_size' | 'tree_hash'> {
  if (value['tree_size'] === undefined && value['tree_hash'] === undefined) return {};
  return { tree_size: wholeNumberOf(value, 'tree_size', 1, what), tree_hash: hashOf(value, 'tree_hash', what) };
}

/** @throws LedgerError when the key is not known, is not that of the signature, or was not to sign at that time */
export function checkSignature(root: MerkleRoot, keys: LedgerKeys): void {
  const { sequence, sig } = root;
  const key = keys.find(sig.kid);
  if (key === undefined) throw new LedgerError(`root ${sequence}: it is signed with a key that is not known (${sig.kid})`);
  const bytes = bytesOfBase64(sig.sig);
  if (bytes?.length !== SIGNATURE_BYTES || !verify(undefined, signedBytes(root), key, bytes)) {
    throw new LedgerError(`root ${sequence}: its signature does not fit`);
  }
  checkWindow(keys.windowOf(sig.kid), sig.kid, root.closed_at, `root ${sequence}`);
}

function readSignature(value: unknown, what: string): RootSignature {
  if (!isJsonObject(value)) throw new LedgerError(`${what}: sig is not an object`);
  expectText(value, 'alg', ALGORITHM, `${what}: sig`);
  return { ...value, alg: ALGORITHM, kid: textOf(value, 'kid', `${what}: sig`), sig: textOf(value, 'sig', `${what}: sig`) };
}

function signedBytes(root: UnsignedRoot): Buffer {
  const { sig: _signature, ...signed }: JsonObject = { ...root };
  try {
    return Buffer.from(canonicalJson(signed));
  } catch (error) {
    if (error instanceof CanonicalJsonError)
      throw new LedgerError(`root ${root.sequence}: it has no canonical form: ${error.message}`, { cause: error });
    throw error;
  }
}
