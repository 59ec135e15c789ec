import type { Config } from '../base/config/config.ts';
import type { Clock } from '../base/lib/clock.ts';
import type { HealthWarning, NotReady } from '../base/model/not-ready.ts';
import { type PassageOptions, refusesAll } from '../decide/policy/refuses-all.ts';
import type { OrgService } from '../services/people/orgs.ts';
import { NO_BUNDLE } from '../services/policy/no-bundle.ts';
import type { PolicyService } from '../services/policy/policies.ts';
import type { Cluster } from '../storage/drivers/open-store.ts';

const STORE_UNAVAILABLE: HealthWarning = {
  code: 'record_store_unavailable',
  message: 'Nothing can be written to the data folder (the log says why), so that every call is answered 503 until something can.',
};

const DATABASE_AWAY: HealthWarning = {
  code: 'database_unavailable',
  message:
    'The database of GW_DATABASE_URL cannot be reached (the log says why). Calls go on, and what they leave is carried later; what people change, reports, approvals and calls with an Idempotency-Key are answered 503 until it is back.',
};

const RATES_ALONE: HealthWarning = {
  code: 'rate_limits_counted_alone',
  message:
    'Rate limits are counted by each node for itself: together the nodes let through as much as each of them. Budget caps and monthly request limits are shared, and exact.',
};

/** What an operator has to know of a gateway that shares a database. */
export function clusterWarnings(cluster: Pick<Cluster, 'health'>): { warnings(): readonly HealthWarning[] } {
  return { warnings: () => [...(cluster.health().isAway ? [DATABASE_AWAY] : []), RATES_ALONE] };
}

export interface ReadinessOptions {
  readonly clock: Clock;
  /** How long after its start the gateway counts as starting (`GW_HEALTHZ_STARTUP_GRACE`), milliseconds. */
  readonly startupGraceMs: number;
  readonly store: { readonly writable: boolean };
  /** Of the certificate of the ports; undefined: they speak plain HTTP. */
  readonly certificate: { warnings(): readonly HealthWarning[] } | undefined;
}

/** Whether work should be sent to this gateway (decision 12.2), and what to know of it. */
export class Readiness {
  readonly #options: ReadinessOptions;
  readonly #startedAt: number;
  readonly #lasting: HealthWarning[] = [];
  readonly #sources: { warnings(): readonly HealthWarning[] }[] = [];
  #whyAllIsRefused: () => readonly NotReady[] = () => [];
  #draining = false;

  constructor(options: ReadinessOptions) {
    this.#options = options;
    this.#startedAt = options.clock.monotonic();
  }

  get starting(): boolean {
    const { clock, startupGraceMs } = this.#options;
    return clock.monotonic() - this.#startedAt < startupGraceMs;
  }

  /** The stop has begun. */
  drain(): void {
    this.#draining = true;
  }

  /** Something that holds for as long as this process runs. */
  warn(warning: HealthWarning): void {
    this.#lasting.push(warning);
  }

  /** Somebody who may have something to tell whenever health is asked for. */
  ask(source: { warnings(): readonly HealthWarning[] }): void {
    this.#sources.push(source);
  }

  /** Whoever knows whether all calls are refused at the moment, and why; asked whenever somebody wants to know. */
  judgeBy(whyAllIsRefused: () => readonly NotReady[]): void {
    this.#whyAllIsRefused = whyAllIsRefused;
  }

  /** Why nothing should be sent here; empty: it is ready. The gravest first. */
  reasons(): readonly NotReady[] {
    return [
      ...(this.#draining ? (['draining'] as const) : []),
      ...(this.#options.store.writable ? [] : (['record_store_unavailable'] as const)),
      ...this.#whyAllIsRefused(),
      ...(this.starting ? (['starting'] as const) : []),
    ];
  }

  warnings(): readonly HealthWarning[] {
    return [
      ...(this.#options.store.writable || this.#draining ? [] : [STORE_UNAVAILABLE]),
      ...this.#lasting,
      ...(this.#options.certificate?.warnings() ?? []),
      ...this.#sources.flatMap((source) => source.warnings()),
    ];
  }
}

/** Who knows whether every call is refused at the moment. */
interface Judges {
  readonly policies: Pick<PolicyService, 'current'>;
  readonly orgs: Pick<OrgService, 'status'>;
  /** Undefined without a control plane. */
  readonly link: { readonly barsAll: boolean } | undefined;
}

/**
 * Why every call would be refused, whatever it is (decision 12.2): policy lets nothing through, or the gateway's org is
 * not served. Without `GW_ORG_ID` what one org has laid down says nothing of the others.
 */
export function whyAllIsRefused(
  { orgId, approvalEnabled, covers }: Pick<Config, 'orgId' | 'approvalEnabled'> & Pick<PassageOptions, 'covers'>,
  { policies, orgs, link }: Judges,
): readonly NotReady[] {
  const reasons: NotReady[] = [];
  const { policy, bundle_id: bundleId, source } = policies.current(orgId);
  if (refusesAll(policy, { asksPeople: approvalEnabled, covers }))
    reasons.push(source === 'control_plane' && bundleId === NO_BUNDLE.file ? 'no_bundle' : 'policy_denies_all');
  const status = orgId === undefined ? 'active' : orgs.status(orgId).status;
  if (status !== 'active') reasons.push(`org_${status}`);
  if (link?.barsAll === true) reasons.push('control_plane_unreachable');
  return reasons;
}
