import type { Readable } from 'node:stream';
import type { TinyPieces } from './tiny-pieces.ts';

/** Pieces of a body that may wait to be read at once, if they are small. */
const MOST_PIECES = 4_096;
/** Tiny pieces that a body may still bring when its address has sent as many as it may: others of that address are not to suffer from one. */
const MOST_BEYOND = 1_024;
/** Mean length from which on pieces are no longer small, bytes: below it what node keeps about a piece is more than the piece. */
const SMALL_PIECE = 64;

/**
 * Watches the pieces of a body that wait to be read. node:http2 keeps each DATA frame as an object of its own until then, which costs more than a hundred times the byte that it may
 * hold, and its windows count the bytes alone. Tiny ones that are read at once cost time all the same: how many an address may send is `tiny`. A connection of many streams cannot be
 * made to wait for one of them, so that this one ends.
 * @param onTooMany called with the piece that is one too many, and with each one after it
 */
export function watchWaitingPieces(source: Readable, tiny: TinyPieces, onTooMany: () => void): void {
  const push = source.push.bind(source);
  let pieces = 0;
  let beyond = 0;
  source.push = (piece: unknown): boolean => {
    const more = push(piece);
    const waiting = source.readableLength;
    // Everything was taken before this one came, or by now.
    const isAlone = !(piece instanceof Uint8Array) || waiting <= piece.length;
    pieces = isAlone ? 1 : pieces + 1;
    if (pieces > MOST_PIECES && waiting < pieces * SMALL_PIECE) onTooMany();
    if (piece instanceof Uint8Array && !tiny.takeIfLeft(piece)) {
      beyond += 1;
      if (beyond > MOST_BEYOND) onTooMany();
    }
    return more;
  };
}
