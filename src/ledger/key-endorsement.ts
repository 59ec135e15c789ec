import { type KeyObject, sign, verify } from 'node:crypto';
import { canonicalJson } from '../base/json/jcs.ts';
import { isJsonObject, type JsonObject } from '../base/json/json-object.ts';
import { bytesOfBase64 } from '../base/lib/basic-credentials.ts';
import { LedgerError, textOf } from './ledger-error.ts';

const SCHEMA = 'gw.key_endorsement.v1';

/**
 * What the key before a key says of it (decision 13.18): who believes the one may believe the other, from that time on.
 */
export interface KeyEndorsement {
  /** Of the key that has signed this. */
  readonly kid: string;
  /** Ed25519, base64. */
  readonly sig: string;
}

/** What is signed of the key that comes next. */
export interface EndorsedKey {
  readonly kid: string;
  readonly alg: 'ed25519';
  readonly use: string;
  readonly public_key: string;
  /** When it begins to sign, RFC 3339. */
  readonly not_before: string;
}

/** @param by the key that signs until then; private, Ed25519 */
export function endorse(next: EndorsedKey, by: { readonly kid: string; readonly key: KeyObject }): KeyEndorsement {
  return { kid: by.kid, sig: sign(undefined, bytesOf(next, by.kid), by.key).toString('base64') };
}

/** Whether the key before it has said so. @param by public */
export function isEndorsed(next: EndorsedKey, { kid, sig }: KeyEndorsement, by: KeyObject): boolean {
  const bytes = bytesOfBase64(sig);
  return bytes?.length === 64 && verify(undefined, bytesOf(next, kid), by, bytes);
}

/** @throws LedgerError */
export function endorsementIn(entry: JsonObject, what: string): KeyEndorsement | undefined {
  const value = entry['endorsed_by'];
  if (value === undefined) return undefined;
  if (!isJsonObject(value)) throw new LedgerError(`${what}: endorsed_by is not an object`);
  return { kid: textOf(value, 'kid', `${what}: endorsed_by`), sig: textOf(value, 'sig', `${what}: endorsed_by`) };
}

function bytesOf({ kid, alg, use, public_key, not_before }: EndorsedKey, endorsedBy: string): Buffer {
  return Buffer.from(canonicalJson({ schema: SCHEMA, use, kid, alg, public_key, not_before, endorsed_by: endorsedBy }));
}
