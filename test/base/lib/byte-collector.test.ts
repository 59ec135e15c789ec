import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import { ByteCollector } from '../../../src/base/lib/byte-collector.ts';
import { fc } from '../../support/properties.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

function held(): number {
  collectGarbage();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

t.test('what was pushed is taken as it came, however it was cut', async (t) => {
  const sizes = fc.array(fc.oneof(fc.nat(40), fc.integer({ min: 500, max: 9_000 }), fc.integer({ min: 60_000, max: 200_000 })), {
    maxLength: 60,
  });
  fc.assert(
    fc.property(sizes, (lengths) => {
      const collector = new ByteCollector();
      const all = Buffer.concat(lengths.map((length, at) => Buffer.alloc(length, at + 1)));
      let at = 0;
      for (const length of lengths) {
        collector.push(all.subarray(at, at + length));
        at += length;
      }
      t.equal(collector.size, all.length);
      t.ok(all.equals(collector.take()));
      t.equal(collector.size, 0);
      t.equal(collector.take().length, 0);
    }),
    { numRuns: 200 },
  );
});

t.test('it can be filled again when it was emptied', async (t) => {
  const collector = new ByteCollector();
  for (const word of ['one', 'two', 'three']) {
    for (const letter of word) collector.push(Buffer.from(letter));
    t.equal(Buffer.from(collector.take()).toString(), word);
  }
});

t.test('what came in one piece is not copied', async (t) => {
  for (const length of [1, 1_000, 5_000_000]) {
    const collector = new ByteCollector();
    const piece = Buffer.alloc(length);
    collector.push(piece);
    t.equal(collector.take(), piece);
  }
});

const TOTAL = 2 * 1_048_576;
const CUTS: Readonly<Record<string, readonly number[]>> = {
  'one byte at a time': [1],
  'small and large in turn': [1, 5_000],
  'large ones behind many small ones': [...Array.from({ length: 3_000 }, () => 1), 20_000],
};

/** Pieces as a socket gives them: windows on what was read in one go. */
function* windows(lengths: readonly number[]): Generator<Uint8Array, void> {
  let bytes = Buffer.alloc(65_536, 'x');
  for (let next = 0, at = 0; ; next += 1) {
    const length = lengths[next % lengths.length] ?? 0;
    if (at + length > bytes.length) {
      bytes = Buffer.alloc(65_536, 'x');
      at = 0;
    }
    yield bytes.subarray(at, at + length);
    at += length + 10;
  }
}

t.test('what is held is at most a few times what came', async (t) => {
  for (const [name, lengths] of Object.entries(CUTS)) {
    const before = held();
    const collector = new ByteCollector();
    for (const piece of windows(lengths)) {
      collector.push(piece);
      if (collector.size >= TOTAL) break;
    }
    const factor = (held() - before) / collector.size;
    t.ok(factor < 2.5, `${name}: ${factor.toFixed(2)} times`);
    const { size } = collector;
    t.equal(Buffer.from(collector.take()).toString('latin1'), 'x'.repeat(size));
  }
});
