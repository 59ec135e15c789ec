import type { Readable } from 'node:stream';
import type { ReadingHold } from '../../base/lib/reading-hold.ts';
import type { TinyPieces } from '../../outbound/net/tiny-pieces.ts';

/** Pieces of a body that may wait to be read at once, if they are small. */
const MOST_PIECES = 4_096;
/**
 * Mean length from which on pieces are no longer small, bytes: below it what node keeps about a piece is more than the
 * piece.
 */
const SMALL_PIECE = 64;

export interface PieceWatch {
  /** What the address of the client may still send. */
  readonly tiny: TinyPieces;
  /** Of the connection. */
  readonly hold: ReadingHold;
  /** Called with the piece that is one too many to wait, and with each one after it. */
  onTooMany(): void;
}

/**
 * Watches the pieces of a body on HTTP/2. node:http2 makes an object of each DATA frame and keeps it until it is read,
 * which costs more than a hundred times the byte that it may hold, and its windows count the bytes alone. So only some
 * may wait; and a connection is read no faster than its address may send tiny ones, however fast they are taken
 * (decision 7.12).
 */
export function watchPieces(source: Readable, { tiny, hold, onTooMany }: PieceWatch): void {
  const push = source.push.bind(source);
  let pieces = 0;
  source.push = (piece: unknown): boolean => {
    const more = push(piece);
    const waiting = source.readableLength;
    // Everything was taken before this one came, or by now.
    const isAlone = !(piece instanceof Uint8Array) || waiting <= piece.length;
    pieces = isAlone ? 1 : pieces + 1;
    if (pieces > MOST_PIECES && waiting < pieces * SMALL_PIECE) onTooMany();
    if (!tiny.take(piece)) hold.hold(tiny.waitMs);
    return more;
  };
}
