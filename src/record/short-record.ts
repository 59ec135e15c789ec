import { shorten } from '../base/lib/text.ts';
import { STRANGER_BOUNDS } from '../base/model/traffic-bounds.ts';
import { type CanonicalRecord, canonicalRecord, type RecordDraft } from './canonical-record.ts';

/** Longest record of a caller who has shown nothing, UTF-8 bytes. */
export const MAX_SHORT_RECORD = STRANGER_BOUNDS.recordBytes.one;
const MAX_PATH = 128;
const MAX_REASON = 160;

/** Whether a record is so long that {@link shortRecord} would change it. */
export function isLong({ text }: CanonicalRecord): boolean {
  return text.length > MAX_SHORT_RECORD || Buffer.byteLength(text) > MAX_SHORT_RECORD;
}

/**
 * The record of a refused call with every text that its caller chose cut to its beginning, and without labels and
 * observed values, so that it is never longer than
 * {@link MAX_SHORT_RECORD} (decision 7.11). The draft is changed.
 */
export function shortRecord(draft: RecordDraft): CanonicalRecord {
  const { error, policy_trace: trace } = draft;
  draft.labels = undefined;
  draft.delegation_chain = undefined;
  draft.budget = undefined;
  if (trace) draft.policy_trace = { ...trace, attributes: undefined, shadow: undefined };
  draft.target = shorten(draft.target, MAX_PATH);
  draft.target_path = shorten(draft.target_path, MAX_PATH);
  draft.reason = cut(draft.reason, MAX_REASON);
  if (error) draft.error = { code: error.code, message: shorten(error.message, MAX_REASON) };
  draft.model = cut(draft.model);
  draft.caller_id = cut(draft.caller_id);
  draft.idempotency_key = cut(draft.idempotency_key);
  draft.customer_id = cut(draft.customer_id);
  draft.account_id = cut(draft.account_id);
  draft.project_id = cut(draft.project_id);
  draft.delegation_id = cut(draft.delegation_id);
  return canonicalRecord(draft);
}

function cut(text: string | undefined, max?: number): string | undefined {
  return text === undefined ? undefined : shorten(text, max);
}
