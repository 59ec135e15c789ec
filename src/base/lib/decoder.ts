import { Transform } from 'node:stream';
import zlib from 'node:zlib';

/** How a decoded body ended: whole, cut by the cap, or not what its encoding says. */
export type DecodeOutcome = 'complete' | 'capped' | 'broken';

/** Decodes a copy of an answer for metering; the bytes that pass are never touched. Works beside the event loop, so what it yields comes later. */
export interface Decoder {
  /** Resolves, never rejects, when all that could be decoded of these bytes was handed on. */
  push(chunk: Uint8Array): Promise<void>;
  /** All bytes were given. Resolves, never rejects, when all that is wanted of them was decoded. */
  end(): Promise<DecodeOutcome>;
  /** The answer does not matter any more. */
  abort(): void;
}

export interface DecoderOptions {
  /** No more decoded bytes than this are handed on. */
  readonly maxBytes: number;
  readonly onData: (chunk: Uint8Array) => void;
}

/** Encoded bytes that may wait while decoding lags behind. */
const MAX_WAITING = 4 * 1024 * 1024;

const FACTORIES: Readonly<Record<string, (first: number) => Transform>> = {
  gzip: () => zlib.createGunzip(),
  'x-gzip': () => zlib.createGunzip(),
  br: () => zlib.createBrotliDecompress(),
  // Some servers send deflate without the zlib envelope that the standard asks for; the envelope's first byte tells.
  deflate: (first) => ((first & 0x0f) === 8 ? zlib.createInflate() : zlib.createInflateRaw()),
  ...zstdFactory(),
};

/** Encodings that can be decoded here; zstd only where this Node has it. */
export const DECODABLE: readonly string[] = Object.keys(FACTORIES);

/**
 * A decoder for a Content-Encoding. Nothing and `identity` hand bytes on at once.
 * @returns undefined for an encoding, or a chain of them, that cannot be decoded: such an answer passes unmetered
 */
export function createDecoder(contentEncoding: string | undefined, options: DecoderOptions): Decoder | undefined {
  const encoding = (contentEncoding ?? '').trim().toLowerCase();
  if (encoding === '' || encoding === 'identity') return new PlainDecoder(options);
  const factory = Object.hasOwn(FACTORIES, encoding) ? FACTORIES[encoding] : undefined;
  return factory === undefined ? undefined : new ZlibDecoder(factory, options);
}

/** Counts what is handed on and cuts it at the cap. */
class Gate {
  readonly #options: DecoderOptions;
  #left: number;
  capped = false;

  constructor(options: DecoderOptions) {
    this.#options = options;
    this.#left = options.maxBytes;
  }

  pass(chunk: Uint8Array): void {
    if (this.capped) return;
    const piece = chunk.length > this.#left ? chunk.subarray(0, this.#left) : chunk;
    this.capped = piece.length < chunk.length;
    this.#left -= piece.length;
    if (piece.length > 0) this.#options.onData(piece);
  }
}

class PlainDecoder implements Decoder {
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
  readonly #factory: (first: number) => Transform;
  readonly #gate: Gate;
  readonly #settled: Promise<DecodeOutcome>;
  #settle: (outcome: DecodeOutcome) => void = () => {};
  readonly #waiting = new Set<() => void>();
  #stream: Transform | undefined;
  #over = false;

  constructor(factory: (first: number) => Transform, options: DecoderOptions) {
    this.#factory = factory;
    this.#gate = new Gate(options);
    this.#settled = new Promise((resolve) => {
      this.#settle = resolve;
    });
  }

  async push(chunk: Uint8Array): Promise<void> {
    if (this.#over || chunk.length === 0) return;
    const stream = this.#stream ?? this.#open(chunk[0] ?? 0);
    this.#stream = stream;
    if (stream.writableLength > MAX_WAITING) this.#finish('capped');
    else await this.#write(stream, chunk);
  }

  /** A stream that is destroyed while it decodes never calls back, so the end of everything releases those who wait too. */
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
    if (this.#stream === undefined) this.#finish('complete');
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
    stream.on('end', () => this.#finish('complete'));
    stream.on('error', () => this.#finish('broken'));
    return stream;
  }

  #finish(outcome: DecodeOutcome): void {
    if (this.#over) return;
    this.#over = true;
    this.#stream?.destroy();
    for (const release of this.#waiting) release();
    this.#settle(outcome);
  }
}

/** Node has it from 22.15 on; the types that this is compiled with do not know it. */
function zstdFactory(): Record<string, () => Transform> {
  const create: unknown = Reflect.get(zlib, 'createZstdDecompress');
  if (typeof create !== 'function') return {};
  return {
    zstd: () => {
      const stream: unknown = Reflect.apply(create, zlib, []);
      return stream instanceof Transform ? stream : zlib.createGunzip();
    },
  };
}
