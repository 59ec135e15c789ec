/*
 * How a signed root is entered in a transparency log: in a DSSE envelope (protocol v1.0.0) that the ledger's key signs,
 * as an entry of the type `dsse` 0.0.1. The log keeps hashes, the signature and the key, never the root (decision
 * 13.22).
 */
import { createPublicKey, type KeyObject, sign, verify } from 'node:crypto';
import { canonicalJson } from '../base/json/jcs.ts';
import { isJsonObject } from '../base/json/json-object.ts';
import { AmbiguousJsonError, unambiguousJson } from '../base/json/unambiguous-json.ts';
import { sha256Hex } from '../base/lib/sha256.ts';
import { type ListedKey, listIn, readKeys } from './ledger-answers.ts';
import { LedgerError, wholeNumberOf } from './ledger-error.ts';
import { checkLogEntry, type LogKey, leafOfEntry, type NamedLogEntry, readNamedEntry } from './log-entry.ts';
import { type MerkleRoot, rootDigest } from './merkle-root.ts';

/** Says what the payload of the envelope is: the RFC 8785 form of a signed root. */
export const ROOT_PAYLOAD_TYPE = 'application/vnd.gw.merkle-root.v1+json';
const API_VERSION = '0.0.1';
const KIND = 'dsse';
const WHAT = 'log entry';

/** What is sent to a log, and what must stand in it then. */
export interface ProposedRoot {
  /** JSON. */
  readonly proposal: string;
  /** Base64, as {@link LogEntry.body}. */
  readonly body: string;
  /** Leaf hash of the body, lower-case hex. */
  readonly leaf: string;
}

/** What is signed of a payload (DSSE, "Protocol"): type and payload, each behind its length in bytes. */
export function signedOfPayload(type: string, payload: string): Buffer {
  return Buffer.from(`DSSEv1 ${Buffer.byteLength(type)} ${type} ${Buffer.byteLength(payload)} ${payload}`);
}

/** A root as it is entered. @param key a private Ed25519 key of the ledger, whose turn it is */
export function proposeRoot(root: MerkleRoot, key: KeyObject): ProposedRoot {
  const payload = canonicalJson(root);
  const signature = sign(undefined, signedOfPayload(ROOT_PAYLOAD_TYPE, payload), key).toString('base64');
  const verifier = verifierOf(createPublicKey(key));
  const envelope = envelopeOf(payload, signature);
  const body = bodyOf(root, signature, verifier);
  return {
    proposal: JSON.stringify({ apiVersion: API_VERSION, kind: KIND, spec: { proposedContent: { envelope, verifiers: [verifier] } } }),
    body: Buffer.from(body).toString('base64'),
    leaf: leafOfEntry(Buffer.from(body)),
  };
}

/**
 * That an entry is of this root, and that a key of the ledger has signed what was entered.
 * @param body base64, as {@link LogEntry.body} @param keys of the ledger that are believed
 * @throws LedgerError
 */
function checkRootEntry(body: string, root: MerkleRoot, keys: readonly ListedKey[]): void {
  const text = Buffer.from(body, 'base64').toString('utf8');
  const { signature, verifier } = signerIn(text);
  // Everything in it follows from the root, the signature and the key: any other text is another entry.
  if (text !== bodyOf(root, signature, verifier)) throw new LedgerError(`${WHAT}: it is of something else than this root`);
  const known = readKeys(keys, 'ledger');
  const key = keys.map(({ kid }) => known.find(kid)).find((one) => one !== undefined && verifierOf(one) === verifier);
  if (key === undefined) throw new LedgerError(`${WHAT}: the key that entered it is none of the ledger that is known`);
  const signed = signedOfPayload(ROOT_PAYLOAD_TYPE, canonicalJson(root));
  if (!verify(undefined, signed, key, Buffer.from(signature, 'base64')))
    throw new LedgerError(`${WHAT}: the ledger's signature in it does not fit`);
}

/** An entry of a root, as it was answered; whether it is one is {@link checkListedEntry}. */
export interface ListedLogEntry extends NamedLogEntry {
  /** Of the root. */
  readonly sequence: number;
}

/** The entries of one page, in its order. @throws LedgerError */
export function readLogEntriesPage(value: unknown): readonly ListedLogEntry[] {
  return listIn(value, 'log entries').map(readListedEntry);
}

/** @throws LedgerError */
export function readListedEntry(value: unknown): ListedLogEntry {
  if (!isJsonObject(value)) throw new LedgerError(`${WHAT}: it is not an object`);
  return { sequence: wholeNumberOf(value, 'sequence', 1, WHAT), ...readNamedEntry(value['uuid'], value['entry']) };
}

/**
 * That an entry is of a root, and stands in its log.
 * @param keys of the ledger that are believed @param logKeys as `checkLogEntry` takes them
 * @returns when it was entered, RFC 3339 @throws LedgerError
 */
export function checkListedEntry(
  { entry }: Pick<ListedLogEntry, 'entry'>,
  root: MerkleRoot,
  keys: readonly ListedKey[],
  logKeys: readonly LogKey[] | undefined,
): string {
  checkRootEntry(entry.body, root, keys);
  return checkLogEntry(entry, logKeys);
}

/** No `keyid`: a log of this kind passes over a signature whose key id is not the one that it makes up itself. */
function envelopeOf(payload: string, signature: string): string {
  return JSON.stringify({
    payloadType: ROOT_PAYLOAD_TYPE,
    payload: Buffer.from(payload).toString('base64'),
    signatures: [{ sig: signature }],
  });
}

/** What the log makes of the proposal, in canonical form. */
function bodyOf(root: MerkleRoot, signature: string, verifier: string): string {
  const envelopeHash = sha256Hex(envelopeOf(canonicalJson(root), signature));
  return canonicalJson({
    apiVersion: API_VERSION,
    kind: KIND,
    spec: {
      envelopeHash: { algorithm: 'sha256', value: envelopeHash },
      payloadHash: { algorithm: 'sha256', value: rootDigest(root) },
      signatures: [{ signature, verifier }],
    },
  });
}

/** A key as the log has it: PEM, in base64. */
function verifierOf(key: KeyObject): string {
  return Buffer.from(key.export({ type: 'spki', format: 'pem' })).toString('base64');
}

/** Who has signed what was entered, as the entry says. @throws LedgerError */
function signerIn(text: string): { readonly signature: string; readonly verifier: string } {
  const value = parsed(text);
  const spec = isJsonObject(value) ? value['spec'] : undefined;
  const signatures: unknown = isJsonObject(spec) ? spec['signatures'] : undefined;
  const first: unknown = Array.isArray(signatures) ? signatures[0] : undefined;
  const { signature, verifier } = isJsonObject(first) ? first : {};
  if (typeof signature === 'string' && typeof verifier === 'string') return { signature, verifier };
  throw new LedgerError(`${WHAT}: it is no signed envelope (${KIND} ${API_VERSION})`);
}

function parsed(text: string): unknown {
  try {
    return unambiguousJson(text);
  } catch (error) {
    if (error instanceof AmbiguousJsonError) throw new LedgerError(`${WHAT}: ${error.message}`, { cause: error });
    throw error;
  }
}
