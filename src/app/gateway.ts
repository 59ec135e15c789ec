/*
 * The composition root: wires rooms together, and owns the order of starting and stopping. No rule of the product lives
 * here.
 */
import { join } from 'node:path';
import type { CatalogueInForce } from '../base/catalogue/catalogue-in-force.ts';
import type { Config } from '../base/config/config.ts';
import type { InheritedSockets } from '../base/config/inherited-sockets.ts';
import { originOf, ownOrigin } from '../base/config/own-origin.ts';
import { packageVersion } from '../base/lib/package-root.ts';
import type { TrafficClass } from '../base/model/action-request.ts';
import type { Listener } from '../inbound/listener/listener.ts';
import { startKeeper } from './keeper.ts';
import { createLine } from './line.ts';
import { openPorts } from './ports.ts';
import { openResources, type Replacements } from './resources.ts';
import type { AdminToken } from './secrets.ts';

export interface StartOptions extends Replacements {
  /** Sockets that were handed over to this process. */
  readonly inherited?: InheritedSockets;
  /** The start is given up before the ports are opened once this is aborted. */
  readonly signal?: AbortSignal;
}

export interface Gateway {
  /** Bind addresses; that of a socket that was handed over is its own. */
  readonly host: string;
  readonly ambientHost: string;
  readonly port: number;
  readonly ambientPort: number;
  /** Undefined: the management API is on `port`. */
  readonly managementPort: number | undefined;
  /** How a port is reached: by https where the ports speak TLS (decision 12.1). */
  originOf(host: string, port: number): string;
  readonly adminToken: AdminToken;
  /** What is replaced here counts from the next call on. */
  readonly catalogues: CatalogueInForce;
  readonly bundle: { readonly bundle_id: string; readonly version: string };
  /** PEM of the root; undefined when interception is off. */
  readonly caFile: string | undefined;
  /** Stops accepting, lets what is under way finish (`GW_DRAIN_TIMEOUT`), then closes everything. Idempotent. */
  stop(): Promise<void>;
}

/**
 * Opens everything in order; what was opened is closed again when a later step fails.
 * @throws Error that says for a person what keeps the gateway from starting
 */
export async function startGateway(config: Config, start: StartOptions = {}): Promise<Gateway> {
  const closers: (() => Promise<void>)[] = [];
  const closeAll = async () => {
    for (let close = closers.pop(); close; close = closers.pop()) await close();
  };
  try {
    return await open(config, start, closers, closeAll);
  } catch (error) {
    await closeAll();
    throw error;
  }
}

async function open(
  config: Config,
  start: StartOptions,
  closers: (() => Promise<void>)[],
  closeAll: () => Promise<void>,
): Promise<Gateway> {
  const resources = await openResources(config, start, closers);
  let listener: Listener | undefined;
  const line = createLine(config, resources, () => listener);
  await line.shadow?.load('start');
  if (line.shadow) resources.readiness.ask(line.shadow);
  await resources.prices.refresh.start();
  start.signal?.throwIfAborted();
  const ports = await openPorts(config, line, resources, start.inherited);
  listener = ports;
  closers.push(() => ports.close());
  const keeper = startKeeper(config, resources, line.shadow);
  closers.push(() => keeper.stop());
  const { log } = resources;
  log.info({ version: packageVersion(), node_id: config.nodeId, port: ports.port, ambient_port: ports.ambientPort }, 'started');
  let stopped: Promise<void> | undefined;
  const stop = async () => {
    keeper.drain();
    resources.readiness.drain();
    resources.approvals.drain();
    log.info({ open_tunnels: ports.openTunnels }, 'stopping: nothing new is taken, what runs may finish (GW_DRAIN_TIMEOUT)');
    const clean = await ports.drain(config.drainTimeout, () => resources.upstream.close());
    if (!clean) log.warn({ timeout_ms: config.drainTimeout }, 'what had not ended within GW_DRAIN_TIMEOUT was cut');
    await closeAll();
    log.info({}, 'stopped');
    log.flush();
  };
  const hostOf = (trafficClass: TrafficClass): string =>
    (start.inherited?.[trafficClass] !== undefined && ports.places.find((place) => place.trafficClass === trafficClass)?.address) ||
    config.host;
  return {
    host: hostOf('developer'),
    ambientHost: hostOf('ambient'),
    port: ports.port,
    ambientPort: ports.ambientPort,
    managementPort: ports.managementPort,
    originOf: (host, port) => {
      const { certificate } = resources;
      return certificate === undefined
        ? originOf('http', host, port)
        : ownOrigin({ ...config, host }, port, (one) => certificate.current.covers(one));
    },
    adminToken: resources.adminToken,
    catalogues: resources.catalogues,
    bundle: resources.policies.current(),
    caFile: resources.ca && join(config.caDir, 'root-ca.pem'),
    stop: () => {
      stopped ??= stop();
      return stopped;
    },
  };
}
