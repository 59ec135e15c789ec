import type { AcceptedSocket, Exchange } from '../exchange.ts';
import { relay } from '../relay.ts';
import type { Pipeline } from '../stage.ts';
import { MeteredSocket } from './metered-socket.ts';

/** Joins the two sides of a WebSocket that both have accepted: metered to an AI host, as bytes to any other. */
export function serveSocket(opened: Exchange, { client, upstream }: AcceptedSocket, pipeline: Pipeline): void {
  const { clock, events } = pipeline;
  const kind = opened.opensSocket ? 'metered' : 'relayed';
  const onClosed = (): void => events.webSocketClosed(kind);
  events.webSocketOpened(kind);
  if (opened.opensSocket) new MeteredSocket(opened, pipeline, client, upstream, onClosed).start();
  else relay(client, upstream, clock, onClosed);
}
