import { uuidv7 } from '../base/lib/uuidv7.ts';
import type { Arrival, ArrivalHead } from '../base/model/arrival.ts';
import type { ConnectionType } from '../base/model/connection.ts';
import { callerIp } from '../inbound/normalise/identity.ts';
import { type Door, Exchange, type SocketCall } from './exchange.ts';
import type { Pipeline } from './stage.ts';

/** The exchange of one request, before anything is known of it but its head. */
export function begin(
  door: Door,
  from: { head: ArrivalHead } & Partial<Arrival>,
  connectionType: ConnectionType,
  pipeline: Pipeline,
): Exchange {
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

/** A call on an open WebSocket, ready to walk the line. */
export function beginSocketCall(call: SocketCall, pipeline: Pipeline): Exchange {
  const { opened } = call;
  const head = { ...opened.head, startedAt: pipeline.clock.monotonic() };
  const exchange = begin('socket', { head }, opened.connectionType, pipeline);
  exchange.socketCall = call;
  return exchange;
}
