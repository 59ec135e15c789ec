/**
 * One HTTP/1.1 answer as its bytes come, its framing checked. Unlike a whole-answer reader it shows how far an answer
 * got when the connection broke, and tells the framed end from everything before it.
 */
export class H1Answer {
  #held: Buffer = Buffer.alloc(0);
  #state: 'head' | 'length' | 'size' | 'chunk' | 'chunk-end' | 'trailers' | 'complete' = 'head';
  #left = 0;
  status = 0;
  readonly headers: Record<string, string> = {};

  readonly #onBody: (piece: Buffer) => void;

  /** @param onBody called for each piece of the body */
  constructor(onBody: (piece: Buffer) => void) {
    this.#onBody = onBody;
  }

  get complete(): boolean {
    return this.#state === 'complete';
  }

  /** @throws Error when the bytes are no HTTP/1.1 answer, or more than one */
  push(bytes: Buffer): void {
    this.#held = this.#held.length === 0 ? bytes : Buffer.concat([this.#held, bytes]);
    while (this.#step());
    if (this.complete && this.#held.length > 0) throw new Error('bytes behind the end of the answer');
  }

  /** True when there may be more to do with what is held. */
  #step(): boolean {
    switch (this.#state) {
      case 'head':
        return this.#line('\r\n\r\n', (head) => this.#readHead(head));
      case 'size':
        return this.#line('\r\n', (line) => this.#readSize(line));
      case 'chunk-end':
        return this.#line('\r\n', (line) => {
          if (line !== '') throw new Error('a chunk is longer than it says');
          this.#state = 'size';
        });
      case 'trailers':
        return this.#line('\r\n', (line) => {
          if (line === '') this.#state = 'complete';
        });
      case 'length':
      case 'chunk':
        return this.#body();
      case 'complete':
        return false;
    }
  }

  #line(mark: string, read: (text: string) => void): boolean {
    const at = this.#held.indexOf(mark, 0, 'latin1');
    if (at === -1) return false;
    const text = this.#held.toString('latin1', 0, at);
    this.#held = this.#held.subarray(at + mark.length);
    read(text);
    return true;
  }

  #readHead(head: string): void {
    const [statusLine = '', ...fields] = head.split('\r\n');
    const status = /^HTTP\/1\.1 (\d{3})/.exec(statusLine)?.[1];
    if (status === undefined) throw new Error(`not a status line: ${statusLine}`);
    this.status = Number(status);
    for (const field of fields) {
      const colon = field.indexOf(':');
      if (colon < 1) throw new Error(`not a header field: ${field}`);
      this.headers[field.slice(0, colon).toLowerCase()] = field.slice(colon + 1).trim();
    }
    const length = this.headers['content-length'];
    if (this.headers['transfer-encoding'] === 'chunked') this.#state = 'size';
    else if (length === undefined) throw new Error('an answer without framing');
    else this.#expect('length', Number(length));
  }

  #readSize(line: string): void {
    if (!/^[0-9a-f]+$/i.test(line)) throw new Error(`not a chunk size: ${JSON.stringify(line)}`);
    const size = Number.parseInt(line, 16);
    if (size === 0) this.#state = 'trailers';
    else this.#expect('chunk', size);
  }

  #expect(state: 'length' | 'chunk', bytes: number): void {
    this.#left = bytes;
    this.#state = state === 'length' && bytes === 0 ? 'complete' : state;
  }

  #body(): boolean {
    const piece = this.#held.subarray(0, this.#left);
    if (piece.length === 0) return false;
    this.#held = this.#held.subarray(piece.length);
    this.#left -= piece.length;
    this.#onBody(piece);
    if (this.#left > 0) return false;
    this.#state = this.#state === 'length' ? 'complete' : 'chunk-end';
    return true;
  }
}
