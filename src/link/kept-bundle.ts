import { isJsonObject } from '../base/json/json-object.ts';
import type { SignedBundle } from '../control-plane/proto/messages.ts';
import type { Effect } from '../storage/contract/store.ts';
import type { ClaimedBundle } from './bundle-signature.ts';

/** By org: the bundle that was taken last, as it was signed. */
export const REMOTE_BUNDLES = 'remote_bundle';
/** By org: how far the sequence has come; never removed. */
export const HIGHEST_SEQUENCES = 'remote_bundle_highest';

/** The bundle with the highest sequence that was ever taken. */
export interface HighestSequence {
  readonly sequence: number;
  /** Lower-case hex, of its bytes: two bundles of one sequence are two histories. */
  readonly sha256: string;
}

/** What is stored with a bundle that comes into force, in one commit. @param fetchedAt RFC 3339 */
export function keptEffects(claimed: ClaimedBundle, fetchedAt: string): readonly Effect[] {
  const { bytes, orgId, version, sequence, kid, signature, sha256 } = claimed;
  const highest: HighestSequence = { sequence, sha256 };
  const value = {
    bundle_yaml: Buffer.from(bytes).toString('base64'),
    org_id: orgId,
    version,
    sequence: String(sequence),
    kid,
    signature: Buffer.from(signature).toString('base64'),
    fetched_at: fetchedAt,
  };
  return [
    { op: 'put', space: REMOTE_BUNDLES, key: orgId, value },
    { op: 'put', space: HIGHEST_SEQUENCES, key: orgId, value: highest },
  ];
}

/** Undefined: it is none. Nothing of it is believed before its signature was looked at. */
export function readKept(value: unknown): { readonly bundle: SignedBundle; readonly fetchedAt: number } | undefined {
  if (!isJsonObject(value)) return undefined;
  const text = (name: string): string => {
    const member = value[name];
    return typeof member === 'string' ? member : '';
  };
  const fetchedAt = Date.parse(text('fetched_at'));
  if (Number.isNaN(fetchedAt)) return undefined;
  const bundle = {
    bundle_yaml: Buffer.from(text('bundle_yaml'), 'base64'),
    org_id: text('org_id'),
    version: text('version'),
    sequence: text('sequence'),
    kid: text('kid'),
    signature: Buffer.from(text('signature'), 'base64'),
  };
  return { bundle, fetchedAt };
}

export function readHighest(value: unknown): HighestSequence | undefined {
  if (!isJsonObject(value)) return undefined;
  const { sequence, sha256 } = value;
  return typeof sequence === 'number' && typeof sha256 === 'string' ? { sequence, sha256 } : undefined;
}
