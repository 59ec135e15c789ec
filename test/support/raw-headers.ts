/**
 * The flat name, value list of undici's header buffers: order, spelling and duplicates as received, bytes as Latin-1.
 * The buffers are usually windows on one chunk of the socket, which is then decoded once and cut.
 */
export function decodeRawHeaders(raw: readonly Buffer[]): string[] {
  const decoded = new Array<string>(raw.length);
  const first = raw[0];
  const last = raw[raw.length - 1];
  if (first === undefined || last === undefined) return decoded;
  const memory = first.buffer;
  const start = first.byteOffset;
  const end = last.byteOffset + last.length;
  // A field that arrived in two pieces was copied and lies elsewhere; so does an empty one, perhaps.
  const whole =
    last.buffer === memory && end > start && end - start <= MAX_HEAD ? Buffer.from(memory, start, end - start).toString('latin1') : '';
  for (let i = 0; i < raw.length; i++) {
    const piece = raw[i] ?? first;
    const from = piece.byteOffset - start;
    const to = from + piece.length;
    const inside = piece.buffer === memory && from >= 0 && to <= whole.length;
    decoded[i] = inside ? whole.slice(from, to) : piece.toString('latin1');
  }
  return decoded;
}

/** Beyond it the buffers are not from one head, and decoding everything between them would be waste. */
const MAX_HEAD = 65_536;
