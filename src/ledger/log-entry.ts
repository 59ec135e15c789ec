/*
 * Entries of a transparency log that speaks the API of Rekor, version 1: that something stands in the log (RFC 6962
 * tree under a signed checkpoint), and since when (the promise that the log signed when it took the entry). What was
 * entered is for `root-entry` to say (decision 13.22).
 */
import { createPublicKey, type KeyObject, verify } from 'node:crypto';
import { canonicalJson } from '../base/json/jcs.ts';
import { isJsonObject, type JsonObject } from '../base/json/json-object.ts';
import { timestamp } from '../base/lib/clock.ts';
import { sha256Hex } from '../base/lib/sha256.ts';
import { readCheckpoint } from './checkpoint.ts';
import { hashOf, LedgerError, wholeNumberOf } from './ledger-error.ts';
import { climb, leafHash, sidesOf } from './merkle-tree.ts';
import { exactBase64 } from './signed-note.ts';

const WHAT = 'log entry';
/** How each kind of key signs; undefined: it hashes by itself. */
const DIGESTS: Readonly<Record<string, string | undefined>> = { ec: 'sha256', rsa: 'sha256', ed25519: undefined };
const NOTE_ID_DIGITS = 8;
const LEAF_DIGITS = 64;
/** A tree of 2^53 leaves is no deeper. */
const MOST_HASHES = 64;
/** Last second of the year 9999, which RFC 3339 can still write. */
const LAST_SECOND = 253_402_300_799;
/** Of the tree it is in, where it is longer than a leaf hash: a log has several trees, one after the other. */
const UUID = /^(?:[0-9a-f]{16})?[0-9a-f]{64}$/;

/** A public key of a log. */
export interface LogKey {
  /** `logID` of its entries: SHA-256 of the key in DER, lower-case hex. */
  readonly logId: string;
  readonly key: KeyObject;
}

/** An entry in the form of Rekor's API, which names its members. */
export interface LogEntry {
  /** What stands in the log, base64. */
  readonly body: string;
  /** When it was entered, seconds since the epoch. */
  readonly integratedTime: number;
  readonly logID: string;
  /** Among all entries of all trees of the log. */
  readonly logIndex: number;
  readonly verification: {
    /** The log's signature over all members above, base64. */
    readonly signedEntryTimestamp: string;
    readonly inclusionProof: {
      /** Signed note. */
      readonly checkpoint: string;
      /** From the leaf up, lower-case hex. */
      readonly hashes: readonly string[];
      /** In its tree. */
      readonly logIndex: number;
      readonly rootHash: string;
      readonly treeSize: number;
    };
  };
}

/** An entry under its name. */
export interface NamedLogEntry {
  /** The leaf hash, behind the id of the tree where the log says it; lower-case hex. */
  readonly uuid: string;
  readonly entry: LogEntry;
}

/** Keys of a PEM text. @throws Error when one cannot be read or is of a kind that signs no log, or there is none */
export function logKeysOf(pem: string): readonly LogKey[] {
  const texts = pem.match(/-----BEGIN PUBLIC KEY-----[^-]+-----END PUBLIC KEY-----/g) ?? [];
  if (texts.length === 0) throw new Error('there is no public key in it (PEM)');
  return texts.map((text) => {
    const key = createPublicKey(text);
    const kind = key.asymmetricKeyType ?? 'unknown';
    if (!Object.hasOwn(DIGESTS, kind)) throw new Error(`a key of the kind ${kind} signs no log`);
    return { logId: sha256Hex(key.export({ type: 'spki', format: 'der' })), key };
  });
}

/** The name of an entry: its leaf hash. @param body what stands in the log */
export function leafOfEntry(body: Uint8Array): string {
  return leafHash(body).toString('hex');
}

/** Reads the one entry of an answer of the log. @throws LedgerError */
export function readLogAnswer(value: unknown): NamedLogEntry {
  const [only, ...more] = isJsonObject(value) ? Object.entries(value) : [];
  if (only === undefined || more.length > 0) throw new LedgerError(`${WHAT}: the answer is not one entry under its name`);
  return readNamedEntry(only[0], only[1]);
}

/** Reads an entry and checks that its name is its own. @throws LedgerError */
export function readNamedEntry(uuid: unknown, value: unknown): NamedLogEntry {
  const entry = readLogEntry(value);
  if (typeof uuid !== 'string' || !UUID.test(uuid)) throw new LedgerError(`${WHAT}: it has no name of 64 or 80 hexadecimal digits`);
  if (uuid.slice(-LEAF_DIGITS) !== leafOfEntry(Buffer.from(entry.body, 'base64')))
    throw new LedgerError(`${WHAT}: its name is that of another one (${uuid})`);
  return { uuid, entry };
}

/** Reads what says of itself that it is an entry; whether it stands in a log is {@link checkLogEntry}. */
function readLogEntry(value: unknown): LogEntry {
  const entry = objectOf(value, 'it');
  const verification = objectOf(entry['verification'], 'verification');
  const proof = objectOf(verification['inclusionProof'], 'inclusionProof');
  const { hashes, checkpoint } = proof;
  if (!Array.isArray(hashes) || hashes.length > MOST_HASHES) throw new LedgerError(`${WHAT}: hashes is not a list of up to ${MOST_HASHES}`);
  if (typeof checkpoint !== 'string') throw new LedgerError(`${WHAT}: it has no checkpoint`);
  const integratedTime = wholeNumberOf(entry, 'integratedTime', 1, WHAT);
  if (integratedTime > LAST_SECOND) throw new LedgerError(`${WHAT}: integratedTime is no time`);
  return {
    body: base64Of(entry, 'body'),
    integratedTime,
    logID: hashOf(entry, 'logID', WHAT),
    logIndex: wholeNumberOf(entry, 'logIndex', 0, WHAT),
    verification: {
      signedEntryTimestamp: base64Of(verification, 'signedEntryTimestamp'),
      inclusionProof: {
        checkpoint,
        hashes: hashes.map((hash: unknown, at) => hashOf({ hash }, 'hash', `${WHAT}: hash ${at + 1}`)),
        logIndex: wholeNumberOf(proof, 'logIndex', 0, WHAT),
        rootHash: hashOf(proof, 'rootHash', WHAT),
        treeSize: wholeNumberOf(proof, 'treeSize', 1, WHAT),
      },
    },
  };
}

function objectOf(value: unknown, name: string): JsonObject {
  if (isJsonObject(value)) return value;
  throw new LedgerError(`${WHAT}: ${name} is not an object`);
}

function base64Of(object: JsonObject, name: string): string {
  const value = object[name];
  if (typeof value === 'string' && value !== '' && exactBase64(value) !== undefined) return value;
  throw new LedgerError(`${WHAT}: ${name} is not base64`);
}

/**
 * That an entry stands in its log: the path leads to the tree of the checkpoint, and both the checkpoint and the
 * promise are signed with the key of the log.
 * @param keys of logs that are believed; undefined: nobody's signature is checked, so that it says no more than that
 * somebody has made such a tree
 * @returns when it was entered, RFC 3339 @throws LedgerError that says what does not fit
 */
export function checkLogEntry(entry: LogEntry, keys: readonly LogKey[] | undefined): string {
  checkInTree(entry);
  if (keys !== undefined) checkSignedByLog(entry, keys);
  return timestamp(entry.integratedTime * 1_000);
}

function checkInTree({ body, verification: { inclusionProof: proof } }: LogEntry): void {
  const { hashes, logIndex, treeSize, rootHash } = proof;
  if (logIndex >= treeSize) throw new LedgerError(`${WHAT}: its index ${logIndex} is not below the size of its tree, ${treeSize}`);
  const sides = sidesOf(logIndex, treeSize);
  if (sides.length !== hashes.length) throw new LedgerError(`${WHAT}: its path is not that of leaf ${logIndex} of ${treeSize}`);
  const path = sides.map((side, at) => ({ side, hash: Buffer.from(hashes[at] ?? '', 'hex') }));
  if (climb(leafHash(Buffer.from(body, 'base64')), path).toString('hex') !== rootHash)
    throw new LedgerError(`${WHAT}: its path does not lead to rootHash`);
  const head = readCheckpoint(proof.checkpoint);
  if (head.tree_size !== treeSize || head.tree_hash !== rootHash)
    throw new LedgerError(`${WHAT}: its checkpoint is of another tree than its path leads to`);
}

function checkSignedByLog(entry: LogEntry, keys: readonly LogKey[]): void {
  const { body, integratedTime, logID, logIndex, verification } = entry;
  const of = keys.find(({ logId }) => logId === logID);
  if (of === undefined) throw new LedgerError(`${WHAT}: its log is none whose key is believed (logID ${logID})`);
  const promise = Buffer.from(canonicalJson({ body, integratedTime, logID, logIndex }));
  if (!isSigned(promise, of.key, verification.signedEntryTimestamp)) throw new LedgerError(`${WHAT}: signedEntryTimestamp does not fit`);
  const { note } = readCheckpoint(verification.inclusionProof.checkpoint);
  // A log of this kind calls its key by the beginning of its id, whatever name stands before it.
  const lines = note.signatures.filter(({ keyId }) => keyId === logID.slice(0, NOTE_ID_DIGITS));
  if (lines.length === 0) throw new LedgerError(`${WHAT}: its log has not signed the checkpoint`);
  const fit = lines.every(({ bytes }) => isSigned(Buffer.from(note.text), of.key, bytes.toString('base64')));
  if (!fit) throw new LedgerError(`${WHAT}: the signature of its checkpoint does not fit`);
}

function isSigned(message: Uint8Array, key: KeyObject, signature: string): boolean {
  return verify(DIGESTS[key.asymmetricKeyType ?? ''], message, key, Buffer.from(signature, 'base64'));
}
