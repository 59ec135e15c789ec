import { type KeyObject, verify } from 'node:crypto';
import type { BundleFault } from '../base/events/events.ts';
import { canonicalJson } from '../base/json/jcs.ts';
import { sha256Hex } from '../base/lib/sha256.ts';
import type { SignedBundle } from '../control-plane/proto/messages.ts';

const SCHEMA = 'gw.signed_bundle.v1';
/** What the admin API takes of a bundle that is put, in bytes of characters of three. */
const MAX_BUNDLE_BYTES = 3 * 524_288;
const MAX_VERSION = 256;

/** A bundle that is not taken; the message is for a person. */
export class BundleRefused extends Error {
  readonly fault: BundleFault;

  constructor(fault: BundleFault, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.fault = fault;
  }
}

/** A signed bundle whose members can be right; of its signature nothing is known yet. */
export interface ClaimedBundle {
  /** As they were signed. */
  readonly bytes: Uint8Array;
  readonly orgId: string;
  readonly version: string;
  readonly sequence: number;
  readonly kid: string;
  readonly signature: Uint8Array;
  /** Lower-case hex SHA-256 of the bytes. */
  readonly sha256: string;
}

/** @throws BundleRefused `malformed` for what no control plane signs */
export function claimedBundle(given: SignedBundle): ClaimedBundle {
  const { bundle_yaml: bytes, org_id: orgId, version, kid, signature } = given;
  const sequence = Number(given.sequence);
  if (!/^[1-9][0-9]*$/.test(given.sequence) || !Number.isSafeInteger(sequence))
    throw new BundleRefused('malformed', 'the sequence of the bundle is no number from 1');
  if (version === '' || version.length > MAX_VERSION)
    throw new BundleRefused('malformed', 'the version of the bundle is empty or too long');
  if (bytes.length === 0 || bytes.length > MAX_BUNDLE_BYTES)
    throw new BundleRefused('malformed', `the bundle has ${bytes.length} bytes, and must have 1 to ${MAX_BUNDLE_BYTES}`);
  return { bytes, orgId, version, sequence, kid, signature, sha256: sha256Hex(bytes) };
}

/**
 * Whether the signature holds: Ed25519 over the RFC 8785 form of what says which bytes these are, of which org, version
 * and sequence (decision 13.9).
 */
export function signatureHolds({ orgId, version, sequence, sha256, signature }: ClaimedBundle, key: KeyObject): boolean {
  const signed = canonicalJson({ schema: SCHEMA, org_id: orgId, version, sequence, sha256 });
  return verify(undefined, Buffer.from(signed), key, signature);
}
