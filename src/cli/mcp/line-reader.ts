import { ByteCollector } from '../../base/lib/byte-collector.ts';

const LINE_FEED = 0x0a;

/** A line, or that one was longer than is read: its rest is passed over. */
export type LineRead = { readonly line: Buffer } | { readonly tooLong: true };

/** Lines of a stream of bytes; what is kept of one is bounded. */
export class LineReader {
  readonly #limit: number;
  readonly #held = new ByteCollector();
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
      if (!this.#skipping) yield { line: this.#held.take() };
      this.#skipping = false;
      rest = rest.subarray(end + 1);
    }
    const found = this.#take(rest);
    if (found !== undefined) yield found;
  }

  #take(part: Buffer): LineRead | undefined {
    if (this.#skipping) return undefined;
    if (this.#held.size + part.length > this.#limit) {
      this.#held.take();
      this.#skipping = true;
      return { tooLong: true };
    }
    this.#held.push(part);
    return undefined;
  }
}
