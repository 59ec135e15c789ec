import { unrecordedEvent } from '../../base/events/unrecorded.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { requestIdOf } from '../../base/lib/request-id.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { canonicalRecord } from '../../record/canonical-record.ts';
import type { Effect, RecordCommit } from '../../storage/contract/store.ts';
import { recordOf } from '../answer/record-of.ts';
import { sendFailure, sendRefusal } from '../answer/send.ts';
import type { LineGround } from '../parts/call-services.ts';
import type { Delivered } from '../parts/delivered.ts';
import { deliveredOf } from '../parts/known.ts';
import { LineEnd } from '../parts/line-end.ts';
import type { PartName } from '../parts/parts.ts';
import { Refusal, refusalOf } from '../parts/refusal.ts';
import type { Ending, Settlement } from '../parts/settlement.ts';
import { ANSWERED, EndedWith, type Stage } from '../parts/stage.ts';
import { STAGES } from './stages.ts';
import { type RefusedRecord, refusedRecord } from './strangers.ts';
import { tellTrace } from './traced-call-of.ts';
import type { WalkingCall } from './walking-call.ts';

/** How a run ended, for callers that act on it (a CONNECT waits for its verdict). */
export type RunResult =
  | { readonly kind: 'recorded'; readonly record: ExecutionRecord; readonly refusal: Refusal | undefined }
  /** An earlier answer was given again. */
  | { readonly kind: 'replayed' }
  | { readonly kind: 'failed'; readonly error: GatewayError; readonly requestId: string };

/**
 * Walks one request through its stages and does, on every exit, what no exit may forget: settlements, record, commit, last byte, publish. Never rejects.
 */
export async function runCall(call: WalkingCall, pipeline: LineGround): Promise<RunResult> {
  const end = await walkLine(call, pipeline);
  if (!(end instanceof LineEnd)) return await closeCall(call, pipeline, end);
  const { trace } = call.parts.arrival;
  if (trace) tellTrace(call.parts, trace, pipeline, { replayed: true });
  return { kind: 'replayed' };
}

/**
 * The first half: the stages. A refusal is the call's afterwards. Never rejects.
 * @returns the failure of a request that leaves no record
 */
export async function walkLine(call: WalkingCall, pipeline: LineGround): Promise<GatewayError | typeof ANSWERED | undefined> {
  let failure: GatewayError | typeof ANSWERED | undefined;
  try {
    const steps = STAGES[call.parts.arrival.line];
    // By number: an iterator that lives across an `await` makes an object for each step.
    for (let at = 0; at < steps.length; at += 1) {
      const stage = steps[at] as Stage;
      const result = stage.run(call.parts, pipeline, call);
      // Most stages have nothing to wait for, and every await is a turn of the microtask queue.
      const end = result instanceof Promise ? await result : result;
      if (end === undefined) continue;
      if (end instanceof LineEnd) {
        stopAt(call, end, stage.makes);
        if (end === ANSWERED) failure = ANSWERED;
        break;
      }
      call.take(end, stage.makes);
    }
  } catch (error) {
    const known = asGatewayError(error, pipeline);
    call.refusal = refusalOf(known, call.parts.judgement !== undefined);
    if (!call.refusal) failure = known;
  }
  call.end();
  return failure;
}

/** @throws GatewayError for an end that leaves no record */
function stopAt(call: WalkingCall, end: LineEnd, makes: readonly PartName[]): void {
  if (end instanceof Refusal) call.refusal = end;
  else if (end instanceof EndedWith) {
    call.take(end.made, makes);
    if (end.end instanceof GatewayError) throw end.end;
    call.refusal = end.end;
  }
}

/** The second half: whatever follows from how the stages ended. Never rejects. */
export async function closeCall(call: WalkingCall, pipeline: LineGround, failure?: GatewayError): Promise<RunResult> {
  if (failure) return fail(call, pipeline, failure);
  let drawn: Drawn | undefined;
  try {
    drawn = drawUp(call, pipeline);
    if (drawn.commit === undefined) return sumUp(call, pipeline, drawn.record);
    await pipeline.store.commit(drawn.commit, drawn.effects);
    for (const settlement of call.settlements) settlement.stored?.();
    return acknowledge(call, pipeline, drawn);
  } catch (error) {
    return fail(call, pipeline, asGatewayError(error, pipeline), drawn?.record);
  }
}

interface Drawn {
  readonly record: ExecutionRecord;
  /** Undefined: the call has no record of its own. */
  readonly commit: RecordCommit | undefined;
  readonly effects: readonly Effect[];
  readonly shortened?: true;
}

/** The record of a request, and what is committed with it. */
function drawUp(call: WalkingCall, pipeline: LineGround): Drawn {
  const { parts, refusal, settlements } = call;
  const completedAt = pipeline.clock.now();
  const draft = recordOf({ parts, refusal, completedAt }, pipeline);
  const delivered = deliveredOf(parts);
  // What was sent may have cost something.
  const isWhole = refusal === undefined || delivered !== undefined || draft.metering !== undefined;
  const kept: RefusedRecord = isWhole ? canonicalRecord(draft) : refusedRecord(draft, parts, pipeline, needsRecord(refusal, settlements));
  const { text, hash } = kept;
  draft.record_hash = hash;
  const record = draft as ExecutionRecord;
  if (kept.summed === true) return { record, commit: undefined, effects: [] };
  const commit = { record_id: record.record_id, record_hash: hash, text, committed_at: completedAt, members: record };
  const closing = { completedAt, refusal, delivered, replaced: parts.mutation };
  const effects: Effect[] = [];
  for (let at = settlements.length - 1; at >= 0; at -= 1) effects.push(...(settlements[at]?.effects?.(record, closing) ?? []));
  return kept.shortened === true ? { record, commit, effects, shortened: true } : { record, commit, effects };
}

/** Whether something that goes with the record of a refused call would be lost without it. */
function needsRecord({ opensApproval }: Refusal, settlements: readonly Settlement[]): boolean {
  return opensApproval || settlements.some((settlement) => settlement.needsRecord === true);
}

/** From the sent request to the first byte of the body of its answer, milliseconds. */
function firstByteOf(delivery: Delivered | undefined): number | undefined {
  const { sentAt, firstAt } = delivery?.times ?? {};
  return sentAt === undefined || firstAt === undefined ? undefined : firstAt - sentAt;
}

/** A refused call that a record of the minute counts: its caller is answered as any other. */
function sumUp(call: WalkingCall, { strangers, events, clock }: LineGround, record: ExecutionRecord): RunResult {
  const { parts, refusal, settlements } = call;
  for (const settlement of settlements) {
    if (settlement.summed) settlement.summed(record);
    else settlement.abandoned?.({ answered: false, started: false });
  }
  if (refusal) sendRefusal(parts, refusal, record);
  strangers.sum(record, clock.monotonic() - parts.arrival.head.startedAt);
  const { trace } = parts.arrival;
  if (trace) tellTrace(parts, trace, { events, clock }, { record });
  return { kind: 'recorded', record, refusal };
}

/** The record is stored: the caller gets what was kept back, and everybody else is told. */
function acknowledge(call: WalkingCall, { events, clock }: LineGround, { record, shortened }: Drawn): RunResult {
  const { parts, refusal } = call;
  const delivery = deliveredOf(parts);
  if (refusal) {
    delivery?.abandon();
    sendRefusal(parts, refusal, record);
  } else {
    delivery?.release(record);
  }
  if (events.hears('execution')) {
    const durationMs = clock.monotonic() - parts.arrival.head.startedAt;
    events.emit('execution', { record, durationMs, firstByteMs: firstByteOf(delivery), shortened });
  }
  const { trace } = parts.arrival;
  if (trace) tellTrace(parts, trace, { events, clock }, { record });
  return { kind: 'recorded', record, refusal };
}

/**
 * An end without a record (decision 7.3), or a record that could not be stored (decisions 7.9, 7.10).
 * @param unstored the record
 */
function fail(call: WalkingCall, { events, clock }: LineGround, error: GatewayError, unstored?: ExecutionRecord): RunResult {
  const { parts, settlements } = call;
  const delivery = deliveredOf(parts);
  delivery?.abandon();
  const ending: Ending = { answered: delivery?.status !== undefined, started: delivery?.started === true };
  for (const settlement of settlements) {
    if (unstored) settlement.failed?.(unstored, ending);
    else settlement.abandoned?.(ending);
  }
  const { head, callerIp, trace } = parts.arrival;
  const requestId = parts.claims?.requestId ?? requestIdOf(head.rawHeaders);
  sendFailure(parts, error, requestId);
  if (events.hears('unrecorded'))
    events.emit('unrecorded', unrecordedEvent(error, parts.arrival, { callerIp, requestId, traceId: trace?.traceId }));
  if (trace) tellTrace(parts, trace, { events, clock }, { failure: error, unstored: unstored !== undefined });
  return { kind: 'failed', error, requestId };
}

function asGatewayError(error: unknown, pipeline: LineGround): GatewayError {
  if (error instanceof GatewayError) return error;
  pipeline.log.error({ err: error }, 'a stage failed unexpectedly');
  return new GatewayError('internal', 'The gateway failed to handle this request; its log has the details.', { cause: error });
}
