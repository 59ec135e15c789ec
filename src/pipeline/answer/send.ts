import { streamFraming } from '../../base/catalogue/stream-types.ts';
import type { Dialect } from '../../base/catalogue/types.ts';
import { isJsonObject } from '../../base/json/json-object.ts';
import { timestamp } from '../../base/lib/clock.ts';
import type { GatewayError } from '../../base/lib/gateway-error.ts';
import { REQUEST_ID_HEADER } from '../../base/lib/ids.ts';
import type { ReplySink } from '../../base/model/arrival.ts';
import { ERROR_CODES, ERROR_HEADERS, type ErrorCode } from '../../base/model/error-codes.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { type NextStep, stepAfter } from '../../base/model/next-step.ts';
import { BUDGET_EXCEEDED } from '../../decide/policy/judge-caps.ts';
import type { AnswerHead } from '../../inbound/reply/answer-head.ts';
import { governedHeaders, type Mark, passedHeaders } from '../../inbound/reply/answer-head.ts';
import { directRefusal, envelope, proxiedRefusal, type RefusalText, type TraceFacts, withResult } from '../../inbound/reply/envelope.ts';
import { framedError, type ProviderErrorText, refusalBody, streamError } from '../../outbound/connectors/provider-error.ts';
import type { KeptCall } from '../../services/money/idempotency.ts';
import type { CapReached } from '../parts/cap-reached.ts';
import { wireOf } from '../parts/known.ts';
import type { LineName } from '../parts/line-name.ts';
import type { ForwardedCall, Known } from '../parts/parts.ts';
import type { Refusal } from '../parts/refusal.ts';

const JSON_TYPE = ['Content-Type', 'application/json'];
/**
 * SDKs retry 5xx by themselves. A broken connection may heal within seconds; these failures do not, and a call that
 * timed out may have been billed.
 */
const LASTING: ReadonlySet<string> = new Set(['upstream_tls', 'upstream_protocol', 'upstream_timeout', 'internal']);
const IS_REPLAY = ['Idempotent-Replayed', 'true'];
const NO_RETRY = ['x-should-retry', 'false'];

/** What an answer that passes says of its call. */
export function markOf(
  { arrival, claims, mutation }: Pick<ForwardedCall, 'arrival' | 'claims' | 'mutation'>,
  recordHash: string | undefined,
): Mark {
  return { requestId: claims.requestId, recordId: arrival.recordId, decision: mutation.decision, recordHash };
}

/** What the decision trace of an answer says beyond its record. */
function traceFacts({ arrival, mutation }: Pick<Known, 'arrival' | 'mutation'>, refusal: Refusal | undefined): TraceFacts {
  const { originalModel, substitutedModel } = mutation ?? {};
  return { evaluatedAt: timestamp(arrival.createdAt), originalModel, substitutedModel, attributes: refusal?.traceAttributes };
}

/**
 * Which provider's error form a refusal takes: the dialect's, else the one of the provider's usual path, else OpenAI's,
 * which most clients read.
 */
export function errorShape(parts: Known): Dialect['errorShape'] {
  const { operation, provider } = wireOf(parts);
  return operation?.dialect?.errorShape ?? provider?.errorShape ?? 'openai';
}

/**
 * The answered structured call: 200 with the upstream's status inside, and the header fields of its that a program acts
 * on (decision 7.8).
 */
function sendEnvelope(call: ForwardedCall, reply: ReplySink, record: ExecutionRecord, head: AnswerHead, body: Uint8Array): void {
  const answer = withResult(envelope(record, traceFacts(call, undefined)), { status: head.status, mediaType: head.mediaType, body });
  reply.sendWhole(200, governedHeaders(markOf(call, record.record_hash), [...JSON_TYPE, ...passedHeaders(head.headers)]), answer);
}

/**
 * A recorded refusal. On the proxied doors every non-allow decision is 403 (specification, "Transparent proxy mode" 6).
 */
export function sendRefusal(parts: Known, refusal: Refusal, record: ExecutionRecord): void {
  const { line, reply } = parts.arrival;
  if (!reply || reply.gone) return;
  if (reply.headSent) {
    reply.reset();
    return;
  }
  const body = refusal.body ?? usualBody(parts, refusal, record);
  const mark = { requestId: record.request_id, recordId: record.record_id, decision: record.decision, recordHash: record.record_hash };
  reply.sendWhole(refusal.status, governedHeaders(mark, refusalHeaders(refusal, line)), Buffer.from(JSON.stringify(body)));
}

function usualBody(parts: Known, refusal: Refusal, record: ExecutionRecord): unknown {
  return parts.arrival.line === 'direct'
    ? directRefusal(record, refusal, traceFacts(parts, refusal))
    : proxiedRefusal(record, refusal, errorShape(parts), refusalBody);
}

function refusalHeaders({ errorCode, retryAfterSeconds, decision }: Refusal, line: LineName): readonly string[] {
  if (errorCode && LASTING.has(errorCode)) return [...JSON_TYPE, ...NO_RETRY];
  const ofCode = errorCode && ERROR_HEADERS[errorCode];
  if (ofCode) return [...JSON_TYPE, ...ofCode];
  // On the proxied doors of what has waited alone (specification, "Transparent proxy mode" 6; decision 9.1).
  if (retryAfterSeconds === undefined || (line !== 'direct' && decision !== 'require_approval')) return JSON_TYPE;
  return [...JSON_TYPE, 'Retry-After', String(retryAfterSeconds)];
}

/**
 * The answer of an earlier call with the same idempotency key, from its record and from what was kept beside it
 * (decision 6.7).
 */
export function sendReplay(reply: ReplySink | undefined, record: ExecutionRecord, kept: KeptCall, bytes: Uint8Array | undefined): void {
  if (!reply || reply.gone) return;
  const mark = { requestId: record.request_id, recordId: record.record_id, decision: record.decision, recordHash: record.record_hash };
  const { result } = kept;
  if (result?.stream === true && bytes) {
    reply.sendWhole(result.upstream_status, governedHeaders(mark, ['Content-Type', result.content_type, ...IS_REPLAY]), bytes);
    return;
  }
  const { evaluated_at: evaluatedAt = record.created_at, ...attributes } = kept.trace;
  const facts = { evaluatedAt, originalModel: undefined, substitutedModel: undefined, attributes };
  const body =
    result && bytes
      ? withResult(envelope(record, facts), { status: result.upstream_status, mediaType: result.content_type, body: bytes })
      : Buffer.from(JSON.stringify(result ? envelope(record, facts) : directRefusal(record, keptRefusal(record, kept), facts)));
  reply.sendWhole(kept.status, governedHeaders(mark, [...JSON_TYPE, ...IS_REPLAY]), body);
}

function keptRefusal(
  { decision, reason = decision, reason_codes: reasonCodes }: ExecutionRecord,
  { status, detail }: KeptCall,
): RefusalText {
  // When it may pass was said of the moment of the call.
  return { status, reason, reasonCodes, next: stepAfter({ decision, reasonCodes }), ...(detail ? { detail } : {}) };
}

/**
 * An end without a record: the plain error body of every gateway surface (decision 8.1), and to who lacks a key or a
 * token that of the provider whom he calls (decision 13.10).
 */
export function sendFailure(parts: Known, error: GatewayError, requestId: string): void {
  const { line, reply } = parts.arrival;
  if (!reply || reply.gone) return;
  if (reply.headSent) {
    reply.reset();
    return;
  }
  const headers = [REQUEST_ID_HEADER, requestId, ...JSON_TYPE, ...error.headers];
  const isOfProvider = error.code === 'unauthorized' && line !== 'direct';
  const body = isOfProvider ? unauthorizedBody(errorShape(parts), error) : error.toBody();
  reply.sendWhole(error.status, headers, Buffer.from(JSON.stringify(body)));
}

/** As the provider's own SDK reads it; `error.code` is ours where the provider has none there. */
function unauthorizedBody(shape: Dialect['errorShape'], { status, code, message }: GatewayError): unknown {
  const body = refusalBody(shape, { status, type: code, message });
  const { error } = body;
  return { ...body, error: isJsonObject(error) ? { code, ...error } : { code, message } };
}

/** Answers up to this size that are no stream are held whole and leave in one write (decision 7.9). */
export const HOLD_BYTES = 64 * 1024;

/**
 * What is too large to be held, and what a host that is no AI host sends without saying how long it is: that may be a
 * stream of any kind, and a gRPC client waits for one message before it says the next. Its end is kept back all the
 * same.
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

/** Code of a stream that was ended at its cap: in its record, and in its last event. */
export const STOPPED = 'stream_stopped_at_cap';
/** What a stream that was ended says in its record. */
export function stopMessage({ cap }: CapReached): string {
  return `The gateway ended this stream: with more output it would pass ${cap}.`;
}

/** The same for people who do not know of a gateway. */
export function stopText(reached: CapReached): ProviderErrorText {
  return endText(endAtCap(reached));
}

function endText({ code, type, message }: StreamEnding): ProviderErrorText {
  return { status: ERROR_CODES[code].status, type, message: `Stopped by the AI gateway (${code}): ${message}` };
}

/** Why the gateway ends a stream in the place of its provider. */
interface StreamEnding {
  readonly code: ErrorCode;
  /** Of the error, in the provider's form. */
  readonly type: string;
  readonly message: string;
  /** For the decision trace of the structured API. */
  readonly attributes?: CapReached['attributes'];
}

function endAtCap(reached: CapReached): StreamEnding {
  return { code: STOPPED, type: BUDGET_EXCEEDED, message: stopMessage(reached), attributes: reached.attributes };
}

/** What its last event says beside the error itself, on every door. */
export function stopMembers(record: ExecutionRecord, code: string): Readonly<Record<string, unknown>> {
  const { reason, reason_codes, request_id, record_id, record_hash, budget } = record;
  const next = stepAfterEnd(record, code);
  return { reason, reason_codes, request_id, record_id, record_hash, next, ...(budget === undefined ? {} : { budget }) };
}

/** @param code what has ended the answer */
function stepAfterEnd({ decision, reason_codes: codes }: ExecutionRecord, code: string): NextStep {
  return stepAfter({ decision, reasonCodes: [code, ...codes] });
}

/** The last event of a stream that was ended at its cap. */
export function stopEvent(call: ForwardedCall, record: ExecutionRecord, mediaType: string, reached: CapReached): readonly Uint8Array[] {
  return endEvent(call, record, mediaType, endAtCap(reached));
}

/** The last event of a stream that people have stopped; empty where its format has none. */
export function cutEvent(
  call: ForwardedCall,
  record: ExecutionRecord,
  mediaType: string,
  { code, message }: GatewayError,
): readonly Uint8Array[] {
  return endEvent(call, record, mediaType, { code, type: code, message });
}

/** The last event of a stream that was ended: of the provider's format, on the structured API of the gateway's own. */
function endEvent(call: ForwardedCall, record: ExecutionRecord, mediaType: string, ending: StreamEnding): readonly Uint8Array[] {
  const dialect = call.route.operation?.dialect;
  if (dialect?.streaming === undefined) return [];
  const framing = streamFraming(dialect.streaming, mediaType);
  if (call.arrival.line !== 'direct') return streamError(dialect, framing, endText(ending), stopMembers(record, ending.code));
  const { code, type, message, attributes } = ending;
  const refusal = { status: ERROR_CODES[code].status, reason: type, reasonCodes: record.reason_codes, next: stepAfterEnd(record, code) };
  const body = directRefusal(record, refusal, { ...traceFacts(call, undefined), attributes }) as object;
  const json = JSON.stringify({ ...body, error: { code, message } });
  return [framedError(framing, { name: 'error', json, code, message })];
}
