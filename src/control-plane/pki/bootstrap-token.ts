import { createHash, randomBytes } from 'node:crypto';

export const BOOTSTRAP_TOKEN_PREFIX = 'gwb_';
const SECRET_BYTES = 32;
const TOKEN = /^gwb_[A-Za-z0-9_-]{43}\.([A-Za-z0-9_-]{43})$/;

/** A new token: a secret, and the SHA-256 of the CA's certificate, so that its bearer knows whom to believe on the first connection (decision 13.7). @param ca DER */
export function makeBootstrapToken(ca: Uint8Array): string {
  const digest = createHash('sha256').update(ca).digest('base64url');
  return `${BOOTSTRAP_TOKEN_PREFIX}${randomBytes(SECRET_BYTES).toString('base64url')}.${digest}`;
}

/** SHA-256 of the DER of the CA that a token names; undefined for what is no bootstrap token. */
export function caDigestOf(token: string): Buffer | undefined {
  const digest = TOKEN.exec(token)?.[1];
  return digest === undefined ? undefined : Buffer.from(digest, 'base64url');
}
