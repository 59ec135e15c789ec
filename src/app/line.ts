import { actionTypeConnectors, canonicalConnectorId } from '../base/catalogue/connector-id.ts';
import type { Config } from '../base/config/config.ts';
import type { Listeners } from '../base/events/bus.ts';
import type { ArrivalHead } from '../base/model/arrival.ts';
import { PortIssuer } from '../inbound/ca/port-issuer.ts';
import type { Listener } from '../inbound/listener/listener.ts';
import { callerIp } from '../inbound/normalise/identity.ts';
import { namesOf } from '../operations/policy-operations.ts';
import type { OperationServices, OrgBudgetConfig } from '../operations/services.ts';
import { BufferBudget } from '../pipeline/body/buffer-budget.ts';
import { runDirect } from '../pipeline/enter.ts';
import type { LineGround, PipelineSettings } from '../pipeline/parts/call-services.ts';
import { ConnectorHealth } from '../services/learning/connector-health.ts';
import { PinnedHosts } from '../services/learning/pinned-hosts.ts';
import { LateRecords } from '../services/money/late-records.ts';
import { Authenticator } from '../services/people/authenticator.ts';
import type { ConsoleDoor } from '../services/people/console-door.ts';
import type { CredentialChange } from '../services/people/credentials.ts';
import { WrongKeys } from '../services/people/wrong-keys.ts';
import { ShadowPolicy } from '../services/policy/shadow-policy.ts';
import { UsageReports } from '../services/reports/usage-reports.ts';
import type { Route } from '../surfaces/http/route.ts';
import { Router, type RouterOptions } from '../surfaces/http/router.ts';
import { WorkUnderWay } from '../surfaces/http/work-under-way.ts';
import { createMetrics, type Metrics } from '../surfaces/metrics/metrics.ts';
import { controlLog } from './control-log.ts';
import { credentialContext, fileContext, loadCredentialFiles, readCredentialFiles } from './credential-files.ts';
import { executionLog, stageLog } from './execution-log.ts';
import { consoleDoor, consoleServices } from './open-console.ts';
import { refusalLog } from './refusal-log.ts';
import type { Resources } from './resources.ts';
import { gatewayRoutes, type PortRoutes, type RouteParts } from './routes.ts';

/** Of an org of which no control plane has said anything else, on a gateway that counts by itself (decision 6.14). */
const ALONE: OrgBudgetConfig = {
  cp_down_policy: 'permissive',
  redis_down_policy: 'allow',
  grace_seconds: 300,
  grace_seconds_override: null,
  redis_status: 'unconfigured',
};

/** As the control plane has last said it (decision 13.8). */
function budgetConfig(link: Resources['link'], { databaseUrl, redisDownPolicy }: Config): OrgBudgetConfig {
  const org = link?.contact.org;
  if (org === undefined) return databaseUrl === undefined ? ALONE : { ...ALONE, redis_down_policy: redisDownPolicy };
  return {
    ...ALONE,
    cp_down_policy: org.cp_down_policy === 'strict' ? 'strict' : 'permissive',
    redis_down_policy: org.redis_down_policy === 'deny' ? 'deny' : 'allow',
    grace_seconds: org.grace_seconds,
  };
}

/** The request line and the gateway's own routes, with everything that listens to them. */
export interface Line {
  readonly pipeline: LineGround;
  readonly router: Router;
  /** Of the management port; undefined where the one router serves everything. */
  readonly managementRouter: Router | undefined;
  /** The second bundle; undefined when there is none. */
  readonly shadow: ShadowPolicy | undefined;
}

/** Wires the line from what was opened. `ports` is asked when metrics are read. */
export function createLine(config: Config, resources: Resources, ports: () => Listener | undefined): Line {
  const { clock, log, events, catalogues, policies, workloads, store, discovery } = resources;
  const buffers = new BufferBudget(config.maxBufferedBytes, clock);
  const metrics = metricsOf(config, resources, buffers, ports);
  const health = new ConnectorHealth(catalogues, config.orgId ?? 'default');
  const pinned = new PinnedHosts({ clock, log });
  attachListeners(config, resources, [metrics.events, health.events, pinned.events]);
  const shadow = shadowOf(config, resources);
  const askedFrom = (head: ArrivalHead): string => callerIp(head, config.trustedProxies);
  const wrongKeys = new WrongKeys(clock);
  const door = consoleDoor(config, resources);
  const authenticator = authenticatorOf(config, resources, { askedFrom, wrongKeys, door });
  const pipeline = lineGround(config, resources, { authenticator, shadow, buffers });
  const routes = gatewayRoutes(
    {
      runDirect: (arrival) => void runDirect(arrival, pipeline),
      store,
      audit: resources.audit,
      prices: { ...resources.prices, catalogues, clock },
      ...remoteRoutes(config, resources),
      nodes: resources.nodes,
      policies,
      shadow,
      workloads,
      projects: { service: resources.projects, clock },
      rateLimits: resources.rateLimits,
      ...moneyRoutes(config, resources, health),
      alerts: resources.alerts,
      customConnectors: resources.customConnectors,
      addons: resources.addons,
      exports: resources.exports,
      telemetry: resources.telemetry,
      approvals: resources.approvals,
      console: consoleServices(config, resources.consoleSessions, { door, authenticator, wrongKeys }),
      chat: { users: resources.chatUsers, slackSecret: config.slackSigningSecret, place: resources.place, clock, events },
      quarantines: resources.quarantines,
      stops: resources.stops,
      delegations: resources.delegations,
      orgs: { service: resources.orgs, orgId: config.orgId },
      orgPlans: resources.orgPlans,
      apiKeys: { service: resources.apiKeys, clock, orgId: config.orgId },
      managementKeys: { service: resources.managementKeys, clock, orgId: config.orgId },
      reports: { reports: new UsageReports(store), clock, defaultOrg: config.orgId ?? 'default' },
      health: {
        nodeId: config.nodeId,
        readiness: resources.readiness,
        connectors: () => health.list(),
        bundle: () => namesOf(policies.current()),
        controlPlane: resources.link,
        cluster: resources.cluster,
      },
      trust: trustOf(config, resources),
      metrics: config.metricsEnabled ? metrics.routes : [],
      mcp: { clock, log },
      discovery,
    },
    config.mgmtPort !== undefined,
  );
  return { pipeline, shadow, ...routersOf(routes, { authenticator, log, events, callerIp: askedFrom }) };
}

/** Attaches all that count, log or export events, in the order in which they hear of each. */
function attachListeners({ logFormat }: Config, { clock, log, events, discovery, traces }: Resources, own: readonly Listeners[]): void {
  const logs = [executionLog(log, logFormat), controlLog(log), refusalLog(log, clock)];
  for (const listeners of [...logs, ...own, discovery?.events, traces?.exporter.events]) if (listeners) events.attach(listeners);
}

/** What serves the routes of each port. */
function routersOf({ main, management }: PortRoutes, ground: Omit<RouterOptions, 'routes'>): Pick<Line, 'router' | 'managementRouter'> {
  const underWay = new WorkUnderWay();
  const routerOf = (served: readonly Route[]): Router => new Router({ routes: served, underWay, ...ground });
  return { router: routerOf(main), managementRouter: management && routerOf(management) };
}

/** What the request line stands on. */
function lineGround(config: Config, resources: Resources, made: Pick<LineGround, 'authenticator' | 'shadow' | 'buffers'>): LineGround {
  const { clock, log, events, store, allowance, counters, intents } = resources;
  return {
    ...made,
    settings: settingsOf(config, resources),
    clock,
    log,
    events,
    store,
    allowance,
    counters,
    strangers: resources.strangers,
    intents,
    catalogues: resources.catalogues,
    policies: resources.policies,
    workloads: resources.workloads,
    orgs: resources.orgs,
    controlPlane: resources.link,
    projects: resources.projects,
    credentials: resources.credentials,
    idempotency: resources.idempotency,
    approvals: config.approvalEnabled ? resources.approvals : undefined,
    place: resources.place,
    delegations: resources.delegations,
    quarantines: resources.quarantines,
    risks: resources.risks,
    stops: resources.stops,
    running: resources.running,
    lateRecords: new LateRecords({ store, clock, allowance, counters, intents, events, log }),
    deferred: resources.deferred,
    upstream: resources.upstream,
    tracing: resources.traces?.tracer,
    lookers: config.proxyNonAi === 'inspect' ? resources.discovery : undefined,
    tellStage: stageLog(log),
  };
}

function metricsOf(config: Config, resources: Resources, buffers: BufferBudget, ports: () => Listener | undefined): Metrics {
  const {
    ca,
    catalogues,
    knownOrgs,
    deferred,
    discovery,
    clockWatch,
    retention,
    outbox,
    exports,
    approvals,
    quarantines,
    stops,
    traces,
    certificate,
    prices,
  } = resources;
  return createMetrics({
    orgId: config.orgId ?? 'default',
    knownOrg: (id) => knownOrgs.has(id),
    knownActionType: (type) => config.actionTypeConnectors.has(type),
    knownProvider: (id) => catalogues.current().provider(id) !== undefined,
    openTunnels: () => ports()?.openTunnels ?? 0,
    ports,
    maxTunnels: config.maxTunnels,
    bufferedBytes: () => buffers.used,
    maxBufferedBytes: config.maxBufferedBytes,
    rootExpiresAt: () => ca?.expiresAt,
    // Without a control plane nothing queues (decision 13.3).
    pendingHashSubmissions: () => resources.link?.submission.pending ?? 0,
    discoveredDomains: () => discovery?.size ?? 0,
    lookalikeDomains: () => discovery?.lookalikes ?? 0,
    domainKinds: () => discovery?.kinds(),
    deferredResponses: () => deferred.size,
    retentionHeld: () => !clockWatch.mayExpire,
    cluster: resources.cluster,
    caps: resources.caps,
    unremovedSegments: () => retention.unremoved,
    outbox,
    exportCounts: () => exports.counts.rows(),
    traceSpans: () => ({ ...traces?.exporter.counts }),
    exportDrops: () => exports.counts.drops(),
    exportLags: () => exports.lags(),
    approvals,
    quarantines,
    stops,
    certificate,
    link: resources.link,
    priceLists: prices.lists,
  });
}

function authenticatorOf(
  config: Config,
  { adminToken, apiKeys, managementKeys, workloads, events }: Resources,
  {
    askedFrom,
    wrongKeys,
    door,
  }: { readonly askedFrom: (head: ArrivalHead) => string; readonly wrongKeys: WrongKeys; readonly door: ConsoleDoor | undefined },
): Authenticator {
  return new Authenticator({
    adminToken: adminToken.value,
    metricsToken: config.metricsToken,
    apiKeys,
    managementKeys,
    wrongKeys,
    ...(door && { signedIn: door }),
    managed: config.managedMode,
    workloads,
    required: config.proxyAuth === 'required',
    orgId: config.orgId ?? 'default',
    events,
    callerIp: askedFrom,
  });
}

/** What is there where there is a control plane. */
function remoteRoutes(
  { cpAddr }: Config,
  { link, remotePolicies }: Resources,
): Pick<RouteParts, 'ledger' | 'managedRemotely' | 'remoteWrites' | 'policyCache'> {
  return {
    ledger: link?.proofs,
    managedRemotely: cpAddr !== undefined,
    remoteWrites: link?.writes,
    policyCache: remotePolicies?.policy,
  };
}

/** What the routes of budgets, credentials and connectors stand on. */
function moneyRoutes(
  config: Config,
  { clock, catalogues, budgets, credentials, customConnectors, log, link }: Resources,
  health: ConnectorHealth,
): Pick<RouteParts, 'budgets' | 'credentials' | 'connectors'> {
  const context = credentialContext(catalogues, customConnectors);
  const inFiles = fileContext(catalogues, customConnectors);
  const elsewhere = { check: (change: CredentialChange): void => credentials.check(change, false) };
  return {
    budgets: {
      service: budgets,
      clock,
      defaultOrg: config.orgId ?? 'default',
      canonicalProvider: (text) => canonicalConnectorId(catalogues.current(), text),
      config: () => budgetConfig(link, config),
    },
    credentials: {
      ...context,
      service: credentials,
      reload: (commit) => loadCredentialFiles(config.credentialsDir, credentials, inFiles, log, commit),
      inFiles: () => readCredentialFiles(config.credentialsDir, elsewhere, inFiles, log),
    },
    connectors: {
      catalogues,
      actionTypes: actionTypeConnectors(catalogues.shipped(), config.actionTypeConnectors),
      pricingCached: config.pricingCached,
      hasCredential: (id) => credentials.covers(id),
      lastError: (id) => health.lastError(id),
    },
  };
}

function settingsOf(config: Config, { adminToken, catalogues, oauthPassthrough }: Resources): PipelineSettings {
  // A setting holds for all orgs.
  const catalogue = catalogues.shipped();
  return {
    nodeId: config.nodeId,
    orgId: config.orgId,
    maxBodyBytes: config.maxBodyBytes,
    adminToken: adminToken.value,
    trustedProxies: config.trustedProxies,
    oauthPassthrough,
    actionTypes: actionTypeConnectors(catalogue, config.actionTypeConnectors),
    pricingCached: config.pricingCached,
    injectUsage: config.meterInjectUsage,
    stopAtCap: config.streamStopAtCap,
  };
}

function trustOf({ orgId }: Config, { ca, certificate, catalogues, readiness }: Resources): OperationServices['trust'] {
  const portIssuer = certificate && ca && new PortIssuer(certificate, ca);
  if (portIssuer) readiness.ask(portIssuer);
  return { ca, portIssuer, secureProxy: certificate !== undefined, catalogues, ownOrg: orgId ?? 'default' };
}

function shadowOf({ policiesShadow: path }: Config, { clock, log, events, language, policies }: Resources): ShadowPolicy | undefined {
  return path === undefined ? undefined : new ShadowPolicy({ ...language, tierNow: () => policies.tier, path, clock, log, events });
}
