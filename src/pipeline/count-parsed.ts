import type { Exchange } from './exchange.ts';

/**
 * Counts what was made of a body beside its bytes. A stage calls it before it waits for anything: what is made and let go of in one turn exists once, whatever the
 * number of calls, and what waits exists with each of them.
 * @throws GatewayError `overloaded`
 */
export function countParsed(exchange: Exchange): void {
  const { parsedBytes } = exchange;
  exchange.held?.take(parsedBytes);
  exchange.parsedBytes = 0;
}
