import type { CatalogueInForce } from '../base/catalogue/catalogue-in-force.ts';
import { canonicalConnectorId } from '../base/catalogue/connector-id.ts';
import type { Config } from '../base/config/config.ts';
import { environmentSecret } from '../base/config/environment.ts';
import type { EventBus } from '../base/events/bus.ts';
import type { Destination } from '../base/events/destination.ts';
import type { Clock } from '../base/lib/clock.ts';
import type { Logger } from '../base/lib/log.ts';
import type { SecretBox } from '../base/lib/secret-box.ts';
import { AlertService } from '../services/alerts/alert-service.ts';
import { ApiKeyService } from '../services/api-keys.ts';
import { ApprovalService } from '../services/approvals.ts';
import { AuditTrail } from '../services/audit-trail.ts';
import { BudgetService } from '../services/budgets.ts';
import type { ClockWatch } from '../services/clock-watch.ts';
import { CredentialService } from '../services/credentials.ts';
import { CustomConnectorService } from '../services/custom-connectors.ts';
import { DeferredUsage } from '../services/deferred-usage.ts';
import { DelegationService } from '../services/delegations.ts';
import { Discovery } from '../services/discovery.ts';
import { ExportService } from '../services/exports/export-service.ts';
import { IdempotencyService } from '../services/idempotency.ts';
import { Intents } from '../services/intents.ts';
import type { LanguageOptions } from '../services/load-policy.ts';
import { ManagementKeyService } from '../services/management-keys.ts';
import { MonthlyRequestService } from '../services/monthly-requests.ts';
import { NodeRegister } from '../services/node-register.ts';
import { OrgService } from '../services/orgs.ts';
import { Outbox } from '../services/outbox.ts';
import { PolicyService } from '../services/policies.ts';
import { PolicyPresets } from '../services/policy-presets.ts';
import { ProjectService } from '../services/projects.ts';
import { QuarantineService } from '../services/quarantines.ts';
import { type RateLimitConfig, RateLimitService } from '../services/rate-limits.ts';
import { RecordCounters } from '../services/record-counters.ts';
import { riskSettings } from '../services/risk-settings.ts';
import { RiskService } from '../services/risks.ts';
import { RunningCalls } from '../services/running-calls.ts';
import { WorkloadService } from '../services/workloads.ts';
import type { Store } from '../storage/contract/store.ts';
import { countAgain } from './count-again.ts';
import { fileContext, loadCredentialFiles } from './credential-files.ts';
import type { WaysOut } from './ways-out.ts';

/** Nothing but a control plane says otherwise of a node (decision 11.3). */
const INHERITS = true;

/** What services stand on. */
export interface Ground {
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: EventBus;
  readonly store: Store;
  readonly catalogues: CatalogueInForce;
  /** Encrypts what is secret at rest. */
  readonly box: SecretBox;
  readonly clockWatch: ClockWatch;
  /** Where durable events go, beside channels and destinations that people have made. */
  readonly destinations: readonly Destination[];
  readonly waysOut: WaysOut;
}

/** The stateful verbs of the gateway, opened on one store. */
export interface Services {
  readonly audit: AuditTrail;
  readonly nodes: NodeRegister;
  readonly policies: PolicyService;
  /** Rules that are ready to be switched on. */
  readonly presets: PolicyPresets;
  readonly workloads: WorkloadService;
  readonly orgs: OrgService;
  readonly projects: ProjectService;
  readonly apiKeys: ApiKeyService;
  readonly managementKeys: ManagementKeyService;
  readonly rateLimits: RateLimitService;
  readonly monthlyRequests: MonthlyRequestService;
  readonly credentials: CredentialService;
  readonly customConnectors: CustomConnectorService;
  readonly budgets: BudgetService;
  readonly counters: RecordCounters;
  readonly outbox: Outbox;
  readonly alerts: AlertService;
  readonly exports: ExportService;
  /** Also where none can be asked for: those that there are stay to be read. */
  readonly approvals: ApprovalService;
  readonly quarantines: QuarantineService;
  readonly delegations: DelegationService;
  readonly risks: RiskService;
  readonly running: RunningCalls;
  readonly deferred: DeferredUsage;
  readonly idempotency: IdempotencyService;
  readonly intents: Intents;
  /** What every bundle of this gateway is compiled with. */
  readonly language: LanguageOptions;
  /** Undefined when `GW_DISCOVERY_ENABLED=false`. */
  readonly discovery: Discovery | undefined;
}

/** Opens them in order; what is to be closed again is pushed to `closers` as it is opened. */
export async function openServices(config: Config, ground: Ground, closers: (() => Promise<void>)[]): Promise<Services> {
  const { clock, log, events, store, catalogues, box, clockWatch } = ground;
  const mayExpire = (): boolean => clockWatch.mayExpire;
  const language: LanguageOptions = { tier: config.planTier, connectorId: (text) => canonicalConnectorId(catalogues.current(), text) };
  const counters = await RecordCounters.open(store, clock);
  await countAgain(store, counters, log);
  const customConnectors = await openConnectors(config, ground, () => credentials);
  const presets = new PolicyPresets();
  const policies = await openPolicies(config, ground, presets, language);
  const workloads = await WorkloadService.open(store);
  const orgs = await OrgService.open(store);
  const projects = await ProjectService.open(store, clock);
  const apiKeys = await ApiKeyService.open({ store, clock, events });
  const managementKeys = await ManagementKeyService.open({ store, clock });
  const rateLimits = await RateLimitService.open({ store, clock, initial: rateLimitConfig(config) });
  const credentials = await CredentialService.open({ store, box, clock, log, nodeId: config.nodeId, environment: environmentSecret });
  await loadCredentialFiles(config.credentialsDir, credentials, fileContext(catalogues, customConnectors), log);
  const plan = { limit: config.monthlyRequestLimit, overage: config.overageEnabled };
  const monthlyRequests = await MonthlyRequestService.open({ store, clock, plan, moments: clockWatch.moments });
  // Before the sums of the budgets are read: what was under way when the gateway last ended is spent.
  // The embedded store is open in one process at a time.
  const intents = await Intents.open({ store, clock, log, counters, owner: config.nodeId, isShared: false });
  closers.push(() => intents.close());
  const outbox = await Outbox.open({ store, clock, log, writer: config.nodeId, destinations: ground.destinations, mayExpire });
  closers.push(() => outbox.close());
  const alerts = await AlertService.open({ store, clock, log, box, outbox, ...ground.waysOut });
  closers.push(() => Promise.resolve(alerts.close()));
  const exported = { store, clock, log, box, outbox, events, nodeId: config.nodeId, inherits: INHERITS, ...ground.waysOut };
  const exports = await ExportService.open(exported);
  closers.push(() => exports.close());
  const quarantines = await QuarantineService.open({ store, clock, log, events, outbox });
  const delegations = await DelegationService.open({ store, clock, events, keys: config.delegationVerifyKey });
  const approvals = await openApprovals(config, ground, outbox);
  closers.push(() => Promise.resolve(approvals.close()));
  const risks = openRisks(config, ground, outbox);
  closers.push(() => risks.close());
  const budgets = await BudgetService.open({ store, clock, events, outbox, moments: clockWatch.moments });
  const cachedRates = config.pricingCached;
  const deferred = await DeferredUsage.open({ store, clock, budgets, counters, events, log, cachedRates, mayExpire });
  closers.push(() => deferred.close());
  const discovery = config.discoveryEnabled ? await Discovery.open({ store, clock, log, catalogues }) : undefined;
  if (discovery) closers.push(() => discovery.close());
  const idempotency = new IdempotencyService({ store, clock, log, box, mayExpire });
  closers.push(() => idempotency.close());
  return {
    audit: new AuditTrail({ store, clock, events, outbox }),
    nodes: await NodeRegister.open(store, clock, config.nodeId),
    policies,
    presets,
    language,
    workloads,
    orgs,
    projects,
    apiKeys,
    managementKeys,
    rateLimits,
    credentials,
    customConnectors,
    monthlyRequests,
    budgets,
    counters,
    outbox,
    alerts,
    exports,
    approvals,
    quarantines,
    delegations,
    risks,
    running: new RunningCalls(quarantines, events, config.quarantineRunning === 'end'),
    deferred,
    idempotency,
    intents,
    discovery,
  };
}

function openPolicies(config: Config, ground: Ground, presets: PolicyPresets, language: LanguageOptions): Promise<PolicyService> {
  const { store, clock, log, events } = ground;
  // No setting starts control-plane mode yet (later-settings.ts).
  const place = { dir: config.policiesDir, nodeId: config.nodeId, presets, managedRemotely: false };
  return PolicyService.open({ ...place, store, clock, log, events, ...language });
}

/** @param credentials asked when one is changed: they are opened later */
function openConnectors(config: Config, ground: Ground, credentials: () => CredentialService): Promise<CustomConnectorService> {
  const { store, clock, log, catalogues } = ground;
  const hasCredential = (id: string): boolean =>
    credentials()
      .list()
      .some(({ connector_id: known }) => known === id);
  return CustomConnectorService.open({ store, clock, log, catalogues, egressAllow: config.egressAllow, hasCredential });
}

function rateLimitConfig(config: Config): RateLimitConfig {
  const { ratelimitRefillRate, ratelimitMaxTokens, ratelimitWindow } = config;
  return { refill_rate: ratelimitRefillRate, max_tokens: ratelimitMaxTokens, window_duration: ratelimitWindow };
}

function openApprovals(config: Config, { store, clock, log, events, box }: Ground, outbox: Outbox): Promise<ApprovalService> {
  const { approvalTtl: ttlMs, approvalRejectFor: rejectForMs, approvalKeepContent: keepContent } = config;
  return ApprovalService.open({ store, clock, log, events, outbox, box, ttlMs, rejectForMs, keepContent });
}

function openRisks(config: Config, { store, clock, log, events }: Ground, outbox: Outbox): RiskService {
  const { riskAlertThreshold: alertAt, riskMaxCallers: maxCallers, riskEnabled: enabled } = config;
  return new RiskService({ store, clock, log, events, outbox, settings: riskSettings(config), alertAt, maxCallers, enabled });
}
