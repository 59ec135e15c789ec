import { GatewayError } from '../base/lib/gateway-error.ts';
import type { ExecutionRecord } from '../base/model/execution-record.ts';
import { canonicalRecord } from '../record/canonical-record.ts';
import type { Exchange, Refusal } from './exchange.ts';
import { recordOf } from './record-of.ts';
import { refusalOf } from './refusals.ts';
import { sendFailure, sendRefusal } from './send.ts';
import { giveBack, settle, settled, unsettle } from './settle.ts';
import { ANSWERED, type Pipeline, type StageResult } from './stage.ts';
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
  return end === ANSWERED ? { kind: 'replayed' } : closeExchange(exchange, pipeline, end);
}

/**
 * The first half: the stages. A refusal stands in the exchange afterwards. Never rejects.
 * @returns the failure of a request that leaves no record
 */
export async function walkLine(exchange: Exchange, pipeline: Pipeline): Promise<GatewayError | typeof ANSWERED | undefined> {
  let failure: GatewayError | undefined;
  try {
    const end = await walk(exchange, pipeline);
    if (end === ANSWERED) {
      pipeline.buffers.give(exchange.buffered);
      return ANSWERED;
    }
    exchange.refusal = end;
  } catch (error) {
    const known = asGatewayError(error, pipeline);
    exchange.refusal = refusalOf(known, exchange.verdict !== undefined);
    if (!exchange.refusal) failure = known;
  }
  pipeline.buffers.give(exchange.buffered);
  void exchange.streamed?.return();
  return failure;
}

/** The second half: whatever follows from how the stages ended. Never rejects. */
export async function closeExchange(exchange: Exchange, pipeline: Pipeline, failure?: GatewayError): Promise<RunResult> {
  try {
    return failure ? fail(exchange, pipeline, failure) : await conclude(exchange, pipeline);
  } catch (error) {
    return fail(exchange, pipeline, asGatewayError(error, pipeline));
  }
}

async function walk(exchange: Exchange, pipeline: Pipeline): Promise<StageResult> {
  for (const stage of STAGES[exchange.door]) {
    const result = stage.run(exchange, pipeline);
    const refusal = result instanceof Promise ? await result : result;
    if (refusal) return refusal;
  }
  return undefined;
}

/** Everything after the stages, for a request that leaves a record. */
async function conclude(exchange: Exchange, pipeline: Pipeline): Promise<RunResult> {
  const { clock, store, events, deferred } = pipeline;
  // Before its own record: who has been told that a response has ended may never ask again.
  if (exchange.ended) await deferred.end(exchange.ended);
  const completedAt = clock.now();
  exchange.completedAt = completedAt;
  const draft = recordOf(exchange, pipeline, completedAt);
  const canonical = canonicalRecord(draft);
  draft.record_hash = canonical.hash;
  const record = draft as ExecutionRecord;
  const effects = settle(exchange, record, pipeline);
  const commit = { record_id: record.record_id, record_hash: canonical.hash, text: canonical.text, committed_at: completedAt };
  try {
    await store.commit(commit, effects);
  } catch (error) {
    unsettle(exchange, pipeline);
    exchange.unstored = record;
    throw error;
  }
  settled(exchange, pipeline);
  if (exchange.refusal) {
    exchange.delivery?.abandon();
    sendRefusal(exchange, exchange.refusal, record);
  } else {
    exchange.delivery?.release(record);
  }
  const durationMs = clock.monotonic() - exchange.head.startedAt;
  events.execution({ record, durationMs });
  return { kind: 'recorded', record, refusal: exchange.refusal };
}

/** An end without a record (decision 7.3), or a record that could not be stored (decisions 7.9, 7.10). */
function fail(exchange: Exchange, pipeline: Pipeline, error: GatewayError): RunResult {
  exchange.delivery?.abandon();
  giveBack(exchange, pipeline);
  sendFailure(exchange, error);
  pipeline.events.unrecorded(error.code);
  return { kind: 'failed', error };
}

function asGatewayError(error: unknown, pipeline: Pipeline): GatewayError {
  if (error instanceof GatewayError) return error;
  pipeline.log.error({ err: error }, 'a stage failed unexpectedly');
  return new GatewayError('internal', 'The gateway failed to handle this request; its log has the details.', { cause: error });
}
