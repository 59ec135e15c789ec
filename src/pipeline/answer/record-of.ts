import { GENERIC_HTTP, GENERIC_HTTP_VERSION } from '../../base/catalogue/connector-id.ts';
import { timestamp } from '../../base/lib/clock.ts';
import { MAX_RECORDED, shorten } from '../../base/lib/text.ts';
import type { Attribution } from '../../base/model/action-request.ts';
import { ERROR_CODES } from '../../base/model/error-codes.ts';
import { CONTENT_HASH_DIGITS, EXECUTION_RECORD_SCHEMA, type ExecutionRecord } from '../../base/model/execution-record.ts';
import type { ReasonCode } from '../../base/model/reason-codes.ts';
import { BUDGET_EXCEEDED } from '../../decide/policy/judge-caps.ts';
import type { MatchedRule } from '../../decide/policy/verdict.ts';
import { chargedFor } from '../../decide/pricing/answered-price.ts';
import { pathOnly, recordedPath } from '../../inbound/normalise/path.ts';
import type { RecordDraft } from '../../record/canonical-record.ts';
import { meteringFrom } from '../../record/metering.ts';
import { workloadKey } from '../../services/registers/org-key.ts';
import type { Pipeline } from '../parts/call-services.ts';
import type { Delivered } from '../parts/delivered.ts';
import { attributionOf, deliveredOf, type Wire, wireOf } from '../parts/known.ts';
import type { Judgement, Known } from '../parts/parts.ts';
import { isHeldWhileRunning, type Refusal } from '../parts/refusal.ts';
import { askedModel } from '../route/worth.ts';
import { STOPPED, stopMessage } from './send.ts';

/** A request whose record is written. */
export interface Recorded {
  readonly parts: Known;
  readonly refusal: Refusal | undefined;
  /** Epoch milliseconds. */
  readonly completedAt: number;
}

type Ground = Pick<Pipeline, 'clock' | 'settings'>;

/**
 * The record of a request, still without its hash, from what its stages made (decisions 7.1 to 7.8).
 * @param begun as it was drafted when the call was about to be sent or answered: only what has become known since then
 * is filled in
 */
export function recordOf(recorded: Recorded, ground: Ground, begun?: RecordDraft): RecordDraft {
  const { parts, refusal, completedAt } = recorded;
  const { intake, judgement, mutation, hold, cleared } = parts;
  const wire = wireOf(parts);
  const delivery = deliveredOf(parts);
  const draft = begun ?? begin(parts, wire, ground);
  const { reason, codes, budget } = reasonOf(parts, refusal, delivery);
  draft.completed_at = timestamp(completedAt);
  draft.decision = refusal?.decision ?? mutation?.decision ?? 'deny';
  draft.reason = reason;
  draft.reason_codes = codes;
  draft.budget = budget;
  draft.record_tier = isConnection(parts, refusal) ? 'connection' : 'action';
  draft.usage_record_id = hold?.deferred?.usageRecordId;
  draft.metering = meteringOf(parts, wire, delivery, ground.settings.pricingCached);
  draft.status_code = refusal?.status ?? sentStatus(delivery);
  draft.upstream_status = delivery?.status;
  draft.latency_ms = elapsed(ground.clock.monotonic() - parts.arrival.head.startedAt);
  draft.upstream_latency_ms = delivery?.headLatencyMs === undefined ? undefined : elapsed(delivery.headLatencyMs);
  draft.stream_outcome = delivery?.streamOutcome;
  draft.request_sha256 = intake?.streamed ? intake.streamed.sha256 : intake?.requestSha256;
  draft.response_sha256 = delivery?.responseSha256;
  draft.request_bytes = intake?.streamed?.bytes ?? intake?.requestBytes ?? 0;
  draft.response_bytes = delivery?.responseBytes ?? 0;
  draft.risk_score = judgement?.risk?.score;
  draft.risk_signals = judgement?.risk?.signals;
  draft.approval_id = refusal?.approvalId ?? cleared?.by[0]?.approval_id;
  draft.error = errorOf(refusal, delivery);
  return draft;
}

/** What is settled before a call is sent; the other members stand there too, since objects that are alike are cheap. */
function begin(parts: Known, wire: Wire, { settings }: Ground): RecordDraft {
  const { arrival, claims, proof, delegated, dressed, judgement } = parts;
  const attribution = attributionOf(parts);
  return {
    schema: EXECUTION_RECORD_SCHEMA,
    record_id: arrival.recordId,
    record_hash: '',
    request_id: claims?.requestId ?? arrival.recordId,
    trace_id: arrival.trace?.traceId,
    created_at: timestamp(arrival.createdAt),
    completed_at: '',
    org_id: claims?.orgId ?? '',
    workload_id: claims?.workloadId ?? '',
    caller_id: claims?.callerId,
    caller_ip: arrival.callerIp,
    node_id: settings.nodeId,
    decision: 'deny',
    reason: undefined,
    reason_codes: [],
    budget: undefined,
    action_type: wire.actionType,
    action_method: wire.method,
    target: targetText(wire),
    target_host: wire.host,
    target_path: recordedPath(wire.path),
    connection_type: arrival.connectionType,
    traffic_class: arrival.trafficClass,
    record_tier: 'action',
    connector_id: wire.connectorId,
    connector_version: wire.connectorId === GENERIC_HTTP ? GENERIC_HTTP_VERSION : wire.provider?.version,
    credential_id: wire.credentialId,
    api_key_id: proof?.apiKey?.id,
    provider: wire.provider?.id,
    model: wire.model?.toWellFormed(),
    usage_record_id: undefined,
    settles_record_id: undefined,
    idempotency_key: claims?.idempotencyKey,
    customer_id: attribution.customer_id,
    account_id: attribution.account_id,
    project_id: attribution.project_id,
    labels: labelsOf(attribution),
    policy_trace: policyTrace(judgement),
    metering: undefined,
    status_code: undefined,
    upstream_status: undefined,
    latency_ms: 0,
    upstream_latency_ms: undefined,
    // The calls of a socket stream, each of them.
    stream: arrival.socketCall !== undefined || wire.stream === true,
    stream_outcome: undefined,
    request_sha256: undefined,
    response_sha256: undefined,
    request_bytes: 0,
    response_bytes: 0,
    oauth_passthrough: dressed?.oauthPassthrough ? true : undefined,
    summed_requests: undefined,
    risk_score: undefined,
    risk_signals: undefined,
    delegation_chain: delegated?.recorded,
    delegation_id: delegated?.chain.leaf.delegationId ?? claims?.delegationId,
    approval_id: undefined,
    error: undefined,
  };
}

interface Reason {
  readonly reason: string | undefined;
  readonly codes: readonly string[];
  readonly budget: RecordDraft['budget'];
}

function reasonOf(
  parts: Known,
  refusal: Refusal | undefined,
  delivery: Delivered | undefined,
  withToken = parts.proof?.tokenShown === true,
): Reason {
  if (withToken) return reasonWithToken(parts, refusal, delivery);
  const { judgement } = parts;
  if (refusal) return { reason: refusal.reason, codes: refusal.reasonCodes, budget: refusal.budget };
  const codes = judgement?.verdict.reason_codes ?? [];
  if (delivery?.failure !== undefined && isHeldWhileRunning(delivery.failure))
    return { reason: delivery.failure.message, codes: [...codes, delivery.failure.code], budget: undefined };
  const stopped = delivery?.stopped;
  return stopped
    ? { reason: BUDGET_EXCEEDED, codes: [...codes, STOPPED, stopped.reasonCode], budget: stopped.budget }
    : { reason: judgement?.verdict.reason, codes, budget: undefined };
}

/** A token that was shown may be none of the workload whose call it is, which then needs none (decision 4.5). */
function reasonWithToken(parts: Known, refusal: Refusal | undefined, delivery: Delivered | undefined): Reason {
  const { proof, caller } = parts;
  const told = reasonOf(parts, refusal, delivery, false);
  if (caller === undefined || proof?.workload === workloadKey(caller.workload)) return told;
  const mark: ReasonCode = 'workload_token_ignored';
  // What ended a stream stands last.
  return { ...told, codes: delivery?.stopped ? [mark, ...told.codes] : [...told.codes, mark] };
}

/**
 * A connection that was let through; the calls on an open socket have records of their own, and must not be counted
 * twice (decisions 7.3, 7.7).
 */
function isConnection({ arrival, target }: Known, refusal: Refusal | undefined): boolean {
  return arrival.line === 'tunnel' || (target?.opensSocket === true && refusal === undefined);
}

/** No labels are no member at all. */
function labelsOf({ labels }: Attribution): Attribution['labels'] {
  return labels !== undefined && Object.keys(labels).length > 0 ? labels : undefined;
}

/** Scheme, host, a port that is not the scheme's own, and path. */
function targetText({ host, port, tls, path }: Wire): string {
  const usual = tls ? 443 : 80;
  const name = host.includes(':') ? `[${host}]` : host;
  return `${tls ? 'https' : 'http'}://${name}${port === usual ? '' : `:${port}`}${shorten(pathOnly(path), MAX_RECORDED)}`;
}

/** Whole microseconds: more digits would only make the record's text longer. */
function elapsed(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}

function policyTrace(judgement: Judgement | undefined): RecordDraft['policy_trace'] {
  if (judgement === undefined) return undefined;
  const { active, verdict, shadow, observed } = judgement;
  const { matched, overridden } = verdict;
  return {
    bundle_id: active.bundle_id,
    version: active.version,
    content_hash: active.content_hash.slice(0, CONTENT_HASH_DIGITS),
    matched_rule_ids: matched.map((rule) => rule.rule_id),
    matched_layers: matched.map((rule) => rule.layer),
    matched_levels: matched.map((rule) => rule.level),
    missing_field: matched.some(tookRestrictiveSide) ? matched.filter(tookRestrictiveSide).map(ruleName) : undefined,
    overridden: overridden.length === 0 ? undefined : overridden,
    shadow,
    stopped_at: verdict.stopped_at,
    attributes: observed,
  };
}

function tookRestrictiveSide(rule: MatchedRule): boolean {
  return rule.missing_field === true;
}

function ruleName({ layer, rule_id }: MatchedRule): string {
  return `${layer}/${rule_id}`;
}

/**
 * Only a call that reached a model is metered; 0 tokens with `usage_reported: false` when the provider gave none
 * (decision 7.5).
 */
function meteringOf(parts: Known, wire: Wire, delivery: Delivered | undefined, cachedRates: boolean): RecordDraft['metering'] {
  const { arrival, claims, target, used } = parts;
  const { price, operation, model } = wire;
  if (target?.opensSocket || !price || delivery?.status === undefined || !operation || operation.actionType === 'http.request')
    return undefined;
  const asked = claims && askedModel({ arrival, claims, route: { provider: wire.provider, operation, model, price, named: wire.named } });
  const charged = chargedFor(asked, { usage: used?.usage, model: used?.model }, { price, model });
  return meteringFrom(charged, { reported: used?.approximated !== true, cachedRates });
}

/**
 * What the client was sent: a stream that it left had its head; an answer that was still held when it left had none
 * (`client_gone`).
 */
function sentStatus(delivery: Delivered | undefined): number | undefined {
  return delivery?.clientGone && !delivery.started ? ERROR_CODES.client_gone.status : delivery?.status;
}

function errorOf(refusal: Refusal | undefined, delivery: Delivered | undefined): ExecutionRecord['error'] | undefined {
  if (refusal?.errorCode) return { code: refusal.errorCode, message: refusal.reason };
  if (delivery?.failure) return { code: delivery.failure.code, message: delivery.failure.message };
  if (delivery?.stopped) return { code: STOPPED, message: stopMessage(delivery.stopped) };
  if (delivery?.clientGone) return { code: 'client_gone', message: 'The client left before the answer was complete.' };
  return undefined;
}
