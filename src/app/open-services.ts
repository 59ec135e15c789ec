import type { Config } from '../base/config/config.ts';
import type { Approval } from '../base/model/approval.ts';
import { Discovery } from '../services/learning/discovery.ts';
import { riskSettings } from '../services/learning/risk-settings.ts';
import { RiskService } from '../services/learning/risks.ts';
import { StrangerRecords } from '../services/learning/stranger-records.ts';
import type { Allowance } from '../services/money/allowance.ts';
import { BudgetService } from '../services/money/budgets.ts';
import { DeferredUsage } from '../services/money/deferred-usage.ts';
import { IdempotencyService } from '../services/money/idempotency.ts';
import { Intents } from '../services/money/intents.ts';
import { MemoryAllowance } from '../services/money/memory-allowance.ts';
import { MonthlyRequestService } from '../services/money/monthly-requests.ts';
import { NodeCaps } from '../services/money/node-caps.ts';
import type { RateLimitConfig } from '../services/money/rate-limit-configs.ts';
import { RateLimitService } from '../services/money/rate-limits.ts';
import { AuditTrail } from '../services/orgs/audit-trail.ts';
import { HELD_OF_ORGS } from '../services/orgs/held-of-orgs.ts';
import { KnownOrgs } from '../services/orgs/known-orgs.ts';
import { OrgHoldings } from '../services/orgs/org-holdings.ts';
import { DelegationService } from '../services/people/delegations.ts';
import type { LaidDown } from '../services/registers/sharers.ts';
import { RecordCounters } from '../services/reports/record-counters.ts';
import { ApprovalService } from '../services/review/approvals.ts';
import { QuarantineService } from '../services/review/quarantines.ts';
import { RunningCalls } from '../services/review/running-calls.ts';
import { StopService } from '../services/review/stops.ts';
import { AlertService } from '../services/sending/alerts/alert-service.ts';
import { ExportService, inheritanceOf } from '../services/sending/exports/export-service.ts';
import { Outbox } from '../services/sending/outbox.ts';
import { UsageTelemetry } from '../services/sending/telemetry/usage-telemetry.ts';
import { countAgain } from './count-again.ts';
import type { Ground } from './ground.ts';
import { openPrices, type Prices } from './open-prices.ts';
import { openRegisters, type Registers } from './open-registers.ts';

/** The stateful verbs of the gateway, opened on one store. */
export interface Services extends Registers {
  readonly audit: AuditTrail;
  readonly prices: Prices;
  readonly rateLimits: RateLimitService;
  readonly budgets: BudgetService;
  readonly allowance: Allowance;
  /** What this node holds of caps that nodes share; undefined where there is one node. */
  readonly caps: NodeCaps | undefined;
  readonly counters: RecordCounters;
  readonly strangers: StrangerRecords;
  readonly knownOrgs: KnownOrgs;
  readonly outbox: Outbox;
  readonly alerts: AlertService;
  readonly exports: ExportService;
  /** Also where none can be asked for: those that there are stay to be read. */
  readonly approvals: ApprovalService;
  readonly quarantines: QuarantineService;
  readonly delegations: DelegationService;
  readonly risks: RiskService;
  readonly stops: StopService;
  readonly running: RunningCalls;
  readonly deferred: DeferredUsage;
  readonly idempotency: IdempotencyService;
  readonly intents: Intents;
  /** Undefined when `GW_DISCOVERY_ENABLED=false`. */
  readonly discovery: Discovery | undefined;
  readonly telemetry: UsageTelemetry;
}

/** Opens them in order; what is to be closed again is pushed to `closers` as it is opened. */
export async function openServices(config: Config, ground: Ground, closers: (() => Promise<void>)[]): Promise<Services> {
  const { clock, log, events, store, catalogues, box, clockWatch, leases, writer } = ground;
  const mayExpire = (): boolean => clockWatch.mayExpire;
  const registers = await openRegisters(config, ground);
  const ownOrg = config.orgId ?? 'default';
  const knownOrgs = await KnownOrgs.open(store, ownOrg);
  const known: LaidDown = { org: (id) => knownOrgs.has(id), workload: (orgId, id) => registers.workloads.get(orgId, id) !== undefined };
  const counters = await openCounters(ground, known);
  const rateLimits = await RateLimitService.open({ store, clock, initial: rateLimitConfig(config), ownOrg, knownOrg: known.org });
  const { moments } = clockWatch;
  const caps = ground.cluster && new NodeCaps({ ledger: ground.cluster, clock, log });
  const months = await MonthlyRequestService.open({ store, clock, plans: registers.orgPlans, moments, knownOrg: known.org, caps });
  // Before the sums of the budgets are read: what was under way when the gateway last ended is spent.
  const intents = await Intents.open({ store, clock, log, counters, leases });
  closers.push(() => intents.close());
  const { destinations } = ground;
  const outbox = await Outbox.open({ store, clock, log, writer, destinations, mayExpire, knownOrg: known.org });
  closers.push(() => outbox.close());
  const holdings = await OrgHoldings.open(store, HELD_OF_ORGS);
  const audit = new AuditTrail({ store, clock, events, outbox, holdings });
  tellPolicies(config, registers, audit);
  const prices = await openPrices(config, ground, audit, closers, known.org);
  let opened: Pick<Services, 'approvals'> | undefined;
  // Asked when something is delivered, which begins when all is open.
  const approval = async (id: string): Promise<Approval | undefined> => opened?.approvals.show(id, undefined);
  const alerts = await AlertService.open({ store, clock, log, box, outbox, approval, ...ground.waysOut });
  closers.push(() => alerts.close());
  // Nothing but a control plane says otherwise of a node (decision 11.3).
  const inherits = config.cpAddr === undefined || (await inheritanceOf(store, config.nodeId));
  const exported = { store, clock, log, box, outbox, events, nodeId: config.nodeId, inherits, ...ground.waysOut };
  const exports = await ExportService.open(exported);
  closers.push(() => exports.close());
  await registers.former?.leaveExports(exports);
  const controls = await openControls(config, ground, { outbox, known }, closers);
  opened = controls;
  const money = await openMoney(config, ground, { rateLimits, months, counters, outbox, known, caps }, closers);
  const { workloads } = registers;
  const discovery = config.discoveryEnabled ? await Discovery.open({ store, clock, log, catalogues, workloads, ownOrg }) : undefined;
  if (discovery) closers.push(() => discovery.close());
  const telemetry = openTelemetry(config, ground);
  closers.push(() => telemetry.close());
  const idempotency = await IdempotencyService.open({ store, clock, log, box, mayExpire, known });
  closers.push(() => idempotency.close());
  return {
    ...registers,
    audit,
    prices,
    rateLimits,
    ...money,
    counters,
    strangers: openStrangers(config, ground, { counters, known }, closers),
    knownOrgs,
    outbox,
    alerts,
    exports,
    ...controls,
    running: new RunningCalls({ ...controls, events, endsHeld: config.quarantineRunning === 'end' }),
    idempotency,
    intents,
    discovery,
    telemetry,
  };
}

type Money = Pick<Services, 'caps' | 'budgets' | 'allowance' | 'deferred'>;

/** What calls cost, and what of that caps let through. */
async function openMoney(
  config: Config,
  ground: Ground,
  { rateLimits, months, counters, outbox, known, caps }: Pick<Services, 'rateLimits' | 'counters' | 'outbox' | 'caps'> & MoneyGround,
  closers: (() => Promise<void>)[],
): Promise<Money> {
  const { store, clock, log, events, catalogues, clockWatch, leases } = ground;
  const { moments } = clockWatch;
  const mayExpire = (): boolean => clockWatch.mayExpire;
  const budgets = await BudgetService.open({ store, clock, events, outbox, moments, caps });
  const goesOn = (): boolean => config.redisDownPolicy === 'allow';
  const memory = new MemoryAllowance({ rates: rateLimits, months, budgets, goesOn });
  const allowance = ground.allowance?.(memory) ?? memory;
  const charged = { store, clock, allowance, counters, events, log, cachedRates: config.pricingCached, catalogues, mayExpire };
  const deferred = await DeferredUsage.open({ ...charged, leases, knownOrg: known.org });
  closers.push(() => deferred.close());
  if (caps) closers.push(() => caps.close());
  // What an earlier life of this node has set aside is recorded, or set aside again, by now.
  caps?.start();
  return { caps, budgets, allowance, deferred };
}

interface MoneyGround {
  readonly months: MonthlyRequestService;
  readonly known: LaidDown;
}

/** Bundles that nobody asks for by an operation have their entries, too: the gateway itself changes them. */
function tellPolicies({ nodeId }: Config, { policies, remotePolicies }: Registers, audit: AuditTrail): void {
  const byItself = (operation: string) => audit.commitFor({ principal: { kind: 'node', id: nodeId }, operation, from: '127.0.0.1' });
  policies.followBy(byItself('policies.reload'));
  remotePolicies?.policy.takeBy(byItself('policies.fetch'));
}

type Controls = Pick<Services, 'approvals' | 'delegations' | 'quarantines' | 'stops' | 'risks'>;

/** What holds calls up. */
async function openControls(
  config: Config,
  ground: Ground,
  { outbox, known }: { readonly outbox: Outbox; readonly known: LaidDown },
  closers: (() => Promise<void>)[],
): Promise<Controls> {
  const { store, clock, log, events } = ground;
  const quarantines = await QuarantineService.open({ store, clock, log, events, outbox, known });
  const stops = await StopService.open({ store, clock, events });
  closers.push(() => Promise.resolve(stops.close()));
  const delegations = await DelegationService.open({ store, clock, events, keys: config.delegationVerifyKey });
  const approvals = await openApprovals(config, ground, outbox, known);
  closers.push(() => approvals.close());
  const risks = openRisks(config, ground, outbox, known);
  closers.push(() => risks.close());
  return { approvals, quarantines, stops, delegations, risks };
}

/** What records add to, with what an older version has not counted. */
async function openCounters({ store, clock, log, catalogues }: Ground, known: LaidDown): Promise<RecordCounters> {
  const model = (provider: string, name: string): boolean => catalogues.shipped().spellsOutModel(provider, name);
  const counters = await RecordCounters.open(store, clock, { ...known, model });
  await countAgain(store, counters, log);
  return counters;
}

function openStrangers(
  { nodeId, strangerRecords: rate }: Config,
  { store, clock, log, events }: Ground,
  { counters, known }: Pick<Services, 'counters'> & { readonly known: LaidDown },
  closers: (() => Promise<void>)[],
): StrangerRecords {
  const strangers = new StrangerRecords({ store, clock, log, events, counters, nodeId, rate, known });
  // Before those who hear of records.
  closers.push(() => strangers.close());
  return strangers;
}

function rateLimitConfig(config: Config): RateLimitConfig {
  const { ratelimitRefillRate, ratelimitMaxTokens, ratelimitWindow } = config;
  return { refill_rate: ratelimitRefillRate, max_tokens: ratelimitMaxTokens, window_duration: ratelimitWindow };
}

/** Of all buffers, what calls may hold that wait for a person. */
const HELD_SHARE = 0.25;

function openApprovals(
  config: Config,
  { store, clock, log, events, box, writer }: Ground,
  outbox: Outbox,
  known: LaidDown,
): Promise<ApprovalService> {
  const { approvalTtl: ttlMs, approvalRejectFor: rejectForMs, approvalHold: holdMs, approvalKeepContent: keepContent } = config;
  const maxHeldBytes = Math.floor(config.maxBufferedBytes * HELD_SHARE);
  const ground = { store, clock, log, events, outbox, box, known, writer };
  return ApprovalService.open({ ...ground, ttlMs, rejectForMs, holdMs, keepContent, maxHeldBytes });
}

function openRisks(config: Config, { store, clock, log, events }: Ground, outbox: Outbox, known: LaidDown): RiskService {
  const { riskAlertThreshold: alertAt, riskMaxCallers: maxCallers, riskEnabled: enabled } = config;
  const ground = { store, clock, log, events, outbox, known };
  return new RiskService({ ...ground, settings: riskSettings(config), alertAt, maxCallers, enabled });
}

function openTelemetry({ nodeId }: Config, { store, clock, log, events, catalogues, waysOut }: Ground): UsageTelemetry {
  return new UsageTelemetry({ store, clock, log, events, nodeId, catalogue: () => catalogues.shipped(), state: waysOut.telemetry });
}
