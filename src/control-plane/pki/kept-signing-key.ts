import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { type ListedKey, listedKey } from '../../ledger/ledger-answers.ts';
import { keptOnce } from './kept-once.ts';

const KID_DIGITS = 16;

/** An Ed25519 key that signs roots, or bundles. */
export interface KeptSigningKey {
  /** `ledger-` or `bundle-`, and the beginning of the SHA-256 of the public key. */
  readonly kid: string;
  readonly key: KeyObject;
  /** Its public half. */
  readonly listed: ListedKey;
}

/**
 * Reads the key from its file, or makes it.
 * @throws Error when it is no Ed25519 key; CertificateAuthorityError when others can read it
 */
export async function openSigningKey(file: string, use: ListedKey['use']): Promise<KeptSigningKey> {
  return signingKey(use, readKey(file, await keptOnce(file, newKey)));
}

function newKey(): string {
  return generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
}

function signingKey(use: ListedKey['use'], key: KeyObject): KeptSigningKey {
  const publicKey = createPublicKey(key);
  const digest = createHash('sha256')
    .update(publicKey.export({ type: 'spki', format: 'der' }))
    .digest('hex');
  const kid = `${use}-${digest.slice(0, KID_DIGITS)}`;
  return { kid, key, listed: listedKey(kid, use, publicKey) };
}

function readKey(file: string, text: string): KeyObject {
  try {
    const key = createPrivateKey(text);
    if (key.asymmetricKeyType === 'ed25519') return key;
  } catch (error) {
    throw new Error(`${file} cannot be read: restore it from a backup`, { cause: error });
  }
  throw new Error(`${file} holds no Ed25519 key: restore it from a backup`);
}
