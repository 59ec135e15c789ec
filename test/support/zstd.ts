/** A zstd frame by hand, and the texts that the frames of test/vectors/zstd were made of. Compresses nothing. */

const MAGIC = Buffer.of(0x28, 0xb5, 0x2f, 0xfd);
const RAW = 0;
const RUN = 1;
const COMPRESSED = 2;

interface FrameOptions {
  /** Window descriptor; default 1 MiB. */
  readonly window?: number;
  /** One byte. */
  readonly dictionary?: number;
  /** Content size, four bytes. */
  readonly size?: number;
  readonly blocks: readonly Buffer[];
}

function block(type: number, size: number, content: Uint8Array, last: boolean): Buffer {
  const head = Buffer.alloc(3);
  head.writeUIntLE((size << 3) | (type << 1) | (last ? 1 : 0), 0, 3);
  return Buffer.concat([head, content]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

export const frame = {
  of({ window = 10 << 3, dictionary, size, blocks }: FrameOptions): Buffer {
    const descriptor = (size === undefined ? 0 : 0x80) | (dictionary === undefined ? 0 : 1);
    const fields = [
      Buffer.of(descriptor, window),
      Buffer.from(dictionary === undefined ? [] : [dictionary]),
      size === undefined ? Buffer.alloc(0) : uint32(size),
    ];
    return Buffer.concat([MAGIC, ...fields, ...blocks]);
  },
  /** A header that announces `size` bytes in a single segment, without any block. */
  single: (size: number): Buffer => Buffer.concat([MAGIC, Buffer.of(0xa0), uint32(size)]),
  raw: (text: string | Uint8Array, last: boolean): Buffer => block(RAW, text.length, Buffer.from(text), last),
  run: (byte: string, times: number, last = true): Buffer => block(RUN, times, Buffer.from(byte), last),
  skippable: (size: number): Buffer => Buffer.concat([uint32(0x184d_2a53), uint32(size), Buffer.alloc(size, 1)]),
};

/** A frame around the content of one compressed block. */
export function compressedFrame(content: readonly number[]): Buffer {
  return frame.of({ blocks: [block(COMPRESSED, content.length, Uint8Array.from(content), true)] });
}

/** `content` as a zstd body of raw blocks: valid, and as long as before. */
export function zstdPlain(content: string | Uint8Array): Buffer {
  const bytes = Buffer.from(content);
  const blocks: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += 100_000) blocks.push(frame.raw(bytes.subarray(at, at + 100_000), false));
  return frame.of({ blocks: [...blocks, frame.raw('', true)] });
}

const WORDS =
  'the of and to model token request answer policy gateway record stream "role": "content": "user" \n {" "} , . 0 1 2 17 2048 response body header proxy'.split(
    ' ',
  );

/** A text that repeats itself near and far, the same each time. */
export function sampleText(length: number): Buffer {
  let text = '';
  for (const value of numbers(1)) {
    const number = value >>> 16;
    text += `${WORDS[(number & 1) === 0 ? number % 7 : number % WORDS.length] ?? ''} `;
    if (number % 97 === 0) text += text.slice(0, number % 4000);
    if (text.length >= length) break;
  }
  return Buffer.from(text.slice(0, length));
}

/** Bytes that do not compress, the same each time. */
export function sampleNoise(length: number): Buffer {
  const source = numbers(7);
  return Buffer.from(Array.from({ length }, () => Number(source.next().value) >>> 24));
}

function* numbers(seed: number): Generator<number> {
  for (let state = seed; ; ) {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    yield state;
  }
}
