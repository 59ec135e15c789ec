import type { IncomingMessage } from 'node:http';
import type { Clock } from '../../base/lib/clock.ts';
import type { TinyPieces } from '../../outbound/net/tiny-pieces.ts';

/**
 * Reads a chunked body no faster than its address may send tiny pieces. What is read from a connection at a time holds
 * ten thousand chunks of one byte, and node goes on reading as long as there is something: nobody else would have a
 * turn meanwhile.
 */
export function paceTinyPieces(request: IncomingMessage, tiny: TinyPieces, clock: Pick<Clock, 'after'>): void {
  const push = request.push.bind(request);
  const read = request._read.bind(request);
  let isHeld = false;
  let isWanted = false;
  const release = (): void => {
    isHeld = false;
    if (isWanted && !request.destroyed && !request.complete) read(0);
    isWanted = false;
  };
  request.push = (piece: unknown): boolean => {
    const more = push(piece);
    if (tiny.take(piece)) return more;
    if (!isHeld) clock.after(tiny.waitMs, release);
    isHeld = true;
    // The connection is read no further until more is asked for.
    return false;
  };
  request._read = (size: number): void => {
    if (isHeld) isWanted = true;
    else read(size);
  };
}
