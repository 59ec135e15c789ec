import { rewriteCallEvent } from '../../inbound/normalise/socket-event.ts';
import type { Exchange } from '../exchange.ts';
import { deny } from '../refusals.ts';
import type { Stage } from '../stage.ts';

/** A call on an open socket can go nowhere else, and what policy changes of it must have a place in the client's event; otherwise it is refused. */
export const stayOnSocket: Stage = {
  name: 'stay on socket',
  run(exchange) {
    const call = exchange.socketCall;
    if (!call || (!exchange.changedByPolicy && exchange.connectorId === call.opened.connectorId)) return undefined;
    if (hasMoved(exchange, call.opened)) {
      return deny('mutation_not_applicable', 'Policy sends this call elsewhere or changes its head, but its WebSocket is open already.');
    }
    const rewritten = call.event && rewriteCallEvent(call.event, exchange.changes);
    if (rewritten === undefined) {
      const keys = exchange.changes.map(({ key }) => key).join(', ');
      return deny('mutation_not_applicable', `Policy changes ${keys}, which an event of this WebSocket cannot say.`);
    }
    exchange.sendBytes = rewritten;
    exchange.stream = true;
    return undefined;
  },
};

function hasMoved(exchange: Exchange, opened: Exchange): boolean {
  return (
    exchange.connectorId !== opened.connectorId ||
    exchange.host !== opened.host ||
    exchange.path !== opened.path ||
    exchange.method !== opened.method ||
    exchange.headers.join('\n') !== opened.headers.join('\n')
  );
}
