import { collectDefaultMetrics, Registry } from 'prom-client';
import type { Listeners } from '../../base/events/bus.ts';
import type { EventPayloads } from '../../base/events/events.ts';
import { ERROR_CODES } from '../../base/model/error-codes.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { REASON_CODES, type ReasonCode } from '../../base/model/reason-codes.ts';
import { READ_METRICS } from '../../operations/served-elsewhere.ts';
import type { Route } from '../http/route.ts';
import { controlListeners } from './control-metrics.ts';
import { METRICS } from './metric-table.ts';
import { counter, gauge, histogram, level, total, totals } from './registered.ts';

const OTHER = 'other';
const DENIALS: ReadonlySet<string> = new Set(['deny', 'require_attribution']);
const STOPPED = 'stream_stopped_at_cap' satisfies ReasonCode;
const ACTION_TYPES: ReadonlySet<string> = new Set(['ai.infer', 'ai.embed', 'ai.moderate', 'http.request']);

const reason = (code: string) => (Object.hasOwn(REASON_CODES, code) ? code : OTHER);

export interface MetricsOptions {
  /** Org ids that may stand in a label. */
  knownOrg(orgId: string): boolean;
  knownProvider(id: string): boolean;
  /** Action types of the operator's, beside the standard ones. */
  knownActionType(type: string): boolean;
  openTunnels(): number;
  bufferedBytes(): number;
  discoveredDomains(): number;
  deferredResponses(): number;
  retentionHeld(): boolean;
  unremovedSegments(): number;
  readonly approvals: { readonly pending: number };
  readonly quarantines: { readonly active: number };
  /** Destination, outcome, count. */
  exportCounts(): readonly (readonly [destination: string, outcome: string, count: number])[];
  /** Spans by what became of them; none where no traces are sent. */
  traceSpans(): Readonly<Record<string, number>>;
  readonly outbox: { readonly waiting: number; readonly dropped: Readonly<{ number: number; age: number }> };
}

export interface Metrics {
  readonly events: Listeners;
  readonly routes: readonly Route[];
}

/** What records say of prices and limits. */
function moneyListener(
  registry: Registry,
  org: (id: string) => string,
  provider: (id: string | undefined) => string,
): (record: ExecutionRecord) => void {
  const overageEnforced = counter(registry, METRICS.overageEnforced);
  const pricedByDefault = counter(registry, METRICS.pricedByDefault);
  const streamsStopped = counter(registry, METRICS.streamsStopped);
  return (record) => {
    if (record.metering?.rate_source === 'default') pricedByDefault(provider(record.provider)).inc();
    if (record.reason_codes[0] === 'monthly_request_limit_exceeded') overageEnforced(org(record.org_id)).inc();
    if (record.error?.code === STOPPED) streamsStopped(org(record.org_id), reason(record.reason_codes.at(-1) ?? '')).inc();
  };
}

/** What records say of risk. */
function riskListener(registry: Registry, org: (id: string) => string): (record: ExecutionRecord) => void {
  const score = level(registry, METRICS.riskScore);
  const signals = counter(registry, METRICS.riskSignals);
  return ({ risk_score: last, risk_signals: fired = [], org_id: orgId }) => {
    if (last === undefined) return;
    score(org(orgId)).set(last);
    for (const signal of fired) signals(signal, org(orgId)).inc();
  };
}

/** Counts what records say. `org` and `provider` fold what nobody configured. */
function executionListener(
  registry: Registry,
  org: (id: string) => string,
  provider: (id: string | undefined) => string,
  actionType: (type: string) => string,
): (event: EventPayloads['execution']) => void {
  const requests = counter(registry, METRICS.requests);
  const duration = histogram(registry, METRICS.duration);
  const upstream = histogram(registry, METRICS.upstreamLatency);
  const denies = counter(registry, METRICS.denies);
  const rateLimited = counter(registry, METRICS.rateLimited);
  const countMoney = moneyListener(registry, org, provider);
  const countRisk = riskListener(registry, org);
  return ({ record, durationMs }) => {
    const action = actionType(record.action_type);
    requests(action, record.decision, org(record.org_id)).inc();
    duration(action, record.decision).observe(durationMs);
    if (record.upstream_latency_ms !== undefined) upstream(provider(record.provider)).observe(record.upstream_latency_ms / 1000);
    if (record.decision === 'rate_limit') rateLimited(org(record.org_id)).inc();
    countMoney(record);
    countRisk(record);
    if (DENIALS.has(record.decision)) for (const code of record.reason_codes) denies(org(record.org_id), reason(code)).inc();
  };
}

/** Makes the registry, the listeners that feed it and the `/metrics` route. */
export function createMetrics(options: MetricsOptions): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const replays = counter(registry, METRICS.replays);
  const unrecorded = counter(registry, METRICS.unrecorded);
  const passed = counter(registry, METRICS.passed);
  const tunnels = counter(registry, METRICS.tunnels);
  const tunnelBytes = counter(registry, METRICS.tunnelBytes);
  const handshakesRejected = counter(registry, METRICS.handshakesRejected);
  const clientCertificatesWanted = counter(registry, METRICS.clientCertificatesWanted);
  const webSocketsOpen = level(registry, METRICS.webSocketsOpen);
  const webSockets = counter(registry, METRICS.webSockets);
  const webSocketMessages = counter(registry, METRICS.webSocketMessages);
  const messages = { up: webSocketMessages('up'), down: webSocketMessages('down') };
  gauge(registry, METRICS.tunnelsOpen, () => options.openTunnels());
  gauge(registry, METRICS.bufferedBytes, () => options.bufferedBytes());
  gauge(registry, METRICS.discoveredDomains, () => options.discoveredDomains());
  gauge(registry, METRICS.deferredOpen, () => options.deferredResponses());
  gauge(registry, METRICS.retentionHeld, () => (options.retentionHeld() ? 1 : 0));
  gauge(registry, METRICS.unremovedSegments, () => options.unremovedSegments());
  gauge(registry, METRICS.approvalsPending, () => options.approvals.pending);
  gauge(registry, METRICS.quarantineActive, () => options.quarantines.active);
  gauge(registry, METRICS.outboxWaiting, () => options.outbox.waiting);
  total(registry, METRICS.outboxDropped, () => options.outbox.dropped);
  total(registry, METRICS.traceSpans, () => options.traceSpans());
  totals(registry, METRICS.exported, () => options.exportCounts());
  const deferredSettled = counter(registry, METRICS.deferredSettled);
  const org = (id: string) => (options.knownOrg(id) ? id : OTHER);
  const provider = (id: string | undefined) => (id !== undefined && options.knownProvider(id) ? id : OTHER);
  const actionType = (type: string) => (ACTION_TYPES.has(type) || options.knownActionType(type) ? type : OTHER);

  const events: Listeners = {
    ...controlListeners(registry, org),
    execution: executionListener(registry, org, provider, actionType),
    usageSettled: ({ record, outcome }) => deferredSettled(org(record.org_id), outcome).inc(),
    replayed: (orgId) => replays(org(orgId)).inc(),
    unrecorded: ({ code }) => unrecorded(Object.hasOwn(ERROR_CODES, code) ? code : OTHER).inc(),
    passed: () => passed().inc(),
    tunnelClosed({ bytesUp, bytesDown }) {
      tunnels().inc();
      tunnelBytes('up').inc(bytesUp);
      tunnelBytes('down').inc(bytesDown);
    },
    handshakeRejected: ({ signal }) => handshakesRejected(signal).inc(),
    clientCertificateWanted: () => clientCertificatesWanted().inc(),
    webSocketOpened(kind) {
      webSockets(kind).inc();
      webSocketsOpen(kind).inc();
    },
    webSocketClosed: (kind) => webSocketsOpen(kind).dec(),
    webSocketMessage: (direction) => messages[direction].inc(),
  };
  const routes: readonly Route[] = [
    {
      method: READ_METRICS.method,
      path: READ_METRICS.path,
      auth: READ_METRICS.scope,
      summary: READ_METRICS.summary,
      handle: async () => ({ status: 200, text: await registry.metrics(), contentType: registry.contentType }),
    },
  ];
  return { events, routes };
}
