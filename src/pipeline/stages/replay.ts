import { canonicalJson } from '../../base/json/jcs.ts';
import { timestamp } from '../../base/lib/clock.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { CODES_OF_CIRCUMSTANCES } from '../../base/model/reason-codes.ts';
import type { KeptResult } from '../../services/money/idempotency.ts';
import type { ShareCaller } from '../../services/registers/sharers.ts';
import type { StopTold } from '../../services/review/stops.ts';
import type { Effect } from '../../storage/contract/store.ts';
import { sendReplay } from '../answer/send.ts';
import { actionHashOf, boundPlace } from '../parts/action-hash.ts';
import { AnswerCopy } from '../parts/answer-copy.ts';
import type { Idempotency, Pipeline } from '../parts/call-services.ts';
import type { Delivered } from '../parts/delivered.ts';
import type { Parts } from '../parts/parts.ts';
import { deny, type Refusal, stopped } from '../parts/refusal.ts';
import type { Closing, ReplacedModel, Settlement } from '../parts/settlement.ts';
import { ANSWERED, type Control, defineStage } from '../parts/stage.ts';

/** Decisions whose answer is given again (decision 6.7). */
const REPLAYED: ReadonlySet<string> = new Set(['allow', 'downgrade', 'deny', 'require_attribution']);
const NOT_REPEATABLE = { repeatable: undefined };

type Asked = Pick<Parts, 'arrival' | 'claims' | 'proof' | 'caller' | 'action' | 'content' | 'snapshot' | 'offer' | 'intake' | 'delegated'>;

/**
 * A call with an idempotency key that was answered before gets the same answer, and nothing is executed (specification,
 * "Idempotency"). While the first one is in progress there is nothing to give, so the call is processed normally.
 */
export const replay = defineStage({
  name: 'replay',
  reads: ['arrival', 'claims', 'proof', 'caller', 'action', 'content', 'snapshot', 'offer'],
  sees: ['intake', 'delegated'],
  makes: ['repeatable'],
  run(parts, pipeline, control) {
    const { action, intake } = parts;
    const key = action.request.idempotency_key;
    if (key === undefined || intake === undefined) return NOT_REPEATABLE;
    return replayOrKeep({ ...parts, intake, delegated: parts.delegated }, key, pipeline, control);
  },
});

async function replayOrKeep(
  asked: Asked,
  key: string,
  pipeline: Pipeline,
  control: Control,
): Promise<Pick<Parts, 'repeatable'> | Refusal | typeof ANSWERED> {
  const { idempotency, store, events } = pipeline;
  const { arrival, claims, offer, intake } = asked;
  const { orgId } = claims;
  const actionHash = actionHashOf(asked, boundPlace(offer, claims), offer);
  const wholeHash = wholeHashOf(asked, actionHash);
  intake.held?.takeMade();
  const kept = await idempotency.find(orgId, key);
  const isExecuted = kept?.result !== undefined;
  if (isExecuted && kept.action_hash !== actionHash) return reused('for another action');
  // A refusal has executed nothing: whoever asks for anything else is judged anew.
  const stored = kept && (isExecuted || kept.whole_hash === wholeHash) ? await store.recordById(kept.record_id) : undefined;
  if (kept && stored) {
    const record = JSON.parse(stored.text) as ExecutionRecord;
    const foreign = isExecuted ? foreignDelegation(record, asked) : undefined;
    if (foreign !== undefined) return reused(foreign);
    const stop = stopOf(record, asked, pipeline);
    if (stop !== undefined) return stopped(stop);
    const bytes = kept.result?.whole === true ? await idempotency.result(orgId, key) : undefined;
    sendReplay(arrival.reply, record, kept, bytes);
    events.emit('replayed', orgId);
    return ANSWERED;
  }
  const copy = new AnswerCopy();
  const who = { orgId, workloadId: claims.workloadId, callerIp: arrival.callerIp, apiKeyId: asked.proof.apiKey?.id };
  control.settle(new KeptAnswer(idempotency, { who, key, actionHash, wholeHash, askedAt: arrival.createdAt }, copy));
  return { repeatable: { copy } };
}

/**
 * SHA-256 of all of a request but its ids, and of what it was judged by: a refusal is told again to this one alone, and
 * no longer than policy and what callers are charged by where they say nothing stay as they are.
 */
function wholeHashOf({ arrival, proof, caller, action, snapshot }: Asked, actionHash: string): string {
  const { caller_id, context, attribution, credential_hint, connector_hint, delegation_id, delegation_token } = action.request;
  const said = { caller_id, context, attribution, credential_hint, connector_hint, delegation_id, delegation_token };
  const shown = { workload: proof.workload, api_key_id: proof.apiKey?.id, caller_ip: arrival.callerIp };
  const defaults = [caller.workload.default_attribution ?? null, caller.orgAttribution ?? null];
  return sha256Hex(canonicalJson({ action_hash: actionHash, ...said, ...shown, defaults, policy: snapshot.active.content_hash }));
}

/**
 * What was answered under one delegation is for nobody who does not bring it again, and what was answered without one
 * not for who brings one.
 */
function foreignDelegation({ delegation_chain: chain }: ExecutionRecord, { delegated }: Asked): string | undefined {
  const made = chain?.at(-1)?.delegation_id;
  const brought = delegated?.chain.leaf.delegationId;
  if (made === brought) return undefined;
  if (made === undefined) return 'without a delegation';
  return brought === undefined ? 'under a delegation, which this request does not bring' : 'under another delegation';
}

/** An answer of a provider or a model that is stopped is not given again. */
function stopOf(
  { connector_id: connectorId, metering }: ExecutionRecord,
  { claims, offer }: Asked,
  { stops }: Pipeline,
): StopTold | undefined {
  if (!stops.any) return undefined;
  const { catalogue, orgId, workloadId } = claims;
  const provider = connectorId === undefined ? offer.provider : catalogue.provider(connectorId);
  return stops.holding({
    orgId,
    workloadId,
    place: { ...offer, connectorId: connectorId ?? offer.connectorId, provider, model: metering?.model ?? offer.model },
  });
}

function reused(how: string): Refusal {
  const code = 'idempotency_key_reused';
  return deny(code, `This idempotency key was used ${how}, within the last 24 hours.`, { status: 409, errorCode: code });
}

interface Place {
  readonly who: ShareCaller;
  readonly key: string;
  readonly actionHash: string;
  readonly wholeHash: string;
  /** Epoch milliseconds. */
  readonly askedAt: number;
}

/** Keeps the answer of a call for those that come with its key later. */
class KeptAnswer implements Settlement {
  readonly #idempotency: Idempotency;
  readonly #place: Place;
  readonly #copy: AnswerCopy;
  #isKept = false;

  constructor(idempotency: Idempotency, place: Place, copy: AnswerCopy) {
    this.#idempotency = idempotency;
    this.#place = place;
    this.#copy = copy;
  }

  /** What is kept of an answer that may be given again; nothing of one that was not complete. */
  effects(record: ExecutionRecord, { refusal, delivered, replaced }: Closing): readonly Effect[] {
    if (!REPLAYED.has(record.decision) || (refusal && liesOutside(refusal))) return [];
    if (delivered && (isIncomplete(delivered) || isForNow(delivered.status))) return [];
    const answer = refusal ? undefined : resultOf(delivered, this.#copy);
    const { who, key, actionHash, wholeHash, askedAt } = this.#place;
    const call = {
      record_id: record.record_id,
      action_hash: actionHash,
      status: refusal?.status ?? 200,
      trace: { ...traceOf(askedAt, replaced), ...refusal?.traceAttributes },
      ...(answer ? { result: answer.result } : { whole_hash: wholeHash }),
      ...(refusal?.detail ? { detail: refusal.detail } : {}),
    };
    const effects = this.#idempotency.keep(who, key, call, answer?.bytes);
    this.#isKept = effects.length > 0;
    return effects;
  }

  failed(): void {
    if (this.#isKept) this.#idempotency.forget(this.#place.who.orgId, this.#place.key);
  }
}

function isIncomplete({ clientGone, failure, stopped, streamOutcome }: Delivered): boolean {
  return clientGone || failure !== undefined || stopped !== undefined || streamOutcome === 'aborted';
}

/** Why it was refused may be otherwise when the same request comes again, such as money that is there by then. */
function liesOutside({ reasonCodes }: Refusal): boolean {
  return reasonCodes.some((code) => CODES_OF_CIRCUMSTANCES.has(code));
}

/**
 * Statuses of an upstream that did nothing: it asks for another try (RFC 9110 §15.5.9, §15.5.10, RFC 8470 §5.2, RFC
 * 6585 §4), which SDKs make of their own accord, or does not take the key, its payment or its rights (RFC 9110 §15.5.2
 * to §15.5.4, §15.5.8), which are others tomorrow.
 */
const TRY_AGAIN: ReadonlySet<number> = new Set([401, 402, 403, 407, 408, 409, 425, 429]);

/** An answer that a later call need not get (decision 6.7). */
function isForNow(status = 500): boolean {
  return status >= 500 || TRY_AGAIN.has(status);
}

function resultOf(delivery: Delivered | undefined, copy: AnswerCopy): { result: KeptResult; bytes: Uint8Array | undefined } | undefined {
  const head = delivery?.answer;
  if (!head) return undefined;
  const bytes = head.contentEncoding === undefined ? copy.bytes() : undefined;
  return {
    bytes,
    result: { upstream_status: head.status, content_type: head.mediaType, stream: head.eventStream, whole: bytes !== undefined },
  };
}

function traceOf(askedAt: number, { originalModel, substitutedModel }: Partial<ReplacedModel> = {}): Record<string, string> {
  return {
    evaluated_at: timestamp(askedAt),
    ...(originalModel === undefined ? {} : { original_model: originalModel }),
    ...(substitutedModel === undefined ? {} : { substituted_model: substitutedModel }),
  };
}
