import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import t from 'tap';
import { createDecoder, encodingOf } from '../../../src/base/lib/decoder.ts';
import type { DecodeOutcome } from '../../../src/base/lib/decoder-gate.ts';
import { packageRoot } from '../../../src/base/lib/package-root.ts';
import { cpuClock } from '../../support/cpu-clock.ts';
import { compressedFrame, frame, sampleNoise, sampleText, zstdPlain } from '../../support/zstd.ts';

async function decode(
  encoding: string,
  bytes: Uint8Array,
  maxBytes: number,
  size = 7,
): Promise<{ text: string; outcome: DecodeOutcome } | undefined> {
  const parts: Uint8Array[] = [];
  const decoder = createDecoder(encoding, { maxBytes, onData: (chunk) => void parts.push(Buffer.from(chunk)) });
  if (decoder === undefined) return undefined;
  for (let at = 0; at < bytes.length; at += size) await decoder.push(bytes.subarray(at, at + size));
  const outcome = await decoder.end();
  return { text: Buffer.concat(parts).toString(), outcome };
}

t.test('each encoding is decoded', async (t) => {
  const text = JSON.stringify({ usage: { prompt_tokens: 1 }, pad: 'y'.repeat(500) });
  const table: readonly [string, Uint8Array][] = [
    ['', Buffer.from(text)],
    ['identity', Buffer.from(text)],
    ['gzip', gzipSync(text)],
    [' GZIP ', gzipSync(text)],
    ['x-gzip', gzipSync(text)],
    ['br', brotliCompressSync(text)],
    ['deflate', deflateSync(text)],
    ['deflate', deflateRawSync(text)],
    ['zstd', zstdPlain(text)],
  ];
  for (const [encoding, bytes] of table) t.strictSame(await decode(encoding, bytes, 10_000), { text, outcome: 'complete' }, encoding);
  t.equal(createDecoder('gzip, br', { maxBytes: 1, onData() {} }), undefined, 'chains are not decoded');
  t.equal(createDecoder('constructor', { maxBytes: 1, onData() {} }), undefined);
});

t.test('a bomb is cut at the cap, a broken body says so', async (t) => {
  const bomb = gzipSync(Buffer.alloc(50_000_000));
  const seen = await decode('gzip', bomb, 100_000, 1024);
  t.strictSame([seen?.outcome, seen?.text.length], ['capped', 100_000]);
  t.strictSame((await decode('', Buffer.from('abcdef'), 4))?.text, 'abcd');
  t.equal((await decode('gzip', Buffer.from('no gzip at all'), 100))?.outcome, 'broken');
  t.equal((await decode('br', brotliCompressSync('hello world').subarray(0, 6), 100))?.outcome, 'broken');
  t.equal((await decode('gzip', new Uint8Array(0), 100))?.outcome, 'complete');
});

t.test('when a push has resolved, what it could yield was handed on', async (t) => {
  const encoded = gzipSync('a'.repeat(1000));
  let yielded = 0;
  const decoder = createDecoder('gzip', { maxBytes: 500, onData: (chunk) => (yielded += chunk.length) });
  await decoder?.push(encoded);
  t.equal(yielded, 500, 'and the cap does not leave it waiting');
  await decoder?.push(encoded);
  t.equal(await decoder?.end(), 'capped');
});

t.test('a push that is being decoded when the decoder ends does not wait for ever', async (t) => {
  const capped = createDecoder('gzip', { maxBytes: 1, onData() {} });
  await capped?.push(gzipSync(Buffer.alloc(10_000_000)));
  t.equal(await capped?.end(), 'capped');
  const broken = createDecoder('br', { maxBytes: 100, onData() {} });
  await broken?.push(Buffer.from('\u00ff not brotli at all'));
  t.equal(await broken?.end(), 'broken');
  const aborted = createDecoder('gzip', { maxBytes: 100, onData() {} });
  const pushed = aborted?.push(gzipSync('x'));
  aborted?.abort();
  await pushed;
  t.pass('released by abort');
});

t.test('an aborted decoder ends at once', async (t) => {
  const decoder = createDecoder('gzip', { maxBytes: 100, onData: () => t.fail('nothing is handed on') });
  void decoder?.push(gzipSync('x'));
  decoder?.abort();
  t.equal(await decoder?.end(), 'broken');
});

t.test('bytes behind the end of what was compressed make it broken, at once or one by one', async (t) => {
  for (const [encoding, bytes] of [
    ['gzip', gzipSync('x')],
    ['deflate', deflateSync('x')],
    ['deflate', deflateRawSync('x')],
    ['br', brotliCompressSync('x')],
    ['zstd', zstdPlain('x')],
  ] as const) {
    const longer = Buffer.concat([bytes, Buffer.alloc(3)]);
    for (const size of [1, 100]) t.equal((await decode(encoding, longer, 100, size))?.outcome, 'broken', `${encoding} ${size}`);
    for (const size of [1, 100])
      t.equal((await decode(encoding, bytes.subarray(0, -1), 100, size))?.outcome, 'broken', `${encoding} cut ${size}`);
  }
});

t.test('a Content-Encoding names one encoding, or none', async (t) => {
  const none = [undefined, '', ' Identity', 'identity, IDENTITY', ',', ' , ,identity'];
  t.strictSame(
    none.map(encodingOf),
    none.map(() => undefined),
  );
  const one = [' X-GZip ', 'gzip, identity', 'Identity,GZIP', ',, gzip ,', 'x-gzip,identity'];
  t.strictSame(
    one.map(encodingOf),
    one.map(() => 'gzip'),
  );
  t.strictSame(['gzip, br', 'gzip,identity,gzip', 'x-gzip;q=1'].map(encodingOf), ['gzip, br', 'gzip, gzip', 'x-gzip;q=1']);
});

const vector = (name: string): Buffer => readFileSync(join(packageRoot(), 'test', 'vectors', 'zstd', `${name}.zst`));

/** What the frames of test/vectors/zstd hold (SOURCE.txt there). */
const VECTORS: Readonly<Record<string, Buffer>> = {
  'level-1': sampleText(300_000),
  'level-3': sampleText(300_000),
  'level-19': sampleText(300_000),
  'fast-no-check': sampleText(300_000).subarray(0, 150_000),
  'window-1k': sampleText(300_000).subarray(0, 40_000),
  short: sampleText(300_000).subarray(0, 700),
  tiny: Buffer.from('{}'),
  run: Buffer.alloc(500_000, 'a'),
  noise: sampleNoise(3000),
  empty: Buffer.alloc(0),
};

t.test('zstd: what the reference implementation compressed comes out byte for byte, however it is cut', async (t) => {
  for (const [name, plain] of Object.entries(VECTORS)) {
    const whole = await decodeBytes(vector(name), 1_000_000, 1_000_000);
    t.equal(whole.outcome, 'complete', name);
    t.ok(whole.bytes.equals(plain), `${name} in one piece`);
    for (const size of [1, 7, 5000])
      t.ok((await decodeBytes(vector(name), 1_000_000, size)).bytes.equals(plain), `${name} in pieces of ${size}`);
  }
  const several = Buffer.concat([vector('tiny'), frame.skippable(5), vector('short'), frame.skippable(0), vector('window-1k')]);
  const { outcome, bytes } = await decodeBytes(several, 1_000_000, 3);
  t.equal(outcome, 'complete');
  t.ok(
    bytes.equals(
      Buffer.concat([VECTORS['tiny'] ?? '', VECTORS['short'] ?? '', VECTORS['window-1k'] ?? ''].map((part) => Buffer.from(part))),
    ),
    'frames follow each other',
  );
});

t.test('zstd: every cut of a body is broken and hands on nothing that is not in it', async (t) => {
  const plain = VECTORS['window-1k'] ?? Buffer.alloc(0);
  const bytes = vector('window-1k');
  for (let length = 1; length < bytes.length; length += 37) {
    const cut = await decodeBytes(bytes.subarray(0, length), 1_000_000, 1_000_000);
    if (cut.outcome !== 'broken' || !plain.subarray(0, cut.bytes.length).equals(cut.bytes)) t.fail(`cut at ${length}: ${cut.outcome}`);
  }
  t.pass('every cut');
});

t.test('zstd: no change of a byte makes it throw, stall or pass its bounds', async (t) => {
  const seen = new Set<string>();
  for (const name of ['short', 'window-1k', 'tiny', 'noise', 'fast-no-check']) {
    const bytes = vector(name);
    for (let at = 0; at < bytes.length; at += Math.ceil(bytes.length / 400)) {
      for (const flip of [0x01, 0x80, 0xff]) {
        const changed = Buffer.from(bytes);
        changed[at] = (changed[at] ?? 0) ^ flip;
        const { spent } = cpuClock();
        const { outcome, bytes: out } = await decodeBytes(changed, 200_000, 1_000_000);
        seen.add(outcome);
        if (out.length > 200_000 || spent() > 5_000) t.fail(`${name} at ${at}`);
      }
    }
  }
  t.ok(seen.has('broken') && seen.has('complete'));
});

t.test('zstd: a frame header cannot ask for more than is decoded', async (t) => {
  const window = (descriptor: number): Buffer => frame.of({ window: descriptor, blocks: [frame.raw('x', true)] });
  t.equal((await decodeBytes(window(13 << 3), 100, 100)).outcome, 'complete', '8 MiB is taken');
  const large = createDecoder('zstd', { maxBytes: 100, onData: () => t.fail('nothing is decoded') });
  await large?.push(window((13 << 3) | 1).subarray(0, 6));
  t.equal(await large?.end(), 'refused', '9 MiB is not, and six bytes are enough to know');
  t.match(large?.reason, /window/);
  t.equal((await decodeBytes(window(0xff), 100, 100)).outcome, 'refused');
  t.equal((await decodeBytes(frame.single(9 * 1024 * 1024), 100_000_000, 100)).outcome, 'refused', 'a single segment is its own window');
  t.equal(
    (await decodeBytes(frame.single(1_000_000), 999_999, 100)).outcome,
    'capped',
    'the announced size is believed when it is too large',
  );
  t.equal((await decodeBytes(frame.of({ dictionary: 7, blocks: [frame.raw('x', true)] }), 100, 100)).outcome, 'refused');
  t.equal(
    (await decodeBytes(frame.of({ dictionary: 0, blocks: [frame.raw('x', true)] }), 100, 100)).outcome,
    'complete',
    'dictionary 0 is none',
  );
  const many = Buffer.concat(new Array<Buffer>(70_000).fill(frame.skippable(0)));
  t.equal((await decodeBytes(many, 100, 1_000_000)).outcome, 'refused', 'a body of nothing but frames');
});

t.test('zstd: what makes lax decoders run for ever is refused at once', async (t) => {
  // 98,047 sequences of the longest copies, coded in no bits at all.
  const sequences = [0x00, 255, 0xff, 0xff, 0x54, 35, 0, 52, 0x01];
  // A tree whose weights are one symbol that takes no bits.
  const tree = [0x02 | (1 << 4), 0x80, 0x01, 4, 0x10, 0x3f, 0x00, 0x01, 0x01, 0];
  for (const content of [sequences, tree, [], [0], [3, 0, 0, 0], [0, 1, 3, 0], [0, 1, 0xfc, 0, 0, 0, 1]]) {
    const { spent } = cpuClock();
    t.equal((await decodeBytes(compressedFrame(content), 1_000_000, 1_000_000)).outcome, 'broken', JSON.stringify(content));
    t.ok(spent() < 5_000);
  }
});

t.test('zstd: sizes that contradict each other are broken', async (t) => {
  const outcome = async (bytes: Uint8Array): Promise<DecodeOutcome> => (await decodeBytes(bytes, 1_000_000, 1_000_000)).outcome;
  t.equal(await outcome(frame.of({ size: 2, blocks: [frame.raw('x', true)] })), 'broken', 'shorter than it says');
  t.equal(await outcome(frame.of({ size: 1, blocks: [frame.raw('xy', true)] })), 'broken', 'longer than it says');
  t.equal(await outcome(frame.of({ window: 0, blocks: [frame.raw('x'.repeat(1025), true)] })), 'broken', 'a block larger than the window');
  t.equal(await outcome(frame.of({ window: 8 << 3, blocks: [frame.run('x', 128 * 1024 + 1)] })), 'broken', 'a block larger than any');
  t.equal(await outcome(frame.of({ window: 8 << 3, blocks: [frame.run('x', 128 * 1024)] })), 'complete');
  t.equal(await outcome(frame.of({ blocks: [Buffer.of(7, 0, 0)] })), 'broken', 'a block of no type');
  t.equal(await outcome(Buffer.from('not zstd at all')), 'broken');
});

t.test('zstd: others get their turn while a large body is decoded, and an abort ends it', async (t) => {
  const blocks = new Array<Buffer>(200).fill(frame.run('x', 128 * 1024, false));
  const large = frame.of({ window: 8 << 3, blocks: [...blocks, frame.raw('', true)] });
  let size = 0;
  const decoder = createDecoder('zstd', { maxBytes: 100_000_000, onData: (chunk) => (size += chunk.length) });
  const pushed = decoder?.push(large);
  let turns = 0;
  while (size < 200 * 128 * 1024 && turns < 10_000) {
    turns += 1;
    await turn();
  }
  await pushed;
  t.equal(await decoder?.end(), 'complete');
  t.ok(turns > 50, `${turns} turns`);
  const aborted = createDecoder('zstd', { maxBytes: 100_000_000, onData: () => aborted?.abort() });
  await aborted?.push(large);
  t.equal(await aborted?.end(), 'broken');
});

async function decodeBytes(bytes: Uint8Array, maxBytes: number, size: number): Promise<{ outcome: DecodeOutcome; bytes: Buffer }> {
  const parts: Uint8Array[] = [];
  const decoder = createDecoder('zstd', { maxBytes, onData: (chunk) => void parts.push(chunk) });
  if (decoder === undefined) throw new Error('zstd is not decoded');
  for (let at = 0; at < bytes.length; at += size) await decoder.push(bytes.subarray(at, at + size));
  return { outcome: await decoder.end(), bytes: Buffer.concat(parts) };
}
