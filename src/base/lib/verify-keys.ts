import { createPublicKey, type KeyObject } from 'node:crypto';
import { bytesOfBase64 } from './basic-credentials.ts';

const KEY_BYTES = 32;
const HEX = /^[0-9a-fA-F]{64}$/;
const KID = /^[A-Za-z0-9._-]{1,128}$/;

/**
 * The keys that tokens are verified with: one without a name for tokens of any `kid`, or each by its `kid` and none for
 * others.
 */
export interface VerifyKeys {
  /** @returns undefined for a `kid` that is not known; other keys are not tried */
  find(kid: string): KeyObject | undefined;
}

/**
 * Reads one public Ed25519 key (PEM, or 32 bytes as base64 or hex), or `kid=key` separated by commas.
 * @throws RangeError that says which entry cannot be read, by its number and never by its text
 */
export function readVerifyKeys(text: string): VerifyKeys {
  const single = readKey(text);
  if (single !== undefined) return { find: () => single };
  const named = new Map<string, KeyObject>();
  for (const [index, entry] of text.split(',').entries()) {
    const at = entry.indexOf('=');
    const kid = entry.slice(0, Math.max(at, 0)).trim();
    const key = at === -1 ? undefined : readKey(entry.slice(at + 1));
    if (key === undefined || !isKid(kid)) throw new RangeError(`entry ${index + 1} is no public Ed25519 key, nor kid=key`);
    if (named.has(kid)) throw new RangeError(`entry ${index + 1} repeats a kid`);
    named.set(kid, key);
  }
  return { find: (kid) => named.get(kid) };
}

/** A name of a key that {@link readVerifyKeys} takes. */
export function isKid(text: string): boolean {
  return KID.test(text);
}

function readKey(untrimmed: string): KeyObject | undefined {
  const text = untrimmed.trim();
  if (text.startsWith('-----BEGIN PUBLIC KEY-----')) return readPem(text);
  const bytes = HEX.test(text) ? Buffer.from(text, 'hex') : bytesOfBase64(text);
  if (bytes?.length !== KEY_BYTES) return undefined;
  return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: bytes.toString('base64url') }, format: 'jwk' });
}

function readPem(text: string): KeyObject | undefined {
  try {
    const key = createPublicKey(text);
    return key.asymmetricKeyType === 'ed25519' ? key : undefined;
  } catch {
    return undefined;
  }
}
