import type { Versions } from '../proto/messages.ts';
import { ProtocolError } from '../proto/protocol-error.ts';
import { RESOURCES, type Resource } from '../state/control-plane-state.ts';

const TEXT = /^[\x20-\x7e]*$/;
const ID = /^[\x21-\x7e]{0,128}$/;
const NUMBER = /^\d{1,16}$/;
const MAX_VERSION = 256;

/** @throws ProtocolError INVALID_ARGUMENT that names the member */
export function invalid(member: string, rule: string): ProtocolError {
  return new ProtocolError('INVALID_ARGUMENT', `${member} ${rule}`);
}

/** Printable ASCII, at most so long. @throws ProtocolError INVALID_ARGUMENT */
export function shortText(member: string, text: string, max: number): string {
  if (text.length > max || !TEXT.test(text)) throw invalid(member, `must be at most ${max} printable ASCII characters`);
  return text;
}

/** What a gateway says of its versions. @throws ProtocolError INVALID_ARGUMENT */
export function checkedVersions(versions: Versions | null): Readonly<Record<Resource, string>> {
  if (versions === null) throw invalid('versions', 'is required');
  for (const name of RESOURCES) shortText(`versions.${name}`, versions[name], MAX_VERSION);
  const { policy, workloads, credentials, export_config, addons, api_keys, keys, overlays } = versions;
  return { policy, workloads, credentials, export_config, addons, api_keys, keys, overlays };
}

/** Where a page begins; undefined: at the beginning. @throws ProtocolError INVALID_ARGUMENT */
export function checkedCursor(cursor: string): string | undefined {
  if (!ID.test(cursor)) throw invalid('cursor', 'must be one that a page has given');
  return cursor === '' ? undefined : cursor;
}

/** Exactly so many bytes. @throws ProtocolError INVALID_ARGUMENT */
export function checkedHash(member: string, hash: Uint8Array): Uint8Array {
  if (hash.byteLength !== 32) throw invalid(member, 'must have 32 bytes');
  return hash;
}

/** A number of 64 bits that can be counted with. @throws ProtocolError INVALID_ARGUMENT */
export function checkedNumber(member: string, text: string): number {
  const value = NUMBER.test(text) ? Number(text) : Number.NaN;
  if (!Number.isSafeInteger(value)) throw invalid(member, 'is larger than any number that was given');
  return value;
}
