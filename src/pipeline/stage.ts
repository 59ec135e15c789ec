import type { Catalogue } from '../base/catalogue/types.ts';
import type { GatewayEvents } from '../base/events/execution-event.ts';
import type { Clock } from '../base/lib/clock.ts';
import type { IpSet } from '../base/lib/ip.ts';
import type { Logger } from '../base/lib/log.ts';
import type { ActionTypeMap } from '../decide/routing/route.ts';
import type { Upstream } from '../outbound/net/upstream.ts';
import type { BudgetService } from '../services/budgets.ts';
import type { CredentialService } from '../services/credentials.ts';
import type { IdempotencyService } from '../services/idempotency.ts';
import type { MonthlyRequests } from '../services/monthly-requests.ts';
import type { PolicyService } from '../services/policies.ts';
import type { RateLimitService } from '../services/rate-limits.ts';
import type { ShadowPolicy } from '../services/shadow-policy.ts';
import type { WorkloadService } from '../services/workloads.ts';
import type { Store } from '../storage/contract/store.ts';
import type { BufferBudget } from './buffer-budget.ts';
import type { DeferredUsage } from './deferred-usage.ts';
import type { Exchange, Refusal } from './exchange.ts';
import type { LateRecords } from './late-records.ts';

export interface PipelineSettings {
  readonly nodeId: string;
  /** The gateway's org (decision 4.1); undefined in free mode. */
  readonly orgId: string | undefined;
  readonly maxBodyBytes: number;
  readonly proxyAuth: 'optional' | 'required';
  readonly adminToken: string;
  readonly trustedProxies: IpSet;
  /** Connectors whose callers' own Authorization goes ahead of a stored credential. */
  readonly oauthPassthrough: ReadonlySet<string>;
  /** Connectors that take the structured calls of an action type. */
  readonly actionTypes: ActionTypeMap;
  /** Cached input tokens have their own rate (decision 6.3). */
  readonly pricingCached: boolean;
  /** Which streams are asked for the usage that they report on request only: those that a cap or a budget limit watches, all, or none (decision 6.4). */
  readonly injectUsage: 'capped' | 'true' | 'false';
  /** Streams end where they would pass a cap. */
  readonly stopAtCap: boolean;
}

/** The services that stages ask. */
export interface CallServices {
  readonly policies: PolicyService;
  readonly workloads: WorkloadService;
  readonly rateLimits: RateLimitService;
  readonly monthlyRequests: MonthlyRequests;
  readonly credentials: CredentialService;
  readonly budgets: BudgetService;
  readonly deferred: DeferredUsage;
  readonly idempotency: IdempotencyService;
}

/** What stages stand on. */
export interface Pipeline extends CallServices {
  readonly settings: PipelineSettings;
  readonly clock: Clock;
  readonly log: Logger;
  readonly catalogue: Catalogue;
  /** Undefined when there is no second bundle. */
  readonly shadow: ShadowPolicy | undefined;
  readonly store: Store;
  readonly lateRecords: LateRecords;
  readonly upstream: Upstream;
  readonly buffers: BufferBudget;
  readonly events: GatewayEvents;
}

/** The stage has answered by itself and the call leaves no record of its own: it repeats one that did. */
export const ANSWERED = Symbol('answered');

/** Undefined: go on. A refusal ends the line and is recorded; a thrown GatewayError ends it too (the runner knows which codes are recorded). */
export type StageResult = Refusal | typeof ANSWERED | undefined;

export interface Stage {
  readonly name: string;
  run(exchange: Exchange, pipeline: Pipeline): StageResult | Promise<StageResult>;
}
