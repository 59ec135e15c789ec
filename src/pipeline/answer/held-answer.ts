import type { ReplySink } from '../../base/model/arrival.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import type { AnswerHead } from '../../inbound/reply/answer-head.ts';
import { governedHeaders } from '../../inbound/reply/governed-headers.ts';
import type { ForwardedCall } from '../parts/parts.ts';
import { markOf, sendEnvelope } from './send.ts';

/** Answers up to this size that are no stream are held whole and leave in one write (decision 7.9). */
export const HOLD_BYTES = 64 * 1024;

/**
 * What is too large to be held, and what a host that is no AI host sends without saying how long it is: that may be a stream of any kind, and a gRPC client
 * waits for one message before it says the next. Its end is kept back all the same.
 */
export function passesAtOnce({ arrival: { line }, route: { provider } }: ForwardedCall, { bodiless, contentLength }: AnswerHead): boolean {
  if (line !== 'proxied' || bodiless) return false;
  return contentLength === undefined ? provider === undefined : contentLength > HOLD_BYTES;
}

export interface HeldAnswer {
  readonly head: AnswerHead;
  readonly body: Uint8Array;
  readonly trailers: readonly string[];
  /** The upstream's h2 head ended it. */
  readonly empty: boolean;
}

/** Sends an answer that was held whole, in one write where it has no trailers; its record is stored. */
export function sendHeld(
  call: ForwardedCall,
  reply: ReplySink,
  record: ExecutionRecord,
  { head, body, trailers, empty }: HeldAnswer,
): void {
  if (call.arrival.line === 'direct') {
    sendEnvelope(call, reply, record, head, body);
    return;
  }
  const headers = governedHeaders(markOf(call, record.record_hash), head.headers);
  if (head.bodiless || empty) {
    reply.head(head.status, headers, head.contentLength, empty);
    reply.end(trailers);
  } else if (trailers.length > 0) {
    reply.head(head.status, headers);
    if (body.length > 0) reply.write(body);
    reply.end(trailers);
  } else {
    reply.sendWhole(head.status, headers, body);
  }
}
