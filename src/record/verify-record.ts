import { CanonicalJsonError, canonicalJson } from '../base/json/jcs.ts';
import { parseSafeJson } from '../base/json/safe-json.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { sha256Hex } from '../base/lib/sha256.ts';

export interface CheckedRecord {
  /** As the record says, quoted when it is odd. */
  readonly recordId: string;
  readonly stored: string;
  readonly computed: string;
}

/**
 * Recomputes the hash of a record's JSON text as anyone can (decision 7.1): SHA-256 of the RFC 8785 form of everything but `record_hash`.
 * @throws Error when the text is no record: not JSON, without `record_hash`, a name that stands twice, numbers that JSON readers disagree about
 */
export function checkRecord(bytes: Uint8Array): CheckedRecord {
  const record = parseRecord(bytes);
  const { record_hash: stored, record_id: id, ...rest } = record;
  if (typeof stored !== 'string' || !/^[0-9a-f]{64}$/.test(stored))
    throw new Error('there is no record_hash of 64 hexadecimal digits in it');
  const hashed = id === undefined ? rest : { ...rest, record_id: id };
  try {
    return { recordId: idText(id), stored, computed: sha256Hex(canonicalJson(hashed)) };
  } catch (error) {
    if (error instanceof CanonicalJsonError) throw new Error(`it has no canonical form: ${error.message}`, { cause: error });
    throw error;
  }
}

function parseRecord(bytes: Uint8Array): Record<string, unknown> {
  let parsed: ReturnType<typeof parseSafeJson>;
  try {
    parsed = parseSafeJson(bytes, { malformed: 'invalid_request', exactIntegers: true });
  } catch (error) {
    if (error instanceof GatewayError) throw new Error(`it is not a record: ${error.message}`, { cause: error });
    throw error;
  }
  const { value, text, doubt } = parsed;
  if (doubt !== undefined) throw new Error(`it can be read in two ways: ${doubt.message}`);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Error('it is not a JSON object');
  // A reader sees one of two equal names, the hash covers the other: what stands there twice is not verified.
  if (colonsOutsideStrings(text) !== countNames(value)) throw new Error('it can be read in two ways: a name stands twice in one object');
  return { ...value };
}

function colonsOutsideStrings(text: string): number {
  return text.replace(/"(?:[^"\\]|\\.)*"/g, '').split(':').length - 1;
}

function countNames(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  const members: unknown[] = Object.values(value);
  return members.reduce<number>((sum, member) => sum + countNames(member), Array.isArray(value) ? 0 : members.length);
}

function idText(id: unknown): string {
  return typeof id === 'string' && /^[\x21-\x7e]{1,128}$/.test(id) ? id : '(no record_id)';
}
