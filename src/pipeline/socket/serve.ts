import type { LineGround } from '../parts/call-services.ts';
import type { AcceptedSocket } from '../parts/handshake.ts';
import { callUnderWay } from '../parts/known.ts';
import type { Known } from '../parts/parts.ts';
import { MeteredSocket } from './metered-socket.ts';
import { relay } from './relay.ts';

/** Joins the two sides of a WebSocket that both have accepted: metered to an AI host, as bytes to any other. */
export function serveSocket(handshake: Known, { client, upstream }: AcceptedSocket, pipeline: LineGround): void {
  const { clock, events, running, orgs } = pipeline;
  const { arrival, claims, route } = handshake;
  const isMetered = handshake.target?.opensSocket === true;
  const kind = isMetered ? 'metered' : 'relayed';
  let unwatch: () => void = () => undefined;
  const onClosed = (): void => {
    unwatch();
    events.emit('webSocketClosed', kind);
  };
  events.emit('webSocketOpened', kind);
  if (!isMetered) {
    const end = relay(client, upstream, clock, onClosed);
    if (!claims) return;
    // Calls of a metered one are refused one by one.
    const unwatchOrg = orgs.watch(() => !orgs.isActive(claims.orgId), end);
    const unwatchCall = running.watch(callUnderWay(arrival, claims, route), end);
    unwatch = () => {
      unwatchOrg();
      unwatchCall();
    };
    return;
  }
  const socket = new MeteredSocket(handshake, pipeline, client, upstream, onClosed);
  socket.start();
  if (claims) unwatch = running.watch(callUnderWay(arrival, claims, route), (why) => socket.endHeld(why));
}
