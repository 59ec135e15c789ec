import type { ExecutionRecord } from '../../../base/model/execution-record.ts';
import { CONTROL_BOUNDS } from '../../../base/model/org-bounds.ts';
import { permits } from '../../../base/model/reason-codes.ts';
import type { ProviderUsage, TelemetryReport } from '../../../base/model/telemetry-report.ts';
import { OTHER, type ShippedNames } from './shipped-names.ts';

/** Of a report (specification, "Usage telemetry"), whatever `GW_RISK_ALERT_THRESHOLD` is. */
const HIGH_RISK = 0.7;
/** Callers of whom it is known that they are above it. */
const MAX_CALLERS = CONTROL_BOUNDS.telemetryCallers.all;

interface Usage {
  requests: number;
  tokensIn: number;
  tokensOut: number;
  readonly models: Map<string, number>;
  readonly domains: Map<string, number>;
  readonly connectionTypes: Map<string, number>;
}

/** Callers whose last score was high, for windows to count who joins them. Never told to anybody. */
export type HighRisk = Set<string>;

/** What a report counts of the records of a time. All names are of closed sets, so it has a bound of its own. */
export class UsageWindow {
  readonly #names: ShippedNames;
  readonly #high: HighRisk;
  readonly #providers = new Map<string, Usage>();
  readonly #decisions = new Map<string, number>();
  readonly #actionTypes = new Map<string, number>();
  #riskAlerts = 0;

  constructor(names: ShippedNames, high: HighRisk) {
    this.#names = names;
    this.#high = high;
  }

  /** A record of tier `usage` says what an earlier call cost, and is no request. */
  add(record: ExecutionRecord): void {
    const isCall = record.record_tier !== 'usage';
    if (isCall) {
      const requests = record.summed_requests ?? 1;
      more(this.#decisions, record.decision, requests);
      more(this.#actionTypes, this.#names.actionType(record.action_type), requests);
      this.#addRisk(record);
    }
    if (record.provider !== undefined) this.#addUsage(this.#names.provider(record.provider), record, isCall);
  }

  counts(): Pick<TelemetryReport, 'providers' | 'decisions' | 'action_types' | 'risk_alerts'> {
    const providers: Record<string, ProviderUsage> = {};
    for (const [id, usage] of sorted(this.#providers)) {
      providers[id] = {
        requests: usage.requests,
        tokens_in: usage.tokensIn,
        tokens_out: usage.tokensOut,
        models: Object.fromEntries(sorted(usage.models)),
        domains: Object.fromEntries(sorted(usage.domains)),
        connection_types: Object.fromEntries(sorted(usage.connectionTypes)),
      };
    }
    return {
      providers,
      decisions: Object.fromEntries(sorted(this.#decisions)),
      action_types: Object.fromEntries(sorted(this.#actionTypes)),
      risk_alerts: this.#riskAlerts,
    };
  }

  #addUsage(provider: string, record: ExecutionRecord, isCall: boolean): void {
    const usage = this.#providers.get(provider) ?? nothing();
    this.#providers.set(provider, usage);
    if (record.metering !== undefined && record.decision !== 'error' && permits(record.decision)) {
      usage.tokensIn += record.metering.tokens_in;
      usage.tokensOut += record.metering.tokens_out;
    }
    if (!isCall) return;
    usage.requests += 1;
    if (record.model !== undefined) more(usage.models, provider === OTHER ? OTHER : this.#names.model(provider, record.model));
    more(usage.domains, this.#names.domain(record.target_host));
    more(usage.connectionTypes, record.connection_type);
  }

  #addRisk({ risk_score: score, org_id: org, workload_id: workload, caller_id: caller, caller_ip: address }: ExecutionRecord): void {
    if (score === undefined) return;
    const who = JSON.stringify([org, workload, caller ?? address]);
    if (score < HIGH_RISK) this.#high.delete(who);
    else if (!this.#high.has(who)) {
      this.#riskAlerts += 1;
      for (const oldest of this.#high) {
        if (this.#high.size < MAX_CALLERS) break;
        this.#high.delete(oldest);
      }
      this.#high.add(who);
    }
  }
}

function nothing(): Usage {
  return { requests: 0, tokensIn: 0, tokensOut: 0, models: new Map(), domains: new Map(), connectionTypes: new Map() };
}

function more(counts: Map<string, number>, name: string, by = 1): void {
  counts.set(name, (counts.get(name) ?? 0) + by);
}

function sorted<T>(map: ReadonlyMap<string, T>): readonly [string, T][] {
  return [...map].sort(([a], [b]) => (a < b ? -1 : 1));
}
