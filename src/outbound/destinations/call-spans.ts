import type { TracedCall, UpstreamLeg } from '../../base/events/traced-call.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { GEN_AI, operationName, PROVIDER_NAMES } from './gen-ai-conventions.ts';
import { closed, double, flag, nameText, text, texts, whole } from './otlp-attributes.ts';

/**
 * How a moment of the monotonic clock becomes one of the day: milliseconds since the epoch when the monotonic clock was
 * at 0.
 */
export interface SpanClock {
  readonly epochAtZero: number;
}

const SERVER = 2;
const CLIENT = 3;
const ERROR_STATUS = '{"code":2}';
const UNSET_STATUS = '{}';
/** Bits of `flags` of a span: whether its parent is remote is known, and it is. */
const KNOWS_REMOTE = 0x100;
const IS_REMOTE = 0x200;
const FAILED_FROM = 500;
const CLIENT_FAILED_FROM = 400;
/** What else there is is `_OTHER` (semantic conventions, HTTP spans). */
const METHODS: ReadonlySet<string> = new Set(['CONNECT', 'DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT', 'TRACE']);
const DIRECT_ROUTE = '/v1/actions:execute';
const REDIRECT_ROUTE = '/proxy/{provider}';

/**
 * The spans of a call, as JSON texts joined by commas: the call as the gateway got it, and where it was sent the one to
 * the provider.
 */
export function spansOf(call: TracedCall, clock: SpanClock): string {
  const { upstream } = call;
  const server = serverSpan(call, clock);
  return upstream === undefined ? server : `${server},${clientSpan(call, upstream, clock)}`;
}

interface Span {
  readonly id: string;
  readonly parent: string | undefined;
  readonly flags: number;
  readonly name: string;
  readonly kind: number;
  /** Monotonic milliseconds. */
  readonly from: number;
  readonly to: number;
  readonly attributes: string;
  readonly failed: boolean;
}

function spanText({ trace: { traceId }, own }: TracedCall, span: Span, { epochAtZero }: SpanClock): string {
  const parent = span.parent === undefined ? '' : `"parentSpanId":"${span.parent}",`;
  const state = own.state === undefined ? '' : `"traceState":${nameText(own.state)},`;
  const times = `"startTimeUnixNano":"${nanoseconds(epochAtZero + span.from)}","endTimeUnixNano":"${nanoseconds(epochAtZero + Math.max(span.from, span.to))}"`;
  return `{"traceId":"${traceId}","spanId":"${span.id}",${parent}${state}"flags":${span.flags},"name":${nameText(span.name)},"kind":${span.kind},${times},"attributes":${closed(span.attributes)},"status":${span.failed ? ERROR_STATUS : UNSET_STATUS}}`;
}

/** As decimal text: so many do not fit into a double. @param ms since the epoch */
function nanoseconds(ms: number): string {
  const full = Math.floor(ms);
  return `${full}${String(Math.floor((ms - full) * 1_000_000)).padStart(6, '0')}`;
}

function serverSpan(call: TracedCall, clock: SpanClock): string {
  const { trace, own, head, record, failure } = call;
  const status = record?.status_code ?? failure?.status;
  const error = record?.error?.code ?? failure?.code ?? (status !== undefined && status >= FAILED_FROM ? String(status) : undefined);
  const failed = record?.decision === 'error' || (status !== undefined && status >= FAILED_FROM);
  const remote = trace.parentId !== undefined && trace.parentIsRemote ? IS_REMOTE : 0;
  const method = METHODS.has(head.method) ? head.method : 'HTTP';
  const route = routeOf(call);
  return spanText(
    call,
    {
      id: own.server,
      parent: trace.parentId,
      flags: own.flags | KNOWS_REMOTE | remote,
      name: route === undefined ? method : `${method} ${route}`,
      kind: SERVER,
      from: head.startedAt,
      to: call.endedAt,
      attributes: requestAttributes(call, route) + whole('http.response.status_code', status) + text('error.type', error) + facts(call),
      failed,
    },
    clock,
  );
}

function routeOf({ connectionType, head }: TracedCall): string | undefined {
  if (connectionType === 'direct_api') return DIRECT_ROUTE;
  return head.door === 'origin' ? REDIRECT_ROUTE : undefined;
}

function requestAttributes({ head, record, callerIp, connectionType }: TracedCall, route: string | undefined): string {
  const isKnown = METHODS.has(head.method);
  const isProxied = connectionType === 'connect_proxy';
  return (
    text('http.request.method', isKnown ? head.method : '_OTHER') +
    text('http.route', route) +
    text('url.scheme', head.secure ? 'https' : 'http') +
    text('url.path', isProxied && record ? pathOf(record.target) : undefined) +
    text('server.address', isProxied ? record?.target_host : undefined) +
    text('client.address', callerIp) +
    text('network.protocol.version', head.httpVersion)
  );
}

/** A record's target has no query. */
function pathOf(target: string): string | undefined {
  return /^[a-z]+:\/\/[^/]*(\/.*)$/.exec(target)?.[1];
}

/** What the gateway knows of a call. */
function facts({ record, recordId, requestId, connectionType, trafficClass, failure, replayed }: TracedCall): string {
  const own = text('gw.request_id', requestId) + text('gw.connection_type', connectionType) + text('gw.traffic_class', trafficClass);
  if (record === undefined) return own + text('gw.record_id', failure?.unstored ? recordId : undefined) + flag('gw.replayed', replayed);
  const { policy_trace: policy } = record;
  return (
    own +
    text('gw.record_id', record.record_id) +
    text('gw.node_id', record.node_id) +
    text('gw.org_id', record.org_id) +
    text('gw.workload_id', record.workload_id) +
    text('gw.caller_id', record.caller_id) +
    text('gw.api_key_id', record.api_key_id) +
    text('gw.project_id', record.project_id) +
    text('gw.customer_id', record.customer_id) +
    text('gw.account_id', record.account_id) +
    text('gw.decision', record.decision) +
    texts('gw.reason_codes', record.reason_codes) +
    text('gw.policy.bundle_id', policy?.bundle_id) +
    text('gw.policy.version', policy?.version) +
    texts('gw.policy.rule_ids', policy?.matched_rule_ids) +
    text('gw.record_tier', record.record_tier) +
    text('gw.action_type', record.action_type) +
    text('gw.target_host', record.target_host) +
    text('gw.connector_id', record.connector_id) +
    text('gw.credential_id', record.credential_id) +
    text('gw.provider', record.provider) +
    text('gw.model', record.model) +
    text('gw.cost_usd', record.metering?.cost_usd) +
    flag('gw.stream', record.stream) +
    text('gw.stream_outcome', record.stream_outcome) +
    double('gw.risk_score', record.risk_score) +
    text('gw.approval_id', record.approval_id) +
    text('gw.delegation_id', record.delegation_id)
  );
}

function clientSpan(call: TracedCall, upstream: UpstreamLeg, clock: SpanClock): string {
  const { own, record } = call;
  const { status, failed } = upstream;
  const isAi = record !== undefined && record.record_tier === 'action' && record.action_type !== 'http.request';
  const error = failed ?? (status !== undefined && status >= CLIENT_FAILED_FROM ? String(status) : brokenStream(record));
  const { name, attributes } = isAi ? modelCall(record, upstream) : { name: upstream.method, attributes: '' };
  return spanText(
    call,
    {
      id: own.client,
      parent: own.server,
      flags: own.flags | KNOWS_REMOTE,
      name,
      kind: CLIENT,
      from: upstream.sentAt,
      to: upstream.endedAt ?? call.endedAt,
      attributes:
        attributes +
        text('http.request.method', METHODS.has(upstream.method) ? upstream.method : '_OTHER') +
        text('url.full', record?.target) +
        text('server.address', upstream.host) +
        whole('server.port', upstream.port) +
        whole('http.response.status_code', status) +
        text('error.type', error) +
        text('gw.record_id', record?.record_id),
      failed: error !== undefined,
    },
    clock,
  );
}

function brokenStream(record: ExecutionRecord | undefined): string | undefined {
  return record?.stream_outcome === 'error' ? 'stream_error' : undefined;
}

function modelCall(record: ExecutionRecord, upstream: UpstreamLeg): { readonly name: string; readonly attributes: string } {
  const { provider, model, stream, metering } = record;
  const operation = operationName(record.action_type, upstream.detailType, upstream.dialectId);
  const usage =
    metering?.usage_reported === true || (metering !== undefined && metering.tokens_in + metering.tokens_out > 0) ? metering : undefined;
  const firstAt = stream ? upstream.firstAt : undefined;
  return {
    name: model === undefined ? operation : `${operation} ${model}`,
    attributes:
      text(GEN_AI.operation, operation) +
      text(GEN_AI.provider, provider && (PROVIDER_NAMES[provider] ?? provider)) +
      text(GEN_AI.requestModel, model) +
      flag(GEN_AI.requestStream, stream) +
      text(GEN_AI.responseModel, upstream.model) +
      text(GEN_AI.responseId, upstream.responseId) +
      double(GEN_AI.timeToFirstChunk, firstAt && (firstAt - upstream.sentAt) / 1_000) +
      whole(GEN_AI.inputTokens, usage?.tokens_in) +
      whole(GEN_AI.outputTokens, usage?.tokens_out) +
      whole(GEN_AI.cacheReadTokens, usage?.cached_tokens_in) +
      whole(GEN_AI.cacheCreationTokens, usage?.cache_write_tokens_in) +
      whole(GEN_AI.reasoningTokens, usage?.reasoning_tokens_out),
  };
}
