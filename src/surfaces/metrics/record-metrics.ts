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

/** @param who as the label of an org shows the record's */
type OfRecord = (record: ExecutionRecord, who: string) => void;

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
      const who = labels.org(event.record.org_id);
      if (event.shortened) shortened(who).inc();
      countExecution(event, who);
    },
    summed(event) {
      const who = labels.org(event.record.org_id);
      summed(who).inc();
      countExecution(event, who);
    },
    usageSettled({ record, outcome }) {
      const who = labels.org(record.org_id);
      deferredSettled(who, outcome).inc();
      countUsage(record, who);
    },
  };
}

function executionListener(
  registry: Registry,
  { provider, actionType }: LabelValues,
  ownOrg: string,
  countUsage: OfRecord,
): (event: ExecutionEvent, who: string) => void {
  const requests = counter(registry, METRICS.requests);
  const duration = histogram(registry, METRICS.duration);
  const upstream = histogram(registry, METRICS.upstreamLatency);
  const firstByte = histogram(registry, METRICS.firstByte);
  const countDenial = denialListener(registry);
  const rateLimited = counter(registry, METRICS.rateLimited);
  rateLimited(ownOrg);
  const countLimits = limitListener(registry, ownOrg);
  const countRisk = riskListener(registry);
  return ({ record, durationMs, firstByteMs }, who) => {
    // What stands for many calls was counted with each of them.
    if (record.summed_requests !== undefined) return;
    const action = actionType(record.action_type);
    requests(action, record.decision, who).inc();
    duration(action, record.decision).observe(durationMs);
    if (record.upstream_latency_ms !== undefined) upstream(provider(record.provider)).observe(record.upstream_latency_ms / 1000);
    if (firstByteMs !== undefined && record.stream_outcome !== undefined) firstByte(provider(record.provider)).observe(firstByteMs / 1000);
    if (record.decision === 'rate_limit') rateLimited(who).inc();
    countUsage(record, who);
    countLimits(record, who);
    if (record.risk_score !== undefined) countRisk(record, who);
    if (DENIALS.has(record.decision)) countDenial(record, who);
  };
}

/** Each reason of a denial. */
function denialListener(registry: Registry): OfRecord {
  const denies = counter(registry, METRICS.denies);
  return ({ reason_codes: codes }, who) => {
    for (const code of codes) denies(who, reason(code)).inc();
  };
}

/** Tokens and cost, and what was charged for want of a rate. */
function usageListener(registry: Registry, { provider }: LabelValues): OfRecord {
  const tokens = counter(registry, METRICS.tokens);
  const cost = usdCounter(registry, METRICS.cost);
  const pricedByDefault = counter(registry, METRICS.pricedByDefault);
  return ({ provider: id, metering, record_tier: tier }, who) => {
    if (metering === undefined) return;
    const where = provider(id);
    tokens(who, where, 'in').inc(metering.tokens_in);
    tokens(who, where, 'out').inc(metering.tokens_out);
    cost(who, where).add(parseUsd(metering.cost_usd) ?? 0n);
    if (metering.rate_source === 'default' && tier !== 'usage') pricedByDefault(where).inc();
  };
}

/** What records say of limits. */
function limitListener(registry: Registry, ownOrg: string): OfRecord {
  const overageEnforced = counter(registry, METRICS.overageEnforced);
  overageEnforced(ownOrg);
  const streamsStopped = counter(registry, METRICS.streamsStopped);
  return ({ reason_codes: codes, error }, who) => {
    if (codes[0] === 'monthly_request_limit_exceeded') overageEnforced(who).inc();
    if (error?.code === STOPPED) streamsStopped(who, reason(codes.at(-1) ?? '')).inc();
  };
}

/** What records say of risk. */
function riskListener(registry: Registry): OfRecord {
  const score = level(registry, METRICS.riskScore);
  const signals = counter(registry, METRICS.riskSignals);
  return ({ risk_score: last, risk_signals: fired = [] }, who) => {
    if (last === undefined) return;
    score(who).set(last);
    for (const signal of fired) signals(signal, who).inc();
  };
}
