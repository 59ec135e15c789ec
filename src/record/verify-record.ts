import { canonicalJson } from '../base/lib/jcs.ts';
import { sha256Hex } from '../base/lib/sha256.ts';

export type RecordCheck =
  | { readonly ok: true; readonly record_hash: string }
  | { readonly ok: false; readonly stated: string | undefined; readonly computed: string | undefined; readonly problem: string };

/** Recomputes the hash of a record as anyone can (decision 7.1): SHA-256 over the RFC 8785 form of the record without `record_hash`. */
export function verifyRecord(record: unknown): RecordCheck {
  if (typeof record !== 'object' || record === null || Array.isArray(record)) {
    return { ok: false, stated: undefined, computed: undefined, problem: 'not a JSON object' };
  }
  const { record_hash: stated, ...rest } = record as Record<string, unknown>;
  let computed: string;
  try {
    computed = sha256Hex(canonicalJson(rest));
  } catch (error) {
    return {
      ok: false,
      stated: typeof stated === 'string' ? stated : undefined,
      computed: undefined,
      problem: error instanceof Error ? error.message : String(error),
    };
  }
  if (typeof stated !== 'string') return { ok: false, stated: undefined, computed, problem: 'the record states no record_hash' };
  if (stated !== computed) return { ok: false, stated, computed, problem: 'the record was changed after it was hashed' };
  return { ok: true, record_hash: computed };
}
