import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { loadCatalogue } from '../base/catalogue/catalogue.ts';
import { canonicalConnectorId } from '../base/catalogue/connector-id.ts';
import type { Catalogue } from '../base/catalogue/types.ts';
import type { Config } from '../base/config/config.ts';
import { type Clock, systemClock } from '../base/lib/clock.ts';
import { createLogger, type Logger } from '../base/lib/log.ts';
import type { BudgetAlert } from '../base/model/budget-limit.ts';
import { type CertificateAuthority, openCertificateAuthority } from '../inbound/ca/certificate-authority.ts';
import { createUpstream } from '../outbound/net/create-upstream.ts';
import type { Upstream } from '../outbound/net/upstream.ts';
import { recoverIntents } from '../pipeline/intent.ts';
import { BudgetService } from '../services/budgets.ts';
import { Discovery } from '../services/discovery.ts';
import { MonthlyRequests } from '../services/monthly-requests.ts';
import { PolicyService } from '../services/policies.ts';
import { type RateLimitConfig, RateLimitService } from '../services/rate-limits.ts';
import { WorkloadService } from '../services/workloads.ts';
import type { Store } from '../storage/contract/store.ts';
import { openEmbeddedStore } from '../storage/embedded/open-embedded-store.ts';
import { type AdminToken, openAdminToken } from './secrets.ts';

/** What tests put in the place of the real thing. */
export interface Replacements {
  readonly clock?: Clock;
  readonly log?: Logger;
  /** Stands before the store that was opened. */
  readonly store?: (opened: Store) => Store;
}

/** Everything that is opened before the ports are. */
export interface Resources {
  readonly clock: Clock;
  readonly log: Logger;
  readonly adminToken: AdminToken;
  readonly store: Store;
  /** Undefined when interception is off. */
  readonly ca: CertificateAuthority | undefined;
  readonly catalogue: Catalogue;
  readonly policies: PolicyService;
  readonly workloads: WorkloadService;
  readonly rateLimits: RateLimitService;
  /** Undefined when `GW_DISCOVERY_ENABLED=false`. */
  readonly discovery: Discovery | undefined;
  readonly monthlyRequests: MonthlyRequests;
  readonly budgets: BudgetService;
  /** Called for each budget that reaches a threshold. */
  readonly budgetAlerts: ((alert: BudgetAlert) => void)[];
  readonly upstream: Upstream;
  /** Never dialled; the ports are added when they are known. */
  readonly ownAddresses: { address: string; port: number }[];
}

/** Opens them in order; what is to be closed again is pushed to `closers` as it is opened. */
export async function openResources(config: Config, replacements: Replacements, closers: (() => Promise<void>)[]): Promise<Resources> {
  const clock = replacements.clock ?? systemClock;
  const log = replacements.log ?? createLogger({ level: config.logLevel, format: config.logFormat });
  const adminToken = await openAdminToken(config.dataDir, config.adminToken);
  const opened = await openEmbeddedStore({ dir: join(config.dataDir, 'store'), fsync: config.recordFsync, clock, log });
  closers.push(() => opened.close());
  const store = replacements.store?.(opened) ?? opened;
  const ca = config.proxyMitmEnabled ? await openCertificateAuthority({ dir: config.caDir, clock, log }) : undefined;
  const catalogue = loadCatalogue();
  const connectorId = (text: string) => canonicalConnectorId(catalogue, text);
  const policies = await PolicyService.open({ dir: config.policiesDir, tier: config.planTier, store, clock, log, connectorId });
  const workloads = await WorkloadService.open(store);
  const rateLimits = await RateLimitService.open({ store, clock, initial: rateLimitConfig(config) });
  const discovery = config.discoveryEnabled ? await Discovery.open({ store, clock, log, catalogue }) : undefined;
  if (discovery) closers.push(() => discovery.close());
  const plan = { limit: config.monthlyRequestLimit, overage: config.overageEnabled };
  const monthlyRequests = await MonthlyRequests.open({ store, clock, plan });
  await recoverIntents(store, clock, log);
  const budgetAlerts: Resources['budgetAlerts'] = [];
  const alert = (reached: BudgetAlert) => budgetAlerts.forEach((listener) => listener(reached));
  const budgets = await BudgetService.open({ store, clock, alert });
  const ownAddresses: Resources['ownAddresses'] = [];
  const upstream = createUpstream({
    clock,
    connectTo: config.upstreamConnectTo.map(({ from, to }) => ({ host: from.host, port: from.port, toHost: to.host, toPort: to.port })),
    ...(config.upstreamCaFile === undefined ? {} : { caFile: await readFile(config.upstreamCaFile, 'utf8') }),
    ...(config.upstreamProxy === undefined ? {} : { parentProxy: config.upstreamProxy }),
    egressAllow: config.egressAllow,
    headersTimeoutMs: config.upstreamHeadersTimeout,
    idleTimeoutMs: config.upstreamIdleTimeout,
    ownAddresses: () => ownAddresses,
    isAiHost: (host) => catalogue.providerForHost(host) !== undefined,
  });
  closers.push(() => upstream.close());
  return {
    clock,
    log,
    adminToken,
    store,
    ca,
    catalogue,
    policies,
    workloads,
    rateLimits,
    monthlyRequests,
    budgets,
    budgetAlerts,
    discovery,
    upstream,
    ownAddresses,
  };
}

function rateLimitConfig(config: Config): RateLimitConfig {
  const { ratelimitRefillRate, ratelimitMaxTokens, ratelimitWindow } = config;
  return { refill_rate: ratelimitRefillRate, max_tokens: ratelimitMaxTokens, window_duration: ratelimitWindow };
}
