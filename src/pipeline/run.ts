import { unrecordedEvent } from '../base/events/unrecorded.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import type { ExecutionRecord } from '../base/model/execution-record.ts';
import { canonicalRecord } from '../record/canonical-record.ts';
import type { Effect, RecordCommit } from '../storage/contract/store.ts';
import type { Exchange, Refusal } from './exchange.ts';
import { letGoOfBody } from './let-go.ts';
import { recordOf } from './record-of.ts';
import { refusalOf } from './refusals.ts';
import { sendFailure, sendRefusal } from './send.ts';
import { giveBack, settle, settled, unsettle } from './settle.ts';
import { ANSWERED, type Pipeline } from './stage.ts';
import { STAGES } from './stages.ts';

/** How a run ended, for callers that act on it (a CONNECT waits for its verdict). */
export type RunResult =
  | { readonly kind: 'recorded'; readonly record: ExecutionRecord; readonly refusal: Refusal | undefined }
  /** An earlier answer was given again. */
  | { readonly kind: 'replayed' }
  | { readonly kind: 'failed'; readonly error: GatewayError };

/**
 * Walks one request through its stages and does, on every exit, what no exit may forget: settlements, record, commit, last byte, publish. Never rejects.
 */
export async function runExchange(exchange: Exchange, pipeline: Pipeline): Promise<RunResult> {
  const end = await walkLine(exchange, pipeline);
  return end === ANSWERED ? { kind: 'replayed' } : await closeExchange(exchange, pipeline, end);
}

/**
 * The first half: the stages. A refusal stands in the exchange afterwards. Never rejects.
 * @returns the failure of a request that leaves no record
 */
export async function walkLine(exchange: Exchange, pipeline: Pipeline): Promise<GatewayError | typeof ANSWERED | undefined> {
  let failure: GatewayError | undefined;
  try {
    for (const stage of STAGES[exchange.door]) {
      const result = stage.run(exchange, pipeline);
      // Most stages have nothing to wait for, and every await is a turn of the microtask queue.
      const end = result instanceof Promise ? await result : result;
      if (end === undefined) continue;
      if (end === ANSWERED) {
        exchange.held?.keep(0);
        return ANSWERED;
      }
      exchange.refusal = end;
      break;
    }
  } catch (error) {
    const known = asGatewayError(error, pipeline);
    exchange.refusal = refusalOf(known, exchange.verdict !== undefined);
    if (!exchange.refusal) failure = known;
  }
  letGo(exchange);
  void exchange.streamed?.return();
  return failure;
}

/** What was refused waits for its record, and needs its body no more than what was sent. */
function letGo(exchange: Exchange): void {
  if (!exchange.held) return;
  if (!exchange.delivery) letGoOfBody(exchange);
  exchange.held.keep(0);
}

/** The second half: whatever follows from how the stages ended. Never rejects. */
export async function closeExchange(exchange: Exchange, pipeline: Pipeline, failure?: GatewayError): Promise<RunResult> {
  try {
    if (failure) return fail(exchange, pipeline, failure);
    // Before its own record: who has been told that a response has ended may never ask again.
    if (exchange.ended) await pipeline.deferred.end(exchange.ended);
    const { record, commit, effects } = drawUp(exchange, pipeline);
    try {
      await pipeline.store.commit(commit, effects);
    } catch (error) {
      unsettle(exchange, pipeline);
      exchange.unstored = record;
      throw error;
    }
    return acknowledge(exchange, pipeline, record);
  } catch (error) {
    return fail(exchange, pipeline, asGatewayError(error, pipeline));
  }
}

/** The record of a request, and what is committed with it. */
function drawUp(exchange: Exchange, pipeline: Pipeline): { record: ExecutionRecord; commit: RecordCommit; effects: readonly Effect[] } {
  const completedAt = pipeline.clock.now();
  exchange.completedAt = completedAt;
  const draft = recordOf(exchange, pipeline, completedAt);
  const { text, hash } = canonicalRecord(draft);
  draft.record_hash = hash;
  const record = draft as ExecutionRecord;
  const commit = { record_id: record.record_id, record_hash: hash, text, committed_at: completedAt };
  return { record, commit, effects: settle(exchange, record, pipeline) };
}

/** The record is stored: the caller gets what was kept back, and everybody else is told. */
function acknowledge(exchange: Exchange, pipeline: Pipeline, record: ExecutionRecord): RunResult {
  settled(exchange, pipeline);
  if (exchange.refusal) {
    exchange.delivery?.abandon();
    sendRefusal(exchange, exchange.refusal, record);
  } else {
    exchange.delivery?.release(record);
  }
  pipeline.events.execution({ record, durationMs: pipeline.clock.monotonic() - exchange.head.startedAt });
  return { kind: 'recorded', record, refusal: exchange.refusal };
}

/** An end without a record (decision 7.3), or a record that could not be stored (decisions 7.9, 7.10). */
function fail(exchange: Exchange, pipeline: Pipeline, error: GatewayError): RunResult {
  exchange.delivery?.abandon();
  giveBack(exchange, pipeline);
  sendFailure(exchange, error);
  pipeline.events.unrecorded(unrecordedEvent(error, exchange, exchange.callerIp));
  return { kind: 'failed', error };
}

function asGatewayError(error: unknown, pipeline: Pipeline): GatewayError {
  if (error instanceof GatewayError) return error;
  pipeline.log.error({ err: error }, 'a stage failed unexpectedly');
  return new GatewayError('internal', 'The gateway failed to handle this request; its log has the details.', { cause: error });
}
