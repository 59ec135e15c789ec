import { unrecordedEvent } from '../../base/events/unrecorded.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { requestIdOf } from '../../base/lib/ids.ts';
import type { Maybe } from '../../base/lib/maybe.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { canonicalRecord } from '../../record/canonical-record.ts';
import type { Effect, RecordCommit } from '../../storage/contract/store.ts';
import { sendFailure, sendRefusal } from '../answer/send.ts';
import type { LineGround } from '../parts/call-services.ts';
import type { Delivered } from '../parts/delivered.ts';
import { deliveredOf } from '../parts/known.ts';
import type { PartName } from '../parts/parts.ts';
import { LineEnd, Refusal, refusalOf } from '../parts/refusal.ts';
import type { Closing, Ending, Settlement } from '../parts/settlement.ts';
import { ANSWERED, EndedWith, JUDGE_AGAIN, type Stage } from '../parts/stage.ts';
import { AGAIN, STAGES } from './stages.ts';
import { type RefusedRecord, refusedRecord } from './strangers.ts';
import { TIMED_AGAIN, TIMED_STAGES } from './timed-stages.ts';
import { tellTrace } from './traced-call-of.ts';
import type { WalkingCall } from './walking-call.ts';

/** How a run ended, for callers that act on it (a CONNECT waits for its verdict). */
export type RunResult =
  | { readonly kind: 'recorded'; readonly record: ExecutionRecord; readonly refusal: Refusal | undefined }
  /** An earlier answer was given again. */
  | { readonly kind: 'replayed' }
  | { readonly kind: 'failed'; readonly error: GatewayError; readonly requestId: string };

/**
 * Walks one request through its stages and does, on every exit, what no exit may forget: settlements, record, commit,
 * last byte, publish. Never rejects.
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
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one loop over every stage of every call; a call for each would cost one per cent of it
export async function walkLine(call: WalkingCall, pipeline: LineGround): Promise<GatewayError | typeof ANSWERED | undefined> {
  let failure: GatewayError | typeof ANSWERED | undefined;
  try {
    let steps = (pipeline.tellStage === undefined ? STAGES : TIMED_STAGES)[call.parts.arrival.line];
    // By number: an iterator that lives across an `await` makes an object for each step.
    for (let at = 0; at < steps.length; at += 1) {
      const stage = steps[at] as Stage;
      const result = stage.run(call.parts, pipeline, call);
      // Most stages have nothing to wait for, and every await is a turn of the microtask queue.
      const end = result instanceof Promise ? await result : result;
      if (end === undefined) continue;
      if (end instanceof LineEnd) {
        if (end === JUDGE_AGAIN) {
          steps = (pipeline.tellStage === undefined ? AGAIN : TIMED_AGAIN)[call.parts.arrival.line];
          call.forget(steps);
          at = -1;
          continue;
        }
        stopAt(call, end, stage.makes);
        if (end === ANSWERED) failure = ANSWERED;
        break;
      }
      // As `take` does, which would be one more call for each stage.
      for (const name of stage.makes) {
        const part = end[name];
        if (part !== undefined) call.made[name] = Object.freeze(part);
      }
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
    if (drawn.commit === undefined) return await sumUp(call, pipeline, drawn.record);
    const effects = effectsOf(call, drawn);
    await pipeline.store.commit(drawn.commit, effects instanceof Promise ? await effects : effects);
    let waits: Waits;
    for (const settlement of call.settlements) {
      const told = settlement.stored?.();
      if (told !== undefined) waits = alsoFor(told, waits);
    }
    if (waits !== undefined) await allSettled(waits, pipeline);
    return acknowledge(call, pipeline, drawn);
  } catch (error) {
    return fail(call, pipeline, asGatewayError(error, pipeline), drawn?.record);
  }
}

/** What settlements have to ask elsewhere; undefined where none has, as is usual. */
type Waits = Promise<void>[] | undefined;

function alsoFor(told: Maybe<void>, waits: Waits): Waits {
  if (!(told instanceof Promise)) return waits;
  return waits === undefined ? [told] : [...waits, told];
}

/** What one of them cannot do keeps back no other, and no answer. */
async function allSettled(waits: readonly Promise<void>[], { log }: LineGround): Promise<void> {
  for (const one of await Promise.allSettled(waits))
    if (one.status === 'rejected') log.error({ err: one.reason as unknown }, 'what a call has taken could not be settled');
}

interface Drawn {
  readonly record: ExecutionRecord;
  /** Undefined: the call has no record of its own. */
  readonly commit: RecordCommit | undefined;
  readonly closing: Closing;
  readonly shortened?: true;
}

/** What is committed with the record; asked of all settlements in one turn. */
function effectsOf({ settlements }: WalkingCall, { record, closing }: Drawn): Maybe<readonly Effect[]> {
  const effects: Effect[] = [];
  const waits: Promise<unknown>[] = [];
  for (let at = settlements.length - 1; at >= 0; at -= 1) {
    const made = settlements[at]?.effects?.(record, closing);
    if (made instanceof Promise) waits.push(made.then((more) => effects.push(...more)));
    else if (made !== undefined) effects.push(...made);
  }
  return waits.length === 0 ? effects : allOf(waits).then(() => effects);
}

/** Waits for all, also where one fails: what is undone after that must have been done. */
async function allOf(waits: readonly Promise<unknown>[]): Promise<void> {
  for (const one of await Promise.allSettled(waits)) if (one.status === 'rejected') throw one.reason;
}

/** The record of a request. */
function drawUp(call: WalkingCall, pipeline: LineGround): Drawn {
  const { parts, refusal, settlements } = call;
  const completedAt = pipeline.clock.now();
  const draft = call.draft(completedAt);
  const delivered = deliveredOf(parts);
  // What was sent may have cost something.
  const isWhole = refusal === undefined || delivered !== undefined || draft.metering !== undefined;
  const kept: RefusedRecord = isWhole ? canonicalRecord(draft) : refusedRecord(draft, parts, pipeline, needsRecord(refusal, settlements));
  const { text, hash } = kept;
  draft.record_hash = hash;
  const record = draft as ExecutionRecord;
  const closing = { completedAt, refusal, delivered, replaced: parts.mutation };
  if (kept.summed === true) return { record, commit: undefined, closing };
  const commit = { record_id: record.record_id, record_hash: hash, text, committed_at: completedAt, members: record };
  return kept.shortened === true ? { record, commit, closing, shortened: true } : { record, commit, closing };
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
async function sumUp(call: WalkingCall, pipeline: LineGround, record: ExecutionRecord): Promise<RunResult> {
  const { strangers, events, clock } = pipeline;
  const { parts, refusal, settlements } = call;
  let waits: Waits;
  for (const settlement of settlements) {
    const told = settlement.summed ? settlement.summed(record) : settlement.abandoned?.({ answered: false, started: false });
    waits = alsoFor(told, waits);
  }
  if (waits !== undefined) await allSettled(waits, pipeline);
  if (refusal) sendRefusal(parts, refusal, record);
  strangers.sum(record, clock.monotonic() - parts.arrival.head.startedAt);
  const { trace } = parts.arrival;
  if (trace) tellTrace(parts, trace, { events, clock }, { record });
  return { kind: 'recorded', record, refusal };
}

/** The record is stored: the caller gets what was kept back, and everybody else is told. */
function acknowledge(call: WalkingCall, { events, clock }: LineGround, { record, closing, shortened }: Drawn): RunResult {
  const { parts, refusal } = call;
  const delivery = closing.delivered;
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
async function fail(call: WalkingCall, pipeline: LineGround, error: GatewayError, unstored?: ExecutionRecord): Promise<RunResult> {
  const { events, clock } = pipeline;
  const { parts, settlements } = call;
  const delivery = deliveredOf(parts);
  delivery?.abandon();
  const ending: Ending = { answered: delivery?.status !== undefined, started: delivery?.started === true };
  let waits: Waits;
  for (const settlement of settlements)
    waits = alsoFor(unstored ? settlement.failed?.(unstored, ending) : settlement.abandoned?.(ending), waits);
  if (waits !== undefined) await allSettled(waits, pipeline);
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
