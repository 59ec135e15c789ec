import type { Registry } from 'prom-client';
import type { Listeners } from '../../base/events/bus.ts';
import type { ExecutionEvent } from '../../base/events/events.ts';
import { parseUsd } from '../../base/lib/money.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { REASON_CODES, type ReasonCode } from '../../base/model/reason-codes.ts';
import type { LabelValues } from './label-values.ts';
import { METRICS } from './metric-table.ts';
import { counter, histogram, level, usdCounter } from './registered.ts';

const OTHER = 'other';
const DENIALS: ReadonlySet<string> = new Set(['deny', 'require_attribution']);
const STOPPED = 'stream_stopped_at_cap' satisfies ReasonCode;

type OfRecord = (record: ExecutionRecord) => void;

const reason = (code: string) => (Object.hasOwn(REASON_CODES, code) ? code : OTHER);

/** Counts what records say: those of calls, and those that say later what a call cost. */
export function recordListeners(
  registry: Registry,
  labels: LabelValues,
  orgId: string,
): Pick<Listeners, 'execution' | 'summed' | 'usageSettled'> {
  const countUsage = usageListener(registry, labels);
  const countExecution = executionListener(registry, labels, orgId, countUsage);
  const deferredSettled = counter(registry, METRICS.deferredSettled);
  const summed = counter(registry, METRICS.recordsSummed);
  summed(orgId);
  const shortened = counter(registry, METRICS.recordsShortened);
  shortened(orgId);
  return {
    execution(event) {
      if (event.shortened) shortened(labels.org(event.record.org_id)).inc();
      countExecution(event);
    },
    summed(event) {
      summed(labels.org(event.record.org_id)).inc();
      countExecution(event);
    },
    usageSettled({ record, outcome }) {
      deferredSettled(labels.org(record.org_id), outcome).inc();
      countUsage(record);
    },
  };
}

function executionListener(
  registry: Registry,
  { org, provider, actionType }: LabelValues,
  ownOrg: string,
  countUsage: OfRecord,
): (event: ExecutionEvent) => void {
  const requests = counter(registry, METRICS.requests);
  const duration = histogram(registry, METRICS.duration);
  const upstream = histogram(registry, METRICS.upstreamLatency);
  const firstByte = histogram(registry, METRICS.firstByte);
  const denies = counter(registry, METRICS.denies);
  const rateLimited = counter(registry, METRICS.rateLimited);
  rateLimited(ownOrg);
  const countLimits = limitListener(registry, org, ownOrg);
  const countRisk = riskListener(registry, org);
  return ({ record, durationMs, firstByteMs }) => {
    // What stands for many calls was counted with each of them.
    if (record.summed_requests !== undefined) return;
    const action = actionType(record.action_type);
    const orgId = org(record.org_id);
    requests(action, record.decision, orgId).inc();
    duration(action, record.decision).observe(durationMs);
    if (record.upstream_latency_ms !== undefined) upstream(provider(record.provider)).observe(record.upstream_latency_ms / 1000);
    if (firstByteMs !== undefined && record.stream_outcome !== undefined) firstByte(provider(record.provider)).observe(firstByteMs / 1000);
    if (record.decision === 'rate_limit') rateLimited(orgId).inc();
    countUsage(record);
    countLimits(record);
    countRisk(record);
    if (DENIALS.has(record.decision)) for (const code of record.reason_codes) denies(orgId, reason(code)).inc();
  };
}

/** Tokens and cost, and what was charged for want of a rate. */
function usageListener(registry: Registry, { org, provider }: LabelValues): OfRecord {
  const tokens = counter(registry, METRICS.tokens);
  const cost = usdCounter(registry, METRICS.cost);
  const pricedByDefault = counter(registry, METRICS.pricedByDefault);
  return ({ org_id: orgId, provider: id, metering, record_tier: tier }) => {
    if (metering === undefined) return;
    const [who, where] = [org(orgId), provider(id)];
    tokens(who, where, 'in').inc(metering.tokens_in);
    tokens(who, where, 'out').inc(metering.tokens_out);
    cost(who, where).add(parseUsd(metering.cost_usd) ?? 0n);
    if (metering.rate_source === 'default' && tier !== 'usage') pricedByDefault(where).inc();
  };
}

/** What records say of limits. */
function limitListener(registry: Registry, org: LabelValues['org'], ownOrg: string): OfRecord {
  const overageEnforced = counter(registry, METRICS.overageEnforced);
  overageEnforced(ownOrg);
  const streamsStopped = counter(registry, METRICS.streamsStopped);
  return (record) => {
    if (record.reason_codes[0] === 'monthly_request_limit_exceeded') overageEnforced(org(record.org_id)).inc();
    if (record.error?.code === STOPPED) streamsStopped(org(record.org_id), reason(record.reason_codes.at(-1) ?? '')).inc();
  };
}

/** What records say of risk. */
function riskListener(registry: Registry, org: LabelValues['org']): OfRecord {
  const score = level(registry, METRICS.riskScore);
  const signals = counter(registry, METRICS.riskSignals);
  return ({ risk_score: last, risk_signals: fired = [], org_id: orgId }) => {
    if (last === undefined) return;
    score(org(orgId)).set(last);
    for (const signal of fired) signals(signal, org(orgId)).inc();
  };
}
