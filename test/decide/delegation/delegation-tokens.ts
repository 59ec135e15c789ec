import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { canonicalJson } from '../../../src/base/json/jcs.ts';

export type Token = Readonly<Record<string, unknown>>;

/** An issuer of tokens for tests. */
export class Issuer {
  readonly kid: string;
  readonly #key: KeyObject;
  /** Base64 of the 32 bytes of the public key. */
  readonly publicKey: string;

  constructor(kid: string) {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519');
    this.kid = kid;
    this.#key = privateKey;
    this.publicKey = Buffer.from(publicKey.export({ format: 'jwk' }).x ?? '', 'base64url').toString('base64');
  }

  signed(token: Token): Token {
    const signature = sign(null, Buffer.from(canonicalJson(token), 'utf8'), this.#key);
    return { ...token, sig: { alg: 'ed25519', kid: this.kid, sig: signature.toString('base64') } };
  }

  text(token: Token): string {
    return encoded(this.signed(token));
  }
}

export const encoded = (token: unknown): string => Buffer.from(JSON.stringify(token), 'utf8').toString('base64');

/** A token without limits, for org `o`, workload `w`, good for the hour after {@link ISSUED}. */
export const fields = (more: Token = {}): Token => ({
  schema: 'gw.delegation.v2',
  delegation_id: 'root',
  org_id: 'o',
  workload_id: 'w',
  issued_at: '2026-01-01T00:00:00Z',
  expires_at: '2026-01-01T01:00:00Z',
  ...more,
});

/** The same for the org and workload that everybody has, good whenever the test runs. */
export const lasting = (more: Token = {}): Token =>
  fields({ org_id: 'default', workload_id: 'default', issued_at: '2020-01-01T00:00:00Z', expires_at: '2099-01-01T00:00:00Z', ...more });

export const ISSUED = Date.UTC(2026, 0, 1);

/** A token for the workload that every gateway has, good for an hour from {@link DELEGATED_AT}. */
export function everydayToken(more: Token = {}): Token {
  return fields({
    org_id: 'default',
    workload_id: 'default',
    issued_at: '2026-11-23T12:00:00Z',
    expires_at: '2026-11-23T13:00:00Z',
    ...more,
  });
}

/** Epoch milliseconds. */
export const DELEGATED_AT = Date.UTC(2026, 10, 23, 12);
