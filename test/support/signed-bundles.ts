import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { canonicalJson } from '../../src/base/json/jcs.ts';
import { sha256Hex } from '../../src/base/lib/sha256.ts';
import type { PublicKey, SignedBundle } from '../../src/control-plane/proto/messages.ts';

/** A key of a control plane that a test plays. */
export interface PlayedKey {
  readonly kid: string;
  readonly key: KeyObject;
  /** As FetchKeys lists it. */
  readonly listed: PublicKey;
}

export function playedKey(kid: string, use: 'bundle' | 'ledger' = 'bundle'): PlayedKey {
  const { privateKey: key, publicKey } = generateKeyPairSync('ed25519');
  const raw = Buffer.from(publicKey.export({ format: 'jwk' }).x ?? '', 'base64url');
  return { kid, key, listed: { kid, alg: 'ed25519', use, public_key: raw, not_before: '', not_after: '' } };
}

/** A bundle as a control plane signs it. */
export function signedBundle(
  { kid, key }: PlayedKey,
  yaml: string | Uint8Array,
  sequence: number,
  { org = 'acme', version = `v+${sequence}` }: { readonly org?: string; readonly version?: string } = {},
): SignedBundle {
  const bytes = Buffer.from(yaml);
  const signed = { schema: 'gw.signed_bundle.v1', org_id: org, version, sequence, sha256: sha256Hex(bytes) };
  const signature = sign(undefined, Buffer.from(canonicalJson(signed)), key);
  return { bundle_yaml: bytes, org_id: org, version, sequence: String(sequence), kid, signature };
}
