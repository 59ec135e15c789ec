import { createPublicKey, type KeyObject } from 'node:crypto';
import { isJsonObject, type JsonObject } from '../base/json/json-object.ts';
import { bytesOfBase64 } from '../base/lib/base64-text.ts';
import { LedgerError, textOf } from './ledger-error.ts';
import type { LedgerKeys } from './merkle-root.ts';

/** A public key as the control plane lists it. */
export interface ListedKey {
  readonly kid: string;
  readonly alg: 'ed25519';
  readonly use: 'ledger' | 'bundle';
  /** The 32 raw bytes, base64. */
  readonly public_key: string;
}

/** How a public Ed25519 key is listed. */
export function listedKey(kid: string, use: ListedKey['use'], key: KeyObject): ListedKey {
  const { x } = key.export({ format: 'jwk' });
  if (x === undefined) throw new TypeError('this is no Ed25519 key');
  return { kid, alg: 'ed25519', use, public_key: Buffer.from(x, 'base64url').toString('base64') };
}

/**
 * The keys of one use among those that are listed. One of another algorithm or use is passed over, so that later kinds harm nobody.
 * @param listed the members of `data`
 * @throws LedgerError for a key that cannot be read, or a `kid` that stands there twice
 */
export function readKeys(listed: readonly unknown[], use: ListedKey['use']): LedgerKeys {
  const keys = new Map<string, KeyObject>();
  for (const [index, entry] of listed.entries()) {
    const what = `key ${index + 1}`;
    if (!isJsonObject(entry)) throw new LedgerError(`${what}: it is not an object`);
    if (entry['use'] !== use || entry['alg'] !== 'ed25519') continue;
    const kid = textOf(entry, 'kid', what);
    if (keys.has(kid)) throw new LedgerError(`${what}: there are two keys of the name ${kid}`);
    keys.set(kid, keyOf(entry, what));
  }
  return { find: (kid) => keys.get(kid) };
}

function keyOf(entry: JsonObject, what: string): KeyObject {
  const bytes = bytesOfBase64(textOf(entry, 'public_key', what));
  if (bytes?.length !== 32) throw new LedgerError(`${what}: public_key is not the 32 bytes of a key in base64`);
  return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: bytes.toString('base64url') }, format: 'jwk' });
}
