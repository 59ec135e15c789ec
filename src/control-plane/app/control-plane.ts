/*
 * The composition root of the control plane: wires rooms together, and owns the order of starting and stopping. No rule
 * of the product lives here.
 */
import { randomBytes } from 'node:crypto';
import { join, resolve } from 'node:path';
import { loadCatalogue } from '../../base/catalogue/catalogue.ts';
import { canonicalConnectorId } from '../../base/catalogue/connector-id.ts';
import { EventBus } from '../../base/events/bus.ts';
import { type Clock, systemClock, timestamp } from '../../base/lib/clock.ts';
import { inFolder, makeFolder } from '../../base/lib/file-system.ts';
import { type Logger, silentLogger } from '../../base/lib/log.ts';
import { packageVersion } from '../../base/lib/package-root.ts';
import { SecretBox } from '../../base/lib/secret-box.ts';
import { secretKeysIn } from '../../base/lib/secret-key-file.ts';
import { ClockWatch, clockConfirmation } from '../../services/keeper/clock-watch.ts';
import { keepHourly } from '../../services/keeper/keep-hourly.ts';
import { Leases } from '../../services/keeper/lease.ts';
import { PolicyPresets } from '../../services/policy/policy-presets.ts';
import { StoreError } from '../../storage/contract/store.ts';
import { leafFiles } from '../../storage/drivers/leaf-files.ts';
import { openStore } from '../../storage/drivers/open-store.ts';
import { createControlPlaneMetrics } from '../../surfaces/metrics/control-plane-metrics.ts';
import type { AdminHealth } from '../admin/admin-operation.ts';
import { ADMIN_OPERATIONS } from '../admin/admin-operation-table.ts';
import { adminRefusalLog } from '../admin/admin-refusal-log.ts';
import { AdminServer } from '../admin/admin-server.ts';
import { type CallsOptions, ControlPlaneHandlers } from '../calls/control-plane-handlers.ts';
import { keptOnce } from '../pki/kept-once.ts';
import { openSigningKey } from '../pki/kept-signing-key.ts';
import { KeyFiles } from '../pki/key-files.ts';
import { NodeAuthority } from '../pki/node-authority.ts';
import { loadProtocol } from '../proto/protocol.ts';
import { ProtocolServer } from '../proto/protocol-server.ts';
import type { ControlPlaneCounts, PortConnections } from '../state/control-plane-counts.ts';
import { NodeAuthorities } from '../state/node-authorities.ts';
import { StoredControlPlane } from '../state/stored-control-plane.ts';
import { checkpointRules } from './checkpoint-rules.ts';
import type { ControlPlaneConfig } from './control-plane-config.ts';
import { CUSTOM_CONNECTOR, entityBodies } from './entity-bodies.ts';
import { PLANE_FILES } from './plane-files.ts';
import { ServerIdentityInForce } from './server-identity.ts';
import { openAuthority } from './time-stamp-authority.ts';
import { openTransparencyLog } from './transparency-log.ts';

const SETTING = 'CP_DATA_DIR';
const DRAIN_MS = 10_000;
const AUDIT_MS = 400 * 86_400_000;
export interface ControlPlaneStart {
  readonly clock?: Clock;
  readonly log?: Logger;
  /** For what connections and messages may take; default: that of the machine, against which networks are measured. */
  readonly portsClock?: Pick<Clock, 'after'>;
  /** Default: the rows of the table of bounds. */
  readonly rates?: Pick<CallsOptions, 'hashRates' | 'changeRates'>;
}

/** A control plane that runs. */
export interface ControlPlane {
  readonly host: string;
  readonly grpcPort: number;
  readonly httpPort: number;
  readonly state: StoredControlPlane;
  readonly counts: ControlPlaneCounts;
  readonly adminToken: {
    readonly value: string;
    /** Where the one that was made is kept; undefined: it was configured. */
    readonly file: string | undefined;
  };
  /** Takes nothing new, lets calls under way finish (`CP_DRAIN_TIMEOUT`), then closes everything. Idempotent. */
  stop(): Promise<void>;
}

type Closers = (() => Promise<void>)[];

interface Opened {
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: EventBus;
  readonly clockWatch: ClockWatch;
  readonly leases: Leases;
  readonly state: StoredControlPlane;
  readonly adminToken: ControlPlane['adminToken'];
}

/**
 * Opens everything in order; what was opened is closed again when a later step fails.
 * @throws Error that says for a person what keeps it from starting; StoreError `in_use` when another process has the
 * folder
 */
export async function startControlPlane(config: ControlPlaneConfig, start: ControlPlaneStart = {}): Promise<ControlPlane> {
  const closers: Closers = [];
  const closeAll = async () => {
    for (let close = closers.pop(); close; close = closers.pop()) await close();
  };
  try {
    const opened = await openState(config, start, closers);
    return await openPorts(config, start, opened, closers, closeAll);
  } catch (error) {
    await closeAll();
    throw error;
  }
}

/** A store that is in use says so of a gateway; in this folder it is another control plane. */
function inUse(error: unknown, dir: string): unknown {
  if (!(error instanceof StoreError && error.code === 'in_use')) return error;
  const who = error.pid === undefined ? '' : ` (pid ${error.pid})`;
  const text = `The data folder ${dir} is in use by another control plane${who}: stop that one, or give this one a folder of its own (${SETTING})`;
  return new StoreError('in_use', text, { cause: error, pid: error.pid });
}

async function openState(
  config: ControlPlaneConfig,
  { clock = systemClock, log = silentLogger }: ControlPlaneStart,
  closers: Closers,
): Promise<Opened> {
  const dir = resolve(config.dataDir);
  const events = new EventBus(log);
  const file = (name: keyof typeof PLANE_FILES) => join(dir, PLANE_FILES[name]);
  return inFolder(SETTING, dir, async () => {
    await makeFolder(join(dir, 'ledger'), 0o700);
    // First, because it says whether another process is at work here.
    const { store, isShared } = await openStore(join(dir, 'store'), { fsync: 'always', clock, log }).catch((error: unknown) => {
      throw inUse(error, dir);
    });
    closers.push(() => store.close());
    const retentionMs = config.auditRetention ?? AUDIT_MS;
    const clockWatch = await ClockWatch.open({ store, clock, log, events, retentionMs, confirmation: clockConfirmation(dir) });
    closers.push(() => clockWatch.close());
    const leases = new Leases({ store, clock, log, holder: 'control-plane', isShared });
    const sealing =
      config.secretsKey === undefined
        ? secretKeysIn(await keptOnce(file('secretsKey'), () => `${randomBytes(32).toString('base64')}\n`), file('secretsKey'))
        : [config.secretsKey];
    const caFiles = new KeyFiles(file('authority'), (path) => NodeAuthority.open(path, clock));
    const authorities = await NodeAuthorities.open({ store, files: caFiles, clock, log });
    const catalogue = loadCatalogue();
    const stamping = openAuthority(config, { clock, log });
    closers.push(() => stamping.close());
    const logging = openTransparencyLog(config, { clock, log });
    closers.push(() => logging.close());
    const state = await StoredControlPlane.open({
      store,
      clock,
      log,
      events,
      mayExpire: () => clockWatch.mayExpire,
      box: new SecretBox(sealing),
      authorities,
      keyFiles: {
        bundle: new KeyFiles(file('bundleKey'), (path) => openSigningKey(path, 'bundle')),
        ledger: new KeyFiles(file('ledgerKey'), (path) => openSigningKey(path, 'ledger')),
      },
      checkpoints: checkpointRules(config),
      timeStamps: stamping.authority,
      transparencyLog: logging.transparencyLog,
      leaves: leafFiles(join(dir, 'ledger')),
      read: entityBodies(catalogue, new PolicyPresets()),
      connectorId: (text) => canonicalConnectorId(catalogue, text) ?? (CUSTOM_CONNECTOR.test(text) ? text : undefined),
    });
    closers.push(() => state.close());
    const adminToken =
      config.adminToken === undefined
        ? {
            value: (await keptOnce(file('adminToken'), () => `${randomBytes(32).toString('base64url')}\n`)).trim(),
            file: file('adminToken'),
          }
        : { value: config.adminToken, file: undefined };
    return { clock, log, events, clockWatch, leases, state, adminToken };
  });
}

async function openPorts(
  config: ControlPlaneConfig,
  start: ControlPlaneStart,
  opened: Opened,
  closers: Closers,
  closeAll: () => Promise<void>,
): Promise<ControlPlane> {
  const { clock, log, state, adminToken } = opened;
  const { host } = config;
  const handlers = new ControlPlaneHandlers({ state, clock, log, ...start.rates });
  const identity = await ServerIdentityInForce.make({ authorities: state.authorities, names: config.names, clock, log });
  const protocol = loadProtocol();
  const { portsClock } = start;
  const server = new ProtocolServer({
    host,
    port: config.grpcPort,
    identity: identity.current,
    log,
    callerOf: (certificate) => handlers.callerOf(certificate),
    ...(portsClock && { clock: portsClock }),
  });
  server.add(protocol.enrolment, handlers.enrolment, handlers.guards.enrolment);
  server.add(protocol.controlPlane, handlers.controlPlane, handlers.guards.controlPlane);
  const ending = new AbortController();
  const health: { status: AdminHealth['status'] } = { status: 'ok' };
  closers.push(() => {
    // The start has failed: there is nobody to wait for.
    if (health.status === 'ok') ending.abort();
    return server.close(ending.signal);
  });
  const grpcPort = await openGrpc(server, config);
  const following = identity.follow((next) => server.renew(next));
  closers.push(() => following.stop());
  const admin = adminServer(config, opened, { counts: handlers.counts, grpc: server.connections, identity, health });
  closers.push(() => admin.close(ending.signal));
  const httpPort = await admin.open();
  const keeping = keepHourly(opened, [
    {
      what: 'entries of the audit trail',
      ms: config.auditRetention ?? AUDIT_MS,
      removeBefore: (epochMs) => state.audit.removeBefore(epochMs),
    },
  ]);
  closers.push(() => keeping.stop());
  log.info({ version: packageVersion(), grpc_port: grpcPort, http_port: httpPort }, 'started');
  let stopped: Promise<void> | undefined;
  const stop = async () => {
    log.info({ open_streams: handlers.counts.connectedStreams }, 'stopping: nothing new is taken, what runs may finish (CP_DRAIN_TIMEOUT)');
    health.status = 'draining';
    void keeping.stop();
    handlers.close();
    const cancel = clock.after(config.drainTimeout ?? DRAIN_MS, () => ending.abort());
    await closeAll();
    cancel();
    log.info({}, 'stopped');
    log.flush();
  };
  return {
    host,
    grpcPort,
    httpPort,
    state,
    counts: handlers.counts,
    adminToken,
    stop: () => {
      stopped ??= stop();
      return stopped;
    },
  };
}

interface AdminGround {
  readonly counts: ControlPlaneCounts;
  readonly grpc: ProtocolServer['connections'];
  readonly identity: ServerIdentityInForce;
  readonly health: { readonly status: AdminHealth['status'] };
}

function adminServer(
  config: ControlPlaneConfig,
  { clock, log, events, state, adminToken }: Opened,
  { counts, grpc, identity, health }: AdminGround,
): AdminServer {
  const metrics = createControlPlaneMetrics({
    operations: ADMIN_OPERATIONS.map(({ id }) => id),
    counts: () => counts,
    connections: () => [connectionsOf('grpc', grpc), connectionsOf('http', admin.connections)],
    certificateExpiresAt: () => identity.notAfter,
  });
  events.attach(metrics.events);
  events.attach(adminRefusalLog(log, clock));
  const admin = new AdminServer({
    host: config.host,
    port: config.httpPort,
    names: config.names,
    adminToken: adminToken.value,
    metricsToken: config.metricsToken,
    services: {
      state,
      audit: state.audit,
      clock,
      health: () => ({
        status: health.status,
        version: packageVersion(),
        enrolled_nodes: counts.enrolledNodes,
        open_streams: counts.connectedStreams,
        pending_hashes: counts.pendingHashes,
        certificate_expires_at: timestamp(identity.notAfter),
      }),
    },
    routes: metrics.routes,
    answered: metrics.answered,
    clock,
    log,
    events,
  });
  return admin;
}

function connectionsOf(port: PortConnections['port'], { open, counts }: ProtocolServer['connections']): PortConnections {
  return { port, open, closed: counts };
}

/** @throws Error in words that name the setting to change */
async function openGrpc(server: ProtocolServer, { host, grpcPort }: ControlPlaneConfig): Promise<number> {
  try {
    return await server.open();
  } catch (error) {
    throw new Error(
      `CP_GRPC_PORT: port ${grpcPort} of ${host} cannot be opened; it may be in use, perhaps by another control plane (0 takes a free one)`,
      {
        cause: error,
      },
    );
  }
}
