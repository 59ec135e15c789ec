import type { GatewayError } from '../base/lib/gateway-error.ts';
import type { Arrival, ArrivalHead } from '../base/model/arrival.ts';
import { readIdentity } from '../inbound/normalise/identity.ts';
import { begin } from './begin.ts';
import type { Exchange } from './exchange.ts';
import { deny } from './refusals.ts';
import { type RunResult, runExchange } from './run.ts';
import { serveSocket } from './socket/serve.ts';
import type { Pipeline } from './stage.ts';

/** A request of transparent mode, of the plain forward proxy, or from inside an intercepted tunnel. */
export function runProxied(arrival: Arrival, pipeline: Pipeline): Promise<RunResult> {
  const connectionType = arrival.head.door === 'origin' ? 'sdk_redirect' : 'connect_proxy';
  const exchange = begin('proxied', arrival, connectionType, pipeline);
  return arrival.reply.switchProtocols ? runHandshake(exchange, pipeline) : runExchange(exchange, pipeline);
}

/** A request for a WebSocket, which begins when both sides have accepted it. */
async function runHandshake(exchange: Exchange, pipeline: Pipeline): Promise<RunResult> {
  const result = await runExchange(exchange, pipeline);
  if (exchange.accepted) serveSocket(exchange, exchange.accepted, pipeline);
  return result;
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

/**
 * Records that what passes undecided, a request or the CONNECT of a tunnel, leads to an address that is not public (decisions 7.3, 8.5). A request is answered.
 * @param error `egress_denied`
 */
export function denyEgress(
  { head, ...from }: { head: ArrivalHead } & Partial<Arrival>,
  error: GatewayError,
  pipeline: Pipeline,
): Promise<RunResult> {
  const door = from.reply ? 'proxied' : 'tunnel';
  const exchange = begin(door, { head: legible(head), ...from }, 'connect_proxy', pipeline);
  exchange.imposed = { ...deny('egress_denied', error.message, error.status), errorCode: 'egress_denied' };
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
