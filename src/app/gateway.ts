import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { loadCatalogue } from '../base/catalogue/catalogue.ts';
import { canonicalConnectorId } from '../base/catalogue/connector-id.ts';
import type { Config } from '../base/config/config.ts';
import { isLoopbackHost } from '../base/config/config.ts';
import { fanOut } from '../base/events/execution-event.ts';
import { systemClock, type Clock } from '../base/lib/clock.ts';
import { createLogger, type Logger } from '../base/lib/log.ts';
import { type CertificateAuthority, openCertificateAuthority } from '../inbound/ca/certificate-authority.ts';
import { type Listener, openListener } from '../inbound/listener/listener.ts';
import { createUpstream } from '../outbound/net/create-upstream.ts';
import type { Upstream } from '../outbound/net/upstream.ts';
import { BufferBudget } from '../pipeline/buffer-budget.ts';
import { runDirect } from '../pipeline/enter.ts';
import type { Pipeline } from '../pipeline/stage.ts';
import { ConnectorHealth } from '../services/connector-health.ts';
import { PolicyService } from '../services/policies.ts';
import { WorkloadService } from '../services/workloads.ts';
import { openEmbeddedStore } from '../storage/embedded/open-embedded-store.ts';
import { Router } from '../surfaces/http/router.ts';
import { createMetrics } from '../surfaces/metrics/metrics.ts';
import { createDoors } from './doors.ts';
import { executionLog } from './execution-log.ts';
import { keepRetention } from './retention.ts';
import { gatewayRoutes } from './routes.ts';
import { type AdminToken, openAdminToken } from './secrets.ts';

export interface Gateway {
  readonly port: number;
  readonly ambientPort: number;
  readonly adminToken: AdminToken;
  readonly bundle: { readonly bundle_id: string; readonly version: string };
  /** PEM of the root; undefined when interception is off. */
  readonly caFile: string | undefined;
  /** Stops accepting, lets what is under way finish (`GW_DRAIN_TIMEOUT`), then closes everything. Idempotent. */
  stop(): Promise<void>;
}

/** What tests put in the place of the real thing. */
export interface Replacements {
  readonly clock?: Clock;
  readonly log?: Logger;
}

/** Opens everything in order; what was opened is closed again when a later step fails. */
export async function startGateway(config: Config, replacements: Replacements = {}): Promise<Gateway> {
  const opened: (() => Promise<void>)[] = [];
  const closeAll = async () => {
    for (let close = opened.pop(); close; close = opened.pop()) await close();
  };
  try {
    return await open(config, replacements, opened, closeAll);
  } catch (error) {
    await closeAll();
    throw error;
  }
}

async function open(config: Config, replacements: Replacements, opened: (() => Promise<void>)[], closeAll: () => Promise<void>): Promise<Gateway> {
  const clock = replacements.clock ?? systemClock;
  const log = replacements.log ?? createLogger({ level: config.logLevel, format: config.logFormat });
  const adminToken = await openAdminToken(config.dataDir, config.adminToken);
  const store = await openEmbeddedStore({ dir: join(config.dataDir, 'store'), fsync: config.recordFsync, clock, log });
  opened.push(() => store.close());
  const ca = config.proxyMitmEnabled ? await openCertificateAuthority({ dir: config.caDir, clock, log }) : undefined;
  const catalogue = loadCatalogue();
  const connectorId = (text: string) => canonicalConnectorId(catalogue, text);
  const policies = await PolicyService.open({ dir: config.policiesDir, tier: config.planTier, store, clock, log, connectorId });
  const workloads = await WorkloadService.open(store);
  /** The unspecified address stands for every address of this machine. */
  const ownAddresses: { address: string; port: number }[] = [];
  let openTunnels = () => 0;
  const upstream = await openUpstream(config, clock, (host) => catalogue.providerForHost(host) !== undefined, () => ownAddresses);
  opened.push(() => upstream.close());

  const orgs = new Set(['default', ...(config.orgId === undefined ? [] : [config.orgId])]);
  const metrics = createMetrics({
    knownOrg: (id) => orgs.has(id) || workloads.list().some((workload) => workload.org_id === id),
    knownProvider: (id) => catalogue.provider(id) !== undefined,
    openTunnels: () => openTunnels(),
  });
  const health = new ConnectorHealth(catalogue);
  const pipeline: Pipeline = {
    settings: {
      nodeId: config.nodeId,
      orgId: config.orgId,
      maxBodyBytes: config.maxBodyBytes,
      proxyAuth: config.proxyAuth,
      adminToken: adminToken.value,
      trustedProxies: config.trustedProxies,
    },
    clock,
    log,
    catalogue,
    policies,
    workloads,
    store,
    upstream,
    buffers: new BufferBudget(config.maxBufferedBytes),
    events: fanOut([executionLog(log), metrics.events, health.events]),
  };
  const router = new Router({
    routes: gatewayRoutes({
      runDirect: (arrival) => void runDirect(arrival, pipeline),
      store,
      policies,
      workloads,
      health: {
        clock,
        nodeId: config.nodeId,
        startupGraceMs: config.healthzStartupGrace,
        connectors: () => health.list(),
        bundle: () => policies.current(),
      },
      trust: { ca, providers: catalogue.providers, domains: catalogue.domains },
      metrics: config.metricsEnabled ? metrics.routes : [],
    }),
    adminToken: adminToken.value,
    metricsToken: config.metricsToken,
    log,
  });
  const listener = await openPorts(config, pipeline, router, ca, clock, log);
  opened.push(() => listener.close());
  for (const port of [listener.port, listener.ambientPort]) ownAddresses.push({ address: '0.0.0.0', port });
  openTunnels = () => listener.openTunnels;
  const stopRetention = keepRetention(store, config.recordRetention, clock, log);
  let stopping: Promise<void> | undefined;
  return {
    port: listener.port,
    ambientPort: listener.ambientPort,
    adminToken,
    bundle: policies.current(),
    caFile: ca && join(config.caDir, 'root-ca.pem'),
    stop: () =>
      (stopping ??= (async () => {
        stopRetention();
        await listener.drain(config.drainTimeout);
        await closeAll();
        log.flush();
      })()),
  };
}

async function openUpstream(
  config: Config,
  clock: Clock,
  isAiHost: (host: string) => boolean,
  ownAddresses: () => readonly { address: string; port: number }[],
): Promise<Upstream> {
  return createUpstream({
    clock,
    connectTo: config.upstreamConnectTo.map(({ from, to }) => ({ host: from.host, port: from.port, toHost: to.host, toPort: to.port })),
    ...(config.upstreamCaFile === undefined ? {} : { caFile: await readFile(config.upstreamCaFile, 'utf8') }),
    egressAllow: config.egressAllow,
    headersTimeoutMs: config.upstreamHeadersTimeout,
    idleTimeoutMs: config.upstreamIdleTimeout,
    ownAddresses,
    isAiHost,
  });
}

async function openPorts(
  config: Config,
  pipeline: Pipeline,
  router: Router,
  ca: CertificateAuthority | undefined,
  clock: Clock,
  log: Logger,
): Promise<Listener> {
  const ports = new Set<number>();
  const guard = {
    allowedOrigins: config.allowedOrigins,
    publicNames: config.publicNames,
    loopbackBind: isLoopbackHost(config.host),
    ports,
    catalogue: pipeline.catalogue,
  };
  const doors = createDoors({
    pipeline,
    router,
    proxyEnabled: config.proxyEnabled,
    intercept: ca !== undefined,
    bypass: config.proxyBypass,
    guard: () => guard,
  });
  const listener = await openListener({
    host: config.host,
    port: config.port,
    ambientPort: config.ambientPort,
    clock,
    log,
    ...(ca ? { ca } : {}),
    connectPorts: [...config.connectPorts],
    limits: { maxTunnels: config.maxTunnels },
    ownNames: [...config.publicNames],
    onArrival: doors.onArrival,
    onTunnel: doors.onTunnel,
    dial: (authority) => pipeline.upstream.connect(authority),
    onTunnelClosed: ({ bytesUp, bytesDown }) => pipeline.events.tunnelClosed(bytesUp, bytesDown),
  });
  ports.add(listener.port);
  ports.add(listener.ambientPort);
  return listener;
}
