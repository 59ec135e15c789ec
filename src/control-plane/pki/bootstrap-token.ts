import { createHash, randomBytes } from 'node:crypto';

const PREFIX = 'gwb_';
const SECRET_BYTES = 32;

/**
 * A new token: a secret, and the SHA-256 of the CA's certificate, so that its bearer knows whom to believe on the first
 * connection (decision 13.7).
 * @param ca DER
 */
export function makeBootstrapToken(ca: Uint8Array): string {
  const digest = createHash('sha256').update(ca).digest('base64url');
  return `${PREFIX}${randomBytes(SECRET_BYTES).toString('base64url')}.${digest}`;
}
