import { uuidv7 } from '../base/lib/uuidv7.ts';
import type { Arrival, ArrivalHead } from '../base/model/arrival.ts';
import type { ConnectionType } from '../base/model/connection.ts';
import { callerIp, readIdentity } from '../inbound/normalise/identity.ts';
import { type Door, Exchange } from './exchange.ts';
import { deny } from './refusals.ts';
import { type RunResult, runExchange } from './run.ts';
import type { Pipeline } from './stage.ts';

function begin(door: Door, from: { head: ArrivalHead } & Partial<Arrival>, connectionType: ConnectionType, pipeline: Pipeline): Exchange {
  const { clock, settings } = pipeline;
  const createdAt = clock.now();
  return new Exchange(door, from, {
    createdAt,
    recordId: uuidv7(createdAt),
    connectionType,
    // Only what came through the proxy can be ambient (specification, "Connection types").
    trafficClass: connectionType === 'connect_proxy' ? from.head.trafficClass : 'developer',
    callerIp: callerIp(from.head, settings.trustedProxies),
  });
}

/** A request of transparent mode, of the plain forward proxy, or from inside an intercepted tunnel. */
export function runProxied(arrival: Arrival, pipeline: Pipeline): Promise<RunResult> {
  const connectionType = arrival.head.door === 'origin' ? 'sdk_redirect' : 'connect_proxy';
  return runExchange(begin('proxied', arrival, connectionType, pipeline), pipeline);
}

/** `POST /v1/actions:execute`. */
export function runDirect(arrival: Arrival, pipeline: Pipeline): Promise<RunResult> {
  return runExchange(begin('direct', arrival, 'direct_api', pipeline), pipeline);
}

/** A CONNECT that is decided by its host alone; its record is stored before this resolves (decision 7.3). */
export function runTunnel(head: ArrivalHead, pipeline: Pipeline): Promise<RunResult> {
  return runExchange(begin('tunnel', { head }, 'connect_proxy', pipeline), pipeline);
}

/**
 * Records that a passed tunnel is ended because its ClientHello names an AI host that its CONNECT did not (decisions 3.9, 7.3).
 * @param serverName folded (decision 3.17)
 */
export function denyServerName(head: ArrivalHead, serverName: string, pipeline: Pipeline): Promise<RunResult> {
  const exchange = begin('tunnel', { head: legible(head) }, 'connect_proxy', pipeline);
  exchange.imposed = deny(
    'sni_mismatch',
    `The ClientHello names ${serverName}, the CONNECT ${head.tunnel?.authority.host ?? head.rawTarget}.`,
  );
  return runExchange(exchange, pipeline);
}

/** A CONNECT that passes is not asked who sent it, so its identity may be malformed. It must be left out then, or the denial had no record. */
function legible(head: ArrivalHead): ArrivalHead {
  try {
    readIdentity(head);
    return head;
  } catch {
    const headers = Object.fromEntries(Object.entries(head.headers).filter(([name]) => !name.startsWith('x-gw-')));
    return { ...head, headers, ...(head.tunnel ? { tunnel: { authority: head.tunnel.authority } } : {}) };
  }
}
