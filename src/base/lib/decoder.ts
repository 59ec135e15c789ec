import type { Transform } from 'node:stream';
import zlib from 'node:zlib';
import { type DecodeOutcome, type Decoder, type DecoderOptions, Gate } from './decoder-gate.ts';
import { ZstdDecoder } from './zstd/zstd-decoder.ts';

/** Encoded bytes that may wait while decoding lags behind. */
const MAX_WAITING = 4 * 1024 * 1024;

type Factory = (first: number) => Transform;

const ZLIB: Readonly<Record<string, Factory>> = {
  gzip: () => zlib.createGunzip(),
  br: () => zlib.createBrotliDecompress(),
  // Some senders leave out the zlib envelope that the standard asks for; the envelope's first byte tells.
  deflate: (first) => ((first & 0x0f) === 8 ? zlib.createInflate() : zlib.createInflateRaw()),
};

/** Names of the encodings that can be decoded. */
export const DECODABLE: readonly string[] = [...Object.keys(ZLIB), 'zstd'];

/**
 * The one encoding that a Content-Encoding names, in lower case and by its usual name; undefined when it is absent or
 * says that there is none. Elements of its list that are empty or `identity` say nothing (RFC 9110 §5.6.1, §8.4.1);
 * what a chain of encodings is told as cannot be decoded.
 */
export function encodingOf(contentEncoding: string | undefined): string | undefined {
  if (contentEncoding === undefined) return undefined;
  const text = contentEncoding.trim().toLowerCase();
  if (!text.includes(',')) return usualName(text);
  const said = text.split(',').flatMap((element) => usualName(element.trim()) ?? []);
  return said.length > 1 ? said.join(', ') : said[0];
}

function usualName(coding: string): string | undefined {
  if (coding === '' || coding === 'identity') return undefined;
  return coding === 'x-gzip' ? 'gzip' : coding;
}

/**
 * A decoder for a Content-Encoding, of a request or of an answer. Nothing and `identity` hand bytes on at once.
 * @returns undefined for an encoding, or a chain of them, that cannot be decoded
 */
export function createDecoder(contentEncoding: string | undefined, options: DecoderOptions): Decoder | undefined {
  const encoding = encodingOf(contentEncoding);
  if (encoding === undefined) return new PlainDecoder(options);
  if (encoding === 'zstd') return new ZstdDecoder(options, MAX_WAITING);
  const factory = Object.hasOwn(ZLIB, encoding) ? ZLIB[encoding] : undefined;
  return factory === undefined ? undefined : new ZlibDecoder(factory, options);
}

class PlainDecoder implements Decoder {
  readonly reason = undefined;
  readonly #gate: Gate;

  constructor(options: DecoderOptions) {
    this.#gate = new Gate(options);
  }

  async push(chunk: Uint8Array): Promise<void> {
    this.#gate.pass(chunk);
  }

  async end(): Promise<DecodeOutcome> {
    return this.#gate.capped ? 'capped' : 'complete';
  }

  abort(): void {}
}

class ZlibDecoder implements Decoder {
  readonly reason = undefined;
  readonly #factory: Factory;
  readonly #gate: Gate;
  readonly #settled: Promise<DecodeOutcome>;
  #settle: (outcome: DecodeOutcome) => void = () => {};
  readonly #waiting = new Set<() => void>();
  #stream: Transform | undefined;
  #given = 0;
  /** Everything that the encoding means was decoded; more bytes would not belong to it. */
  #decoded = false;
  #ended = false;
  #over = false;

  constructor(factory: Factory, options: DecoderOptions) {
    this.#factory = factory;
    this.#gate = new Gate(options);
    this.#settled = new Promise((resolve) => {
      this.#settle = resolve;
    });
  }

  async push(chunk: Uint8Array): Promise<void> {
    if (this.#over || chunk.length === 0) return;
    this.#given += chunk.length;
    if (this.#decoded) return;
    const stream = this.#stream ?? this.#open(chunk[0] ?? 0);
    this.#stream = stream;
    if (stream.writableLength > MAX_WAITING) this.#finish('capped');
    else await this.#write(stream, chunk);
  }

  /**
   * A stream that is destroyed while it decodes never calls back, so the end of everything releases those who wait too.
   */
  #write(stream: Transform, chunk: Uint8Array): Promise<void> {
    return new Promise((resolve) => {
      const release = (): void => {
        this.#waiting.delete(release);
        resolve();
      };
      this.#waiting.add(release);
      stream.write(chunk, release);
    });
  }

  end(): Promise<DecodeOutcome> {
    this.#ended = true;
    if (this.#stream === undefined) this.#finish('complete');
    else if (this.#decoded) this.#finishDecoded(this.#stream);
    else if (!this.#over) this.#stream.end();
    return this.#settled;
  }

  abort(): void {
    this.#finish('broken');
  }

  #open(first: number): Transform {
    const stream = this.#factory(first);
    stream.on('data', (chunk: Uint8Array) => {
      if (this.#over) return;
      this.#gate.pass(chunk);
      if (this.#gate.capped) this.#finish('capped');
    });
    stream.on('end', () => {
      this.#decoded = true;
      this.#release();
      if (this.#ended) this.#finishDecoded(stream);
    });
    stream.on('error', () => this.#finish('broken'));
    return stream;
  }

  /** Bytes behind the end would be read by one receiver and not by another. */
  #finishDecoded(stream: Transform): void {
    const taken: unknown = Reflect.get(stream, 'bytesWritten');
    this.#finish(taken === this.#given ? 'complete' : 'broken');
  }

  #release(): void {
    for (const release of this.#waiting) release();
  }

  #finish(outcome: DecodeOutcome): void {
    if (this.#over) return;
    this.#over = true;
    this.#stream?.destroy();
    this.#release();
    this.#settle(outcome);
  }
}
