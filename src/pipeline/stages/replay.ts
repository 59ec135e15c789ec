import { timestamp } from '../../base/lib/clock.ts';
import { canonicalJson } from '../../base/lib/jcs.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import type { ActionRequest } from '../../base/model/action-request.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import type { KeptResult } from '../../services/idempotency.ts';
import type { Effect } from '../../storage/contract/store.ts';
import { AnswerCopy } from '../answer-copy.ts';
import { countParsed } from '../count-parsed.ts';
import type { Exchange } from '../exchange.ts';
import { sendReplay } from '../send.ts';
import { ANSWERED, type Pipeline, type Stage, type StageResult } from '../stage.ts';

/** Decisions whose answer is given again (decision 6.7). */
const REPLAYED: ReadonlySet<string> = new Set(['allow', 'downgrade', 'deny', 'require_attribution']);

/**
 * A call with an idempotency key that was answered before gets the same answer, and nothing is executed (specification, "Idempotency"). While the first one is
 * in progress there is nothing to give, so the call is processed normally.
 */
export const replay: Stage = {
  name: 'replay',
  run(exchange, pipeline) {
    const { request } = exchange;
    return request?.idempotency_key === undefined ? undefined : replayOrKeep(exchange, pipeline, request, request.idempotency_key);
  },
};

async function replayOrKeep(exchange: Exchange, pipeline: Pipeline, request: ActionRequest, key: string): Promise<StageResult> {
  const { idempotency, store, events } = pipeline;
  const actionHash = actionHashOf(exchange, request);
  countParsed(exchange);
  const kept = await idempotency.find(exchange.orgId, key);
  if (kept && kept.action_hash !== actionHash) {
    const reason = 'This idempotency key was used for another action within the last 24 hours.';
    const code = 'idempotency_key_reused';
    return { decision: 'deny', status: 409, reason, reasonCodes: [code], errorCode: code };
  }
  const stored = kept && (await store.recordById(kept.record_id));
  if (stored) {
    const record = JSON.parse(stored.text) as ExecutionRecord;
    const bytes = kept.result?.whole === true ? await idempotency.result(exchange.orgId, key) : undefined;
    sendReplay(exchange, record, kept, bytes);
    events.replayed(exchange.orgId);
    return ANSWERED;
  }
  exchange.copy = new AnswerCopy();
  exchange.settlements.push((record) => keep(exchange, pipeline, key, actionHash, record));
  return undefined;
}

/** What is kept of an answer that may be given again; nothing of one that was not complete. */
function keep(exchange: Exchange, { idempotency }: Pipeline, key: string, actionHash: string, record: ExecutionRecord): readonly Effect[] {
  const { delivery, refusal } = exchange;
  if (!REPLAYED.has(record.decision)) return [];
  if (delivery && (delivery.clientGone || delivery.failure || delivery.stopped || isForNow(delivery.status))) return [];
  const answer = refusal ? undefined : resultOf(exchange);
  const call = {
    record_id: record.record_id,
    action_hash: actionHash,
    status: refusal?.status ?? 200,
    trace: traceOf(exchange),
    ...(answer ? { result: answer.result } : {}),
    ...(refusal?.detail ? { detail: refusal.detail } : {}),
  };
  const effects = idempotency.keep(exchange.orgId, key, call, answer?.bytes);
  if (effects.length > 0) exchange.keptKey = key;
  return effects;
}

/** Statuses of an upstream that did nothing and asks for another try (RFC 9110 §15.5.9, §15.5.10, RFC 8470 §5.2, RFC 6585 §4); SDKs make one of their own accord. */
const TRY_AGAIN: ReadonlySet<number> = new Set([408, 409, 425, 429]);

/** An answer that a later call need not get (decision 6.7). */
function isForNow(status = 500): boolean {
  return status >= 500 || TRY_AGAIN.has(status);
}

function resultOf({ delivery, copy }: Exchange): { result: KeptResult; bytes: Uint8Array | undefined } | undefined {
  const head = delivery?.answer;
  if (!head) return undefined;
  const bytes = head.contentEncoding === undefined ? copy?.bytes() : undefined;
  return {
    bytes,
    result: { upstream_status: head.status, content_type: head.mediaType, stream: head.eventStream, whole: bytes !== undefined },
  };
}

function traceOf({ createdAt, originalModel, substitutedModel, traceAttributes }: Exchange): Record<string, string> {
  return {
    evaluated_at: timestamp(createdAt),
    ...(originalModel === undefined ? {} : { original_model: originalModel }),
    ...(substitutedModel === undefined ? {} : { substituted_model: substitutedModel }),
    ...traceAttributes,
  };
}

/** SHA-256 over the RFC 8785 form of the action as it was received, before mutations. */
function actionHashOf({ orgId, workloadId }: Exchange, { action }: ActionRequest): string {
  const { type, method, target_host, target_path, params } = action;
  return sha256Hex(
    canonicalJson({
      org_id: orgId,
      workload_id: workloadId,
      type,
      method,
      target_host,
      params,
      ...(target_path === undefined ? {} : { target_path }),
    }),
  );
}
