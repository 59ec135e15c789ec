/** RFC 9113 §6. */
export const FRAME = { data: 0, headers: 1, rstStream: 3, settings: 4, pushPromise: 5, ping: 6, windowUpdate: 8, continuation: 9 } as const;
export const END_STREAM = 1;
export const END_HEADERS = 4;

/** One frame, written by hand. */
export function frame(type: number, flags: number, stream: number, payload: Uint8Array = new Uint8Array(0)): Buffer {
  const bytes = Buffer.alloc(9 + payload.length);
  bytes.writeUIntBE(payload.length, 0, 3);
  bytes[3] = type;
  bytes[4] = flags;
  bytes.writeUInt32BE(stream, 5);
  bytes.set(payload, 9);
  return bytes;
}

/**
 * A field list as it is written without tables and without Huffman's code (RFC 7541 §6.2.2), so that a name may stand
 * there as often as wanted.
 */
export function literalFields(flat: readonly string[]): Buffer {
  const pieces: Buffer[] = [];
  for (let at = 0; at + 1 < flat.length; at += 2) pieces.push(Buffer.from([0]), literal(flat[at] ?? ''), literal(flat[at + 1] ?? ''));
  return Buffer.concat(pieces);
}

function literal(text: string): Buffer {
  const bytes = Buffer.from(text, 'latin1');
  if (bytes.length < 127) return Buffer.concat([Buffer.from([bytes.length]), bytes]);
  const length = [127];
  let rest = bytes.length - 127;
  for (; rest >= 128; rest = Math.floor(rest / 128)) length.push((rest % 128) + 128);
  length.push(rest);
  return Buffer.concat([Buffer.from(length), bytes]);
}

/** Length of the value of {@link DEAR}. */
export const DEAR_BYTES = 4_000;
/**
 * A field `x-a` that goes into the table of RFC 7541 §2.3.2, which has 4,096 bytes: as the newest entry it is {@link
 * AGAIN}, one byte, from then on.
 */
export const DEAR = Buffer.concat([
  Buffer.from([0x40, 3]),
  Buffer.from('x-a'),
  Buffer.from([0x7f, 0xa1, 0x1e]),
  Buffer.alloc(DEAR_BYTES, 'a'),
]);
export const AGAIN = 0x80 | 62;

export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
}

/** Takes bytes as they come, gives the frames that are complete. */
export class FrameReader {
  #held = Buffer.alloc(0);

  push(chunk: Uint8Array): Frame[] {
    this.#held = Buffer.concat([this.#held, chunk]);
    const frames: Frame[] = [];
    for (;;) {
      const held = this.#held;
      const end = held.length < 9 ? Number.POSITIVE_INFINITY : 9 + held.readUIntBE(0, 3);
      if (held.length < end) return frames;
      frames.push({ type: held[3] ?? 0, flags: held[4] ?? 0, stream: held.readUInt32BE(5), payload: held.subarray(9, end) });
      this.#held = held.subarray(end);
    }
  }
}
