/*
 * Signed notes as C2SP signed-note has them: a text, an empty line, and a line for each signature. What a signature is
 * over is said by its type.
 */
import { createHash, createPublicKey, type KeyObject } from 'node:crypto';
import { LedgerError } from './ledger-error.ts';

/** Types of signatures that are spoken here (signed-note, "Signature types"). */
export const NOTE_TYPE = { ed25519: 1, cosignature: 4 } as const;
export type NoteType = (typeof NOTE_TYPE)[keyof typeof NOTE_TYPE];

const DASH = '— ';
const KEY_BYTES = 32;
const ID_BYTES = 4;
const MAX_NAME = 256;
/** A reader takes at least 16 signatures; more than these no log of ours gathers. */
const MAX_SIGNATURES = 64;
const MAX_NOTE = 64 * 1024;
/** No white space of any script, and no plus, which ends the name in a verifier key. */
const NAME = /^[^\s+\u0000-\u001f\u007f\u0085]+$/;
const CONTROL = /[\u0000-\u0009\u000b-\u001f]/;

/** One line of signature. */
export interface NoteSignature {
  readonly name: string;
  /** Eight hexadecimal digits. */
  readonly keyId: string;
  /** Behind the key id. */
  readonly bytes: Buffer;
  /** As it stands in the note, without its line end. */
  readonly line: string;
}

export interface SignedNote {
  /** With its last line end. */
  readonly text: string;
  readonly signatures: readonly NoteSignature[];
}

/** A public Ed25519 key under a name, by which lines of signature are known. */
export interface NoteKey {
  readonly name: string;
  readonly keyId: string;
  readonly type: NoteType;
  readonly key: KeyObject;
  /** `name+keyId+base64`: how such a key is handed on (signed-note, "Verifier keys"). */
  readonly vkey: string;
}

/** Whether a text may name a key, and so a log or a witness. */
export function isNoteName(text: string): boolean {
  return text.length <= MAX_NAME && NAME.test(text);
}

/**
 * A key under a name.
 * @param publicKey the 32 bytes @throws LedgerError for a name that none can have, or bytes that are no key
 */
export function noteKey(name: string, type: NoteType, publicKey: Uint8Array): NoteKey {
  if (!isNoteName(name))
    throw new LedgerError(`${JSON.stringify(name)} cannot name a key: no spaces, no plus, at most ${MAX_NAME} characters`);
  if (publicKey.length !== KEY_BYTES) throw new LedgerError(`the key of ${name} is not ${KEY_BYTES} bytes`);
  const material = Buffer.concat([Buffer.of(type), publicKey]);
  const keyId = createHash('sha256').update(`${name}\n`).update(material).digest().subarray(0, ID_BYTES).toString('hex');
  const x = Buffer.from(publicKey).toString('base64url');
  const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
  return { name, keyId, type, key, vkey: `${name}+${keyId}+${material.toString('base64')}` };
}

/** Reads a verifier key of one type. @throws LedgerError that says what is wrong with it */
export function readNoteKey(vkey: string, type: NoteType): NoteKey {
  const [name = '', keyId = '', ...rest] = vkey.split('+');
  // The base64 may hold a plus itself.
  const material = exactBase64(rest.join('+'));
  if (material === undefined || material.length < 1) throw new LedgerError(`${JSON.stringify(vkey)} is no verifier key (name+id+base64)`);
  if (material[0] !== type) throw new LedgerError(`the verifier key of ${name} is of type ${material[0]}, and type ${type} is wanted`);
  const key = noteKey(name, type, material.subarray(1));
  if (key.keyId !== keyId) throw new LedgerError(`the verifier key of ${name} has the id ${keyId}, and its key has ${key.keyId}`);
  return key;
}

/** The line of a signature, without its line end. @param bytes behind the key id */
export function signatureLine({ name, keyId }: Pick<NoteKey, 'name' | 'keyId'>, bytes: Uint8Array): string {
  return `${DASH}${name} ${Buffer.concat([Buffer.from(keyId, 'hex'), bytes]).toString('base64')}`;
}

/** A note with lines of signature. @param text with its last line end */
export function noteOf(text: string, lines: readonly string[]): string {
  return `${text}\n${lines.map((line) => `${line}\n`).join('')}`;
}

/** Reads one line of signature. @throws LedgerError */
export function readSignatureLine(line: string): NoteSignature {
  const [name = '', encoded = '', ...more] = line.startsWith(DASH) ? line.slice(DASH.length).split(' ') : [];
  const bytes = exactBase64(encoded);
  if (more.length > 0 || !isNoteName(name) || bytes === undefined || bytes.length <= ID_BYTES)
    throw new LedgerError('note: a line of its signatures is none');
  return { name, keyId: bytes.subarray(0, ID_BYTES).toString('hex'), bytes: bytes.subarray(ID_BYTES), line };
}

/** Reads a note; whose signatures hold is for others to check. @throws LedgerError */
export function readNote(note: string): SignedNote {
  const end = note.lastIndexOf('\n\n');
  if (note.length > MAX_NOTE) throw new LedgerError(`note: it is longer than ${MAX_NOTE} characters`);
  if (end < 1 || CONTROL.test(note) || !note.isWellFormed())
    throw new LedgerError('note: it is no text with lines of signature behind an empty line');
  const lines = note.slice(end + 2).split('\n');
  if (lines.pop() !== '' || lines.length === 0) throw new LedgerError('note: it has no whole line of signature');
  if (lines.length > MAX_SIGNATURES) throw new LedgerError(`note: it has more than ${MAX_SIGNATURES} signatures`);
  return { text: note.slice(0, end + 1), signatures: lines.map(readSignatureLine) };
}

/** Lines that say that they are of a key; name and id together name it. */
export function signaturesOf({ signatures }: SignedNote, { name, keyId }: Pick<NoteKey, 'name' | 'keyId'>): readonly NoteSignature[] {
  return signatures.filter((one) => one.name === name && one.keyId === keyId);
}

/** Standard base64 in its one spelling; undefined for any other text. */
export function exactBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64') === text ? bytes : undefined;
}
