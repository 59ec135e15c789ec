import { streamFraming } from '../../base/catalogue/stream-types.ts';
import { ERROR_CODES } from '../../base/model/error-codes.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { BUDGET_EXCEEDED } from '../../decide/policy/judge-caps.ts';
import { directRefusal } from '../../inbound/reply/refusal-body.ts';
import type { ProviderErrorText } from '../../outbound/connectors/provider-error.ts';
import { framedError, streamError } from '../../outbound/connectors/stream-error.ts';
import type { CapReached } from '../parts/cap-reached.ts';
import type { ForwardedCall } from '../parts/parts.ts';
import { traceFacts } from './send.ts';

/** Code of a stream that was ended at its cap: in its record, and in its last event. */
export const STOPPED = 'stream_stopped_at_cap';
/** What a stream that was ended says in its record. */
export function stopMessage({ cap }: CapReached): string {
  return `The gateway ended this stream: with more output it would pass ${cap}.`;
}

/** The same for people who do not know of a gateway. */
export function stopText(reached: CapReached): ProviderErrorText {
  return {
    status: ERROR_CODES[STOPPED].status,
    type: BUDGET_EXCEEDED,
    message: `Stopped by the AI gateway (${STOPPED}): ${stopMessage(reached)}`,
  };
}

/** What its last event says beside the error itself, on every door. */
export function stopMembers(record: ExecutionRecord): Readonly<Record<string, unknown>> {
  const { reason, reason_codes, request_id, record_id, record_hash, budget } = record;
  return { reason, reason_codes, request_id, record_id, record_hash, ...(budget === undefined ? {} : { budget }) };
}

/** The last event of a stream that was ended: of the provider's format, on the structured API of the gateway's own. */
export function stopEvent(call: ForwardedCall, record: ExecutionRecord, mediaType: string, reached: CapReached): readonly Uint8Array[] {
  const dialect = call.route.operation?.dialect;
  if (dialect?.streaming === undefined) return [];
  const framing = streamFraming(dialect.streaming, mediaType);
  if (call.arrival.line !== 'direct') return streamError(dialect, framing, stopText(reached), stopMembers(record));
  const refusal = { status: ERROR_CODES[STOPPED].status, reason: BUDGET_EXCEEDED, reasonCodes: record.reason_codes };
  const body = directRefusal(record, refusal, { ...traceFacts(call, undefined), attributes: reached.attributes }) as object;
  const message = stopMessage(reached);
  const json = JSON.stringify({ ...body, error: { code: STOPPED, message } });
  return [framedError(framing, { name: 'error', json, code: STOPPED, message })];
}
