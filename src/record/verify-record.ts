import { CanonicalJsonError, canonicalJson } from '../base/json/jcs.ts';
import { isJsonObject } from '../base/json/json-object.ts';
import { unambiguousJson } from '../base/json/unambiguous-json.ts';
import { sha256Hex } from '../base/lib/sha256.ts';
import { isShortened, SHORTENED_RULE } from '../base/model/execution-record.ts';

export interface CheckedRecord {
  /** As the record says, quoted when it is odd. */
  readonly recordId: string;
  /** The org that the record names; undefined: none that can be shown. */
  readonly orgId: string | undefined;
  readonly stored: string;
  readonly computed: string;
}

/**
 * Recomputes the hash of a record's JSON text as anyone can (decision 7.1): SHA-256 of the RFC 8785 form of everything
 * but `record_hash`.
 * @throws Error when the text is no record: not JSON, without `record_hash`, a name that stands twice, numbers that
 * JSON readers disagree about; or a shortened one
 */
export function checkRecord(bytes: Uint8Array | string): CheckedRecord {
  const record = unambiguousJson(bytes);
  if (!isJsonObject(record)) throw new Error('it is not a JSON object');
  if (isShortened(record)) throw new Error(SHORTENED_RULE);
  const { record_hash: stored, record_id: id, ...rest } = record;
  if (typeof stored !== 'string' || !/^[0-9a-f]{64}$/.test(stored))
    throw new Error('there is no record_hash of 64 hexadecimal digits in it');
  const hashed = id === undefined ? rest : { ...rest, record_id: id };
  try {
    return { recordId: idText(id), orgId: orgText(rest['org_id']), stored, computed: sha256Hex(canonicalJson(hashed)) };
  } catch (error) {
    if (error instanceof CanonicalJsonError) throw new Error(`it has no canonical form: ${error.message}`, { cause: error });
    throw error;
  }
}

function orgText(org: unknown): string | undefined {
  return typeof org === 'string' && /^[\x21-\x7e]{1,64}$/.test(org) ? org : undefined;
}

function idText(id: unknown): string {
  return typeof id === 'string' && /^[\x21-\x7e]{1,128}$/.test(id) ? id : '(no record_id)';
}
