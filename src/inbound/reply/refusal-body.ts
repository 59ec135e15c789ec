import type { Dialect } from '../../base/catalogue/types.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { envelope, type TraceFacts } from './envelope.ts';

/** What a refusal is about, and a sentence for people that says more than its reason. */
export interface RefusalDetail {
  readonly path: string;
  readonly message: string;
}

/** What a refusal says, whichever door it leaves by. */
export interface RefusalText {
  readonly status: number;
  readonly reason: string;
  readonly reasonCodes: readonly string[];
  /** The refusal is a failure with a code of its own. */
  readonly errorCode?: string | undefined;
  readonly detail?: RefusalDetail | undefined;
}

/** Body of a refusal on the structured API (specification, "Policy outcomes"). A quarantine says no more than a denial must. */
export function directRefusal(record: ExecutionRecord, refusal: RefusalText, facts: TraceFacts): unknown {
  if (record.decision === 'quarantine' || record.decision === 'require_approval') {
    const { decision, approval_id, record_id, record_hash } = record;
    return { decision, ...(approval_id === undefined ? {} : { approval_id }), reason: refusal.reason, record_id, record_hash };
  }
  const { reason, reasonCodes, detail } = refusal;
  const body = {
    ...envelope(record, facts),
    reason,
    reason_codes: reasonCodes,
    ...(detail ? { details: [detail] } : {}),
    ...budgetOf(record),
  };
  const isError = record.decision === 'error' || refusal.errorCode !== undefined;
  return isError ? { ...body, error: { code: refusal.reasonCodes[0] ?? 'error', message: refusal.reason } } : body;
}

/** Imitates the error body of a provider, so that its own SDK shows the message to a person (decision 8.2). */
export type ProviderError = (
  shape: Dialect['errorShape'],
  error: { status: number; type: string; message: string },
) => Readonly<Record<string, unknown>>;

/** Body of a refusal in a proxied exchange: the specified members beside the provider's own form of an error. */
export function proxiedRefusal(
  record: ExecutionRecord,
  refusal: RefusalText,
  shape: Dialect['errorShape'],
  providerError: ProviderError,
): unknown {
  const code = refusal.reasonCodes[0] ?? record.decision;
  const message = `${record.decision === 'error' ? 'The gateway could not complete this call' : 'Refused by the AI gateway'} (${code}): ${refusal.reason}${refusal.detail ? `. ${refusal.detail.message}` : ''}`;
  return {
    ...providerError(shape, { status: refusal.status, type: `gateway_${record.decision}`, message }),
    decision: record.decision,
    reason: refusal.reason,
    reason_codes: refusal.reasonCodes,
    request_id: record.request_id,
    record_id: record.record_id,
    record_hash: record.record_hash,
    ...budgetOf(record),
  };
}

/** The cap that has refused the call: whoever was refused for it may know its amounts (decision 6.19). */
function budgetOf({ budget }: ExecutionRecord): Pick<ExecutionRecord, 'budget'> {
  return budget === undefined ? {} : { budget };
}
