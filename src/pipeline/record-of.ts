import { GENERIC_HTTP, GENERIC_HTTP_VERSION } from '../base/catalogue/connector-id.ts';
import { timestamp } from '../base/lib/clock.ts';
import { MAX_RECORDED, shorten } from '../base/lib/shorten.ts';
import type { Attribution } from '../base/model/attribution.ts';
import { ERROR_CODES } from '../base/model/error-codes.ts';
import { EXECUTION_RECORD_SCHEMA, type ExecutionRecord } from '../base/model/execution-record.ts';
import { BUDGET_EXCEEDED } from '../decide/policy/judge-caps.ts';
import { observe } from '../decide/policy/observe.ts';
import type { MatchedRule } from '../decide/policy/verdict.ts';
import { pathOnly, recordedPath } from '../inbound/normalise/path.ts';
import type { RecordDraft } from '../record/canonical-record.ts';
import type { Exchange } from './exchange.ts';
import { meteringFrom } from './metering-of.ts';
import type { Pipeline } from './stage.ts';
import { STOPPED, stopMessage } from './stop-event.ts';

/** Builds the record of a request, still without its hash, from what its stages left in the exchange (decisions 7.1 to 7.8). */
export function recordOf(exchange: Exchange, pipeline: Pipeline, completedAt: number): RecordDraft {
  const { refusal, delivery, attribution, request, provider } = exchange;
  return {
    schema: EXECUTION_RECORD_SCHEMA,
    record_id: exchange.recordId,
    record_hash: '',
    request_id: exchange.requestId,
    created_at: timestamp(exchange.createdAt),
    completed_at: timestamp(completedAt),
    org_id: exchange.orgId,
    workload_id: exchange.workloadId,
    caller_id: exchange.callerId,
    caller_ip: exchange.callerIp,
    node_id: pipeline.settings.nodeId,
    decision: refusal?.decision ?? exchange.decision ?? 'deny',
    ...reasonOf(exchange),
    action_type: exchange.actionType,
    action_method: exchange.method,
    target: targetText(exchange, shorten(pathOnly(exchange.path), MAX_RECORDED)),
    target_host: exchange.host,
    target_path: recordedPath(exchange.path),
    connection_type: exchange.connectionType,
    traffic_class: exchange.trafficClass,
    record_tier: isConnection(exchange) ? 'connection' : 'action',
    connector_id: exchange.connectorId,
    connector_version: exchange.connectorId === GENERIC_HTTP ? GENERIC_HTTP_VERSION : provider?.version,
    credential_id: exchange.credentialId,
    api_key_id: undefined,
    provider: provider?.id,
    model: exchange.sendModel?.toWellFormed(),
    usage_record_id: exchange.deferred?.usageRecordId,
    settles_record_id: undefined,
    idempotency_key: request?.idempotency_key,
    customer_id: attribution.customer_id,
    account_id: attribution.account_id,
    project_id: attribution.project_id,
    labels: labelsOf(attribution),
    policy_trace: policyTrace(exchange),
    metering: meteringOf(exchange, pipeline.settings.pricingCached),
    status_code: refusal?.status ?? sentStatus(delivery),
    upstream_status: delivery?.status,
    latency_ms: elapsed(pipeline.clock.monotonic() - exchange.head.startedAt),
    upstream_latency_ms: delivery?.headLatencyMs === undefined ? undefined : elapsed(delivery.headLatencyMs),
    stream: exchange.stream,
    stream_outcome: delivery?.streamOutcome,
    request_sha256: exchange.streamed ? exchange.streamed.sha256 : exchange.requestSha256,
    response_sha256: delivery?.responseSha256,
    request_bytes: exchange.streamed?.bytes ?? exchange.requestBytes,
    response_bytes: delivery?.responseBytes ?? 0,
    oauth_passthrough: exchange.oauthPassthrough ? true : undefined,
    risk_score: undefined,
    risk_signals: undefined,
    delegation_id: request?.delegation_id ?? exchange.identity?.delegationId,
    approval_id: undefined,
    error: errorOf(exchange),
  };
}

function reasonOf({ refusal, delivery, verdict }: Exchange): Pick<RecordDraft, 'reason' | 'reason_codes'> {
  if (refusal) return { reason: refusal.reason, reason_codes: refusal.reasonCodes };
  const codes = verdict?.reason_codes ?? [];
  const stopped = delivery?.stopped;
  return stopped
    ? { reason: BUDGET_EXCEEDED, reason_codes: [...codes, STOPPED, stopped.reasonCode] }
    : { reason: verdict?.reason, reason_codes: codes };
}

/** A connection that was let through; the calls on an open socket have records of their own, and must not be counted twice (decisions 7.3, 7.7). */
function isConnection({ door, opensSocket, refusal }: Exchange): boolean {
  return door === 'tunnel' || (opensSocket && refusal === undefined);
}

/** No labels are no member at all. */
function labelsOf({ labels }: Attribution): Attribution['labels'] {
  return labels !== undefined && Object.keys(labels).length > 0 ? labels : undefined;
}

/** Scheme, host, a port that is not the scheme's own, and path. */
function targetText(exchange: Exchange, path: string): string {
  const usual = exchange.tls ? 443 : 80;
  const host = exchange.host.includes(':') ? `[${exchange.host}]` : exchange.host;
  return `${exchange.tls ? 'https' : 'http'}://${host}${exchange.port === usual ? '' : `:${exchange.port}`}${path}`;
}

/** Whole microseconds: more digits would only make the record's text longer. */
function elapsed(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}

function policyTrace(exchange: Exchange): RecordDraft['policy_trace'] {
  const { active, verdict, shadow } = exchange;
  const attributes = observed(exchange);
  if (!active || !verdict || !attributes) return undefined;
  const { matched, overridden } = verdict;
  return {
    bundle_id: active.bundle_id,
    version: active.version,
    matched_rule_ids: matched.map((rule) => rule.rule_id),
    matched_layers: matched.map((rule) => rule.layer),
    matched_levels: matched.map((rule) => rule.level),
    missing_field: matched.some(tookRestrictiveSide) ? matched.filter(tookRestrictiveSide).map(ruleName) : undefined,
    overridden: overridden.length === 0 ? undefined : overridden,
    shadow,
    stopped_at: verdict.stopped_at,
    attributes,
  };
}

/** What the policy's rules saw of this request. */
export function observed({ active, facts, observed: known }: Exchange): Readonly<Record<string, unknown>> | undefined {
  return known ?? (active && facts && observe(active.policy, facts));
}

function tookRestrictiveSide(rule: MatchedRule): boolean {
  return rule.missing_field === true;
}

function ruleName({ layer, rule_id }: MatchedRule): string {
  return `${layer}/${rule_id}`;
}

/** Only a call that reached a model is metered; 0 tokens with `usage_reported: false` when the provider gave none (decision 7.5). */
function meteringOf(exchange: Exchange, cachedRates: boolean): RecordDraft['metering'] {
  const { price, usage, delivery, operation } = exchange;
  if (exchange.opensSocket || !price || !delivery || delivery.status === undefined || !operation || operation.actionType === 'http.request')
    return undefined;
  return meteringFrom({
    usage,
    reported: !exchange.usageApproximated,
    price,
    model: exchange.answeredModel ?? exchange.sendModel,
    cachedRates,
  });
}

/** What the client was sent: a stream that it left had its head; an answer that was still held when it left had none (`client_gone`). */
function sentStatus(delivery: Exchange['delivery']): number | undefined {
  return delivery?.clientGone && !delivery.started ? ERROR_CODES.client_gone.status : delivery?.status;
}

function errorOf(exchange: Exchange): ExecutionRecord['error'] | undefined {
  const { refusal, delivery } = exchange;
  if (refusal?.errorCode) return { code: refusal.errorCode, message: refusal.reason };
  if (delivery?.failure) return { code: delivery.failure.code, message: delivery.failure.message };
  if (delivery?.stopped) return { code: STOPPED, message: stopMessage(delivery.stopped) };
  if (delivery?.clientGone) return { code: 'client_gone', message: 'The client left before the answer was complete.' };
  return undefined;
}
