/*
 * Cosignatures of witnesses (C2SP tlog-cosignature, Ed25519): that at a time somebody else has seen a log grow up to a
 * checkpoint, and no other history of it.
 */
import { verify } from 'node:crypto';
import type { Checkpoint } from './checkpoint.ts';
import { LedgerError } from './ledger-error.ts';
import { type NoteKey, type NoteSignature, signatureLine, signaturesOf } from './signed-note.ts';

const TIME_BYTES = 8;
const SIGNATURE_BYTES = 64;

/** Who has cosigned a checkpoint. */
export interface Cosigner {
  readonly witness: string;
  /** When, whole seconds since the epoch. */
  readonly seconds: number;
}

/** What a witness signs. @param text of the checkpoint, without signatures */
export function cosignedText(text: string, seconds: number): string {
  return `cosignature/v1\ntime ${seconds}\n${text}`;
}

/**
 * Makes the line of a cosignature.
 * @param text of the checkpoint, without signatures @param seconds since the epoch
 * @param sign Ed25519 with the private key of the witness
 */
export function cosign(
  text: string,
  witness: Pick<NoteKey, 'name' | 'keyId'>,
  seconds: number,
  sign: (message: Uint8Array) => Uint8Array,
): string {
  const time = Buffer.alloc(TIME_BYTES);
  time.writeBigUInt64BE(BigInt(seconds));
  return signatureLine(witness, Buffer.concat([time, sign(Buffer.from(cosignedText(text, seconds)))]));
}

/**
 * Checks one line of a witness.
 * @returns when it was made, seconds since the epoch @throws LedgerError
 */
export function checkCosignature(text: string, { bytes }: NoteSignature, { name, key }: NoteKey): number {
  if (bytes.length !== TIME_BYTES + SIGNATURE_BYTES) throw new LedgerError(`checkpoint: the cosignature of ${name} has another length`);
  const time = bytes.readBigUInt64BE();
  const seconds = Number(time);
  const isTrue =
    Number.isSafeInteger(seconds) && verify(undefined, Buffer.from(cosignedText(text, seconds)), key, bytes.subarray(TIME_BYTES));
  if (!isTrue) throw new LedgerError(`checkpoint: the cosignature of ${name} does not fit`);
  return seconds;
}

/**
 * Which of these witnesses have cosigned a checkpoint, each once, with the newest of its times.
 * @throws LedgerError when a line of one of them does not fit: then nothing of the note is believed
 */
export function cosignersOf({ note }: Pick<Checkpoint, 'note'>, witnesses: readonly NoteKey[]): readonly Cosigner[] {
  return witnesses.flatMap((witness) => {
    const times = signaturesOf(note, witness).map((signature) => checkCosignature(note.text, signature, witness));
    return times.length === 0 ? [] : [{ witness: witness.name, seconds: Math.max(...times) }];
  });
}
