import { rewriteCallEvent } from '../../inbound/normalise/socket-event.ts';
import type { OpenedSocket, Parts } from '../parts/parts.ts';
import { deny } from '../parts/refusal.ts';
import { defineStage } from '../parts/stage.ts';

type Read = Pick<Parts, 'route' | 'mutated'>;

/**
 * A call on an open socket can go nowhere else, and what policy changes of it must have a place in the client's event;
 * otherwise it is refused.
 */
export const stayOnSocket = defineStage({
  name: 'stay on socket',
  reads: ['arrival', 'mutation', 'mutated', 'route'],
  makes: ['outgoing'],
  run({ arrival, mutation, mutated, route }) {
    const call = arrival.socketCall;
    const asItIs = { headers: mutated.headers, bytes: undefined, hidesUsage: false };
    if (!call || (mutation.changes.length === 0 && route.connectorId === call.opened.route.connectorId)) return { outgoing: asItIs };
    if (hasMoved({ route, mutated }, call.opened)) {
      return deny('mutation_not_applicable', 'Policy sends this call elsewhere or changes its head, but its WebSocket is open already.');
    }
    const bytes = call.event && rewriteCallEvent(call.event, mutation.changes);
    if (bytes === undefined) {
      const keys = mutation.changes.map(({ key }) => key).join(', ');
      return deny('mutation_not_applicable', `Policy changes ${keys}, which an event of this WebSocket cannot say.`);
    }
    return { outgoing: { ...asItIs, bytes } };
  },
});

function hasMoved({ route, mutated }: Read, { route: opened, headers }: OpenedSocket): boolean {
  return (
    route.connectorId !== opened.connectorId ||
    route.host !== opened.host ||
    route.path !== opened.path ||
    route.method !== opened.method ||
    mutated.headers.join('\n') !== headers.join('\n')
  );
}
