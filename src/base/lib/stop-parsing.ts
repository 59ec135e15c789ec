import type { Socket } from 'node:net';

/** What node:http takes for a request that changes to another protocol: what stands behind its head is none of its own. */
const NOT_HTTP = 2;
const skip = (): number => NOT_HTTP;

/**
 * Reads no further request of a connection of a `node:http` server that is over. What was read at a time holds thousands of them, and node:http makes the objects of each, also when
 * the connection was reset meanwhile. The body that is arriving still comes. Without effect on a Node without the private parser.
 */
export function stopParsing(socket: Socket): void {
  const parser: unknown = Reflect.get(socket, 'parser');
  if (typeof parser === 'object' && parser !== null && 'onIncoming' in parser) parser.onIncoming = skip;
}
