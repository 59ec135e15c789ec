import type { Config } from '../base/config/config.ts';
import type { InheritedSockets } from '../base/config/inherited-sockets.ts';
import { openFilesLimit } from '../base/lib/file-system.ts';
import { isLoopbackHost, SELF_TEST_HOST } from '../base/lib/host.ts';
import { createDoors } from '../inbound/doors/doors.ts';
import type { ListenerLimits } from '../inbound/listener/limits.ts';
import { type BoundPort, type Listener, openListener } from '../inbound/listener/listener.ts';
import { bindError } from './bind-error.ts';
import { holderOf } from './holder-of.ts';
import type { Line } from './line.ts';
import type { Resources } from './resources.ts';

/** Opens the ports and leads what arrives to the line. */
export async function openPorts(
  config: Config,
  { pipeline, router, managementRouter }: Line,
  resources: Resources,
  inherited: InheritedSockets = {},
): Promise<Listener> {
  const { ca, clock, log, events, catalogues, upstream, ownAddresses } = resources;
  const ports = new Set<number>();
  const guard = {
    allowedOrigins: config.allowedOrigins,
    publicNames: config.publicNames,
    loopbackBind: isLoopbackHost(config.host),
    ports,
    catalogues,
  };
  const doors = createDoors({
    pipeline,
    router,
    managementRouter,
    proxyEnabled: config.proxyEnabled,
    rules: { proxyBypass: config.proxyBypass, proxyNonAi: config.proxyNonAi, catalogues, intercept: ca !== undefined },
    guard: () => guard,
  });
  const onBound = (places: readonly BoundPort[]): void => {
    guard.loopbackBind = places.every((place) => {
      const isInherited = place.trafficClass !== undefined && inherited[place.trafficClass] !== undefined;
      return isInherited ? isSafe(place, config) : isLoopbackHost(config.host);
    });
    resources.place.bound(places);
    if (!guard.loopbackBind && resources.certificate === undefined) warnOfClearText(resources);
    for (const { port } of places) {
      ports.add(port);
      // The unspecified address stands for every address of this machine.
      ownAddresses.push({ address: '0.0.0.0', port });
    }
  };
  return openListener({
    host: config.host,
    port: config.port,
    ambientPort: config.ambientPort,
    managementPort: config.mgmtPort,
    inherited,
    clock,
    log,
    tls: resources.certificate,
    ...(ca ? { ca } : {}),
    connectPorts: [...config.connectPorts],
    limits: limitsOf(config),
    isProxy: (address) => config.trustedProxies.has(address),
    holderOf: (head) => holderOf(head, router, pipeline.authenticator),
    ownNames: [...config.publicNames],
    onBound,
    onArrival: doors.onArrival,
    onManagement: doors.onManagement,
    onTunnel: doors.onTunnel,
    onRefused: (event) => events.emit('unrecorded', event),
    dial: (_authority, _signal, request) => doors.dial(request),
    dialOrigin: (authority, protocols) => upstream.dial(authority, protocols),
    onTunnelClosed: ({ bytesUp, bytesDown }) => events.emit('tunnelClosed', { bytesUp, bytesDown }),
    // Who tries out what it trusts pins nothing.
    onHandshakeRejected: (event) => {
      if (event.host !== SELF_TEST_HOST) events.emit('handshakeRejected', event);
    },
  }).catch((error: unknown) => {
    throw bindError(error, config, inherited);
  });
}

/** At least so many bytes may wait for clients, however few bodies may be held. */
const MIN_UNREAD_BYTES = 16 * 1_048_576;

/** A gateway of few tunnels serves other calls all the same. */
const [MIN_CONNECTIONS, MIN_CALLS] = [2_048, 1_024];

/** What clients may take of the ports together: rows of {@link CONNECTION_BOUNDS} whose amounts are settings. */
function limitsOf({ maxTunnels, maxBufferedBytes }: Config): Partial<ListenerLimits> {
  const files = openFilesLimit();
  const maxConnections = Math.min(
    Math.max(2 * maxTunnels, MIN_CONNECTIONS),
    files === undefined ? Number.POSITIVE_INFINITY : Math.floor(files / 2),
  );
  return {
    maxTunnels,
    maxCalls: Math.max(maxTunnels, MIN_CALLS),
    maxConnections,
    maxUnreadBytes: Math.max(maxBufferedBytes / 2, MIN_UNREAD_BYTES),
  };
}

/** Decision 12.1. */
function warnOfClearText({ log, readiness }: Resources): void {
  const message =
    'Other machines can reach a port that speaks plain HTTP, so that keys and tokens can be read on the way: set GW_TLS_CERT_FILE and GW_TLS_KEY_FILE.';
  readiness.warn({ code: 'clear_text_beyond_loopback', message });
  log.warn({ code: 'clear_text_beyond_loopback' }, message);
}

/**
 * Whether only this machine reaches a socket that was handed over. As for `GW_HOST`, nobody opens a relay by accident.
 * @throws Error for a person
 */
function isSafe({ address, port }: BoundPort, { proxyAuthIsSet }: Config): boolean {
  if (isLoopbackHost(address)) return true;
  if (proxyAuthIsSet) return false;
  throw new Error(
    `GW_PROXY_AUTH is not set, but other machines can reach the socket that was handed over (${address}:${port}); set it to \`required\`, or to \`optional\` if anyone there may use this proxy`,
  );
}
