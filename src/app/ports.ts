import type { Config } from '../base/config/config.ts';
import { isLoopbackHost } from '../base/lib/loopback-host.ts';
import { type Listener, openListener } from '../inbound/listener/listener.ts';
import { bindError } from './bind-error.ts';
import { createDoors } from './doors.ts';
import type { Line } from './line.ts';
import type { Resources } from './resources.ts';

/** Opens both ports and leads what arrives to the line. */
export async function openPorts(config: Config, { pipeline, router }: Line, resources: Resources): Promise<Listener> {
  const { ca, clock, log, catalogue, upstream, ownAddresses } = resources;
  const ports = new Set<number>();
  const guard = {
    allowedOrigins: config.allowedOrigins,
    publicNames: config.publicNames,
    loopbackBind: isLoopbackHost(config.host),
    ports,
    catalogue,
  };
  const doors = createDoors({
    pipeline,
    router,
    proxyEnabled: config.proxyEnabled,
    rules: { proxyBypass: config.proxyBypass, proxyNonAi: config.proxyNonAi, catalogue, intercept: ca !== undefined },
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
    dial: (authority) => upstream.connect(authority),
    dialOrigin: (authority, protocols) => upstream.dial(authority, protocols),
    onTunnelClosed: ({ bytesUp, bytesDown }) => pipeline.events.tunnelClosed(bytesUp, bytesDown),
    onHandshakeRejected: (event) => pipeline.events.handshakeRejected(event),
  }).catch((error: unknown) => {
    throw bindError(error, config);
  });
  for (const port of [listener.port, listener.ambientPort]) {
    ports.add(port);
    // The unspecified address stands for every address of this machine.
    ownAddresses.push({ address: '0.0.0.0', port });
  }
  return listener;
}
