/*
 * The composition root: picks adapters, wires rooms together, and owns the order of starting and stopping. No rule of the product lives here.
 */
import { join } from 'node:path';
import type { Config } from '../base/config/config.ts';
import { packageVersion } from '../base/lib/package-root.ts';
import type { Listener } from '../inbound/listener/listener.ts';
import { followPolicies } from './follow-policies.ts';
import { createLine } from './line.ts';
import { openPorts } from './ports.ts';
import { openResources, type Replacements } from './resources.ts';
import { keepRetention } from './retention.ts';
import type { AdminToken } from './secrets.ts';

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

/**
 * Opens everything in order; what was opened is closed again when a later step fails.
 * @throws Error that says for a person what keeps the gateway from starting
 */
export async function startGateway(config: Config, replacements: Replacements = {}): Promise<Gateway> {
  const closers: (() => Promise<void>)[] = [];
  const closeAll = async () => {
    for (let close = closers.pop(); close; close = closers.pop()) await close();
  };
  try {
    return await open(config, replacements, closers, closeAll);
  } catch (error) {
    await closeAll();
    throw error;
  }
}

async function open(
  config: Config,
  replacements: Replacements,
  closers: (() => Promise<void>)[],
  closeAll: () => Promise<void>,
): Promise<Gateway> {
  const resources = await openResources(config, replacements, closers);
  let listener: Listener | undefined;
  const line = createLine(config, resources, () => listener?.openTunnels ?? 0);
  await line.pipeline.shadow?.load('start');
  const ports = await openPorts(config, line, resources);
  listener = ports;
  closers.push(() => ports.close());
  if (config.policiesWatch) closers.push(followPolicies(resources, line.pipeline.shadow));
  const { clock, log, store, clockWatch } = resources;
  const stopRetention = keepRetention(store, config.recordRetention, clock, clockWatch, log);
  log.info({ version: packageVersion(), node_id: config.nodeId, port: ports.port, ambient_port: ports.ambientPort }, 'started');
  let stopping: Promise<void> | undefined;
  const stop = async () => {
    stopRetention();
    log.info({ open_tunnels: ports.openTunnels }, 'stopping: nothing new is taken, what runs may finish (GW_DRAIN_TIMEOUT)');
    const clean = await ports.drain(config.drainTimeout);
    if (!clean) log.warn({ timeout_ms: config.drainTimeout }, 'what had not ended within GW_DRAIN_TIMEOUT was cut');
    await closeAll();
    log.info({}, 'stopped');
    log.flush();
  };
  return {
    port: ports.port,
    ambientPort: ports.ambientPort,
    adminToken: resources.adminToken,
    bundle: resources.policies.current(),
    caFile: resources.ca && join(config.caDir, 'root-ca.pem'),
    stop: () => {
      stopping ??= stop();
      return stopping;
    },
  };
}
