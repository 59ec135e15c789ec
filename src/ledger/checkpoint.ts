/*
 * Checkpoints (C2SP tlog-checkpoint): the tree that a root signs, in the form that witnesses and auditors of other logs
 * read. The key is that of the ledger; no root, which is JSON, can pass for a checkpoint (decision 13.21).
 */
import { type KeyObject, sign, verify } from 'node:crypto';
import { bytesOfBase64 } from '../base/lib/basic-credentials.ts';
import type { TreeHead } from './consistency-proof.ts';
import type { ListedKey } from './ledger-answers.ts';
import { LedgerError } from './ledger-error.ts';
import {
  exactBase64,
  NOTE_TYPE,
  type NoteKey,
  noteKey,
  noteOf,
  readNote,
  type SignedNote,
  signatureLine,
  signaturesOf,
} from './signed-note.ts';

const WHAT = 'checkpoint';
const HASH_BYTES = 32;
const RESTORED = '/restored/';
const RESTORED_ORIGIN = /\/restored\/([1-9]\d{0,14})\/orgs\/[^/]*$/;
const SIZE = /^(?:0|[1-9]\d{0,15})$/;

/** What a checkpoint says of a log. */
export interface Checkpoint {
  /** Names the log. */
  readonly origin: string;
  readonly tree_size: number;
  /** Lower-case hex. */
  readonly tree_hash: string;
  readonly note: SignedNote;
}

/** What names the log of an org. @param ledgerName that of its control plane */
export function originOf(ledgerName: string, orgId: string): string {
  return `${ledgerName}/orgs/${encodeURIComponent(orgId)}`;
}

/**
 * The same for a ledger that was restored from a backup (decision 13.23): another log begins with the root that says
 * so.
 * @param sequence of that root; undefined: the ledger was not restored
 */
export function restoredOriginOf(ledgerName: string, orgId: string, sequence: number | undefined): string {
  return originOf(sequence === undefined ? ledgerName : `${ledgerName}${RESTORED}${sequence}`, orgId);
}

/** The root with which the log of an origin begins; undefined: it begins with the first one. */
export function restoreOfOrigin(origin: string): number | undefined {
  const [, digits] = RESTORED_ORIGIN.exec(origin) ?? [];
  return digits === undefined ? undefined : Number(digits);
}

/** Whether an origin is that of the log of an org, whatever its control plane is called. */
export function isOriginOf(origin: string, orgId: string): boolean {
  const end = originOf('', orgId);
  return origin.length > end.length && origin.endsWith(end);
}

/** What is signed of a tree. */
export function checkpointText(origin: string, { tree_size: size, tree_hash: hash }: Pick<TreeHead, 'tree_size' | 'tree_hash'>): string {
  return `${origin}\n${size}\n${Buffer.from(hash, 'hex').toString('base64')}\n`;
}

/** The key of a ledger as the log of an origin has it. @throws LedgerError */
export function logKey(origin: string, { public_key: key }: Pick<ListedKey, 'public_key'>): NoteKey {
  return noteKey(origin, NOTE_TYPE.ed25519, bytesOfBase64(key) ?? Buffer.alloc(0));
}

/**
 * Signs a tree.
 * @param listed the public half of the key @param cosignatures lines that go behind the log's own
 */
export function signCheckpoint(
  origin: string,
  head: Pick<TreeHead, 'tree_size' | 'tree_hash'>,
  { key, listed }: { readonly key: KeyObject; readonly listed: ListedKey },
  cosignatures: readonly string[] = [],
): string {
  const text = checkpointText(origin, head);
  return noteOf(text, [signatureLine(logKey(origin, listed), sign(undefined, Buffer.from(text), key)), ...cosignatures]);
}

/** Reads what says that it is a checkpoint; whose it is says {@link checkLogSignature}. @throws LedgerError */
export function readCheckpoint(text: string): Checkpoint {
  const note = readNote(text);
  const [origin = '', size = '', hash = '', ...more] = note.text.slice(0, -1).split('\n');
  const bytes = exactBase64(hash);
  if (origin === '' || !SIZE.test(size) || !Number.isSafeInteger(Number(size)) || bytes?.length !== HASH_BYTES)
    throw new LedgerError(`${WHAT}: its first three lines are not an origin, a tree size and a hash in base64`);
  if (more.includes('')) throw new LedgerError(`${WHAT}: it has an empty line among the others`);
  return { origin, tree_size: Number(size), tree_hash: bytes.toString('hex'), note };
}

/**
 * That the log itself has signed it.
 * @param keys whose signatures are believed
 * @returns the name of the key @throws LedgerError when none of them has, or a signature of one does not fit
 */
export function checkLogSignature({ origin, note }: Checkpoint, keys: readonly ListedKey[]): string {
  let by: string | undefined;
  for (const listed of keys) {
    const key = logKey(origin, listed);
    for (const { bytes } of signaturesOf(note, key)) {
      if (!verify(undefined, Buffer.from(note.text), key.key, bytes))
        throw new LedgerError(`${WHAT}: the signature of its log does not fit`);
      by = listed.kid;
    }
  }
  if (by === undefined) throw new LedgerError(`${WHAT}: no key that is known has signed it as the log ${origin}`);
  return by;
}
