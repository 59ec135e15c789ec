const LINE_FEED = 0x0a;

/** A line, or that one was longer than is read: its rest is passed over. */
export type LineRead = { readonly line: Buffer } | { readonly tooLong: true };

/** Lines of a stream of bytes; what is kept of one is bounded. */
export class LineReader {
  readonly #limit: number;
  #parts: Buffer[] = [];
  #size = 0;
  #skipping = false;

  /** @param limit bytes of a line without its end */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Lines that these bytes complete. */
  *read(chunk: Buffer): Generator<LineRead> {
    let rest = chunk;
    for (let end = rest.indexOf(LINE_FEED); end !== -1; end = rest.indexOf(LINE_FEED)) {
      const found = this.#take(rest.subarray(0, end));
      if (found !== undefined) yield found;
      if (!this.#skipping) yield { line: this.#completed() };
      this.#skipping = false;
      rest = rest.subarray(end + 1);
    }
    const found = this.#take(rest);
    if (found !== undefined) yield found;
  }

  #take(part: Buffer): LineRead | undefined {
    if (this.#skipping) return undefined;
    if (this.#size + part.length > this.#limit) {
      this.#completed();
      this.#skipping = true;
      return { tooLong: true };
    }
    if (part.length > 0) this.#parts.push(part);
    this.#size += part.length;
    return undefined;
  }

  #completed(): Buffer {
    const line = Buffer.concat(this.#parts);
    this.#parts = [];
    this.#size = 0;
    return line;
  }
}
