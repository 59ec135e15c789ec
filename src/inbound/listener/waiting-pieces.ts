import type { Readable } from 'node:stream';

/** Pieces of a body that may wait to be read at once, if they are small. */
const MOST_PIECES = 4_096;
/** Mean length from which on pieces are no longer small, bytes: below it what node keeps about a piece is more than the piece. */
const SMALL_PIECE = 64;

/**
 * Watches the pieces of a body that wait to be read. node:http2 keeps each DATA frame as an object of its own until then, which costs more than a hundred times the byte that it may
 * hold, and its windows count the bytes alone.
 * @param onTooMany called with the piece that is one too many, and with each one after it
 */
export function watchWaitingPieces(source: Readable, onTooMany: () => void): void {
  const push = source.push.bind(source);
  let pieces = 0;
  source.push = (piece: unknown): boolean => {
    const more = push(piece);
    const waiting = source.readableLength;
    // Everything was taken before this one came, or by now.
    const isAlone = !(piece instanceof Uint8Array) || waiting <= piece.length;
    pieces = isAlone ? 1 : pieces + 1;
    if (pieces > MOST_PIECES && waiting < pieces * SMALL_PIECE) onTooMany();
    return more;
  };
}
