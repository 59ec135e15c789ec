import type { LineGround } from '../parts/call-services.ts';
import type { AcceptedSocket } from '../parts/handshake.ts';
import { callerOf } from '../parts/known.ts';
import type { Known } from '../parts/parts.ts';
import { MeteredSocket } from './metered-socket.ts';
import { relay } from './relay.ts';

/** Joins the two sides of a WebSocket that both have accepted: metered to an AI host, as bytes to any other. */
export function serveSocket(handshake: Known, { client, upstream }: AcceptedSocket, pipeline: LineGround): void {
  const { clock, events, running } = pipeline;
  const isMetered = handshake.target?.opensSocket === true;
  const kind = isMetered ? 'metered' : 'relayed';
  let unwatch: () => void = () => undefined;
  const onClosed = (): void => {
    unwatch();
    events.emit('webSocketClosed', kind);
  };
  events.emit('webSocketOpened', kind);
  if (!isMetered) {
    relay(client, upstream, clock, onClosed);
    return;
  }
  const socket = new MeteredSocket(handshake, pipeline, client, upstream, onClosed);
  socket.start();
  if (handshake.claims) unwatch = running.watch(callerOf(handshake.arrival, handshake.claims), () => socket.endHeld());
}
