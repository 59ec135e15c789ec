import fc from 'fast-check';
import t from 'tap';
import { ByteCollector } from '../../../src/base/lib/byte-collector.ts';
import { bytesInUse } from '../../support/bytes-in-use.ts';

t.test('what was pushed is taken, in order, once', async () => {
  const pieces = fc.array(fc.oneof(fc.uint8Array({ maxLength: 3 }), fc.uint8Array({ maxLength: 3_000 })), { maxLength: 60 });
  const collector = new ByteCollector();
  fc.assert(
    fc.property(pieces, (chunks) => {
      let size = 0;
      for (const chunk of chunks) {
        collector.push(chunk);
        size += chunk.length;
        if (collector.size !== size) return false;
      }
      return collector.take().equals(Buffer.concat(chunks)) && collector.size === 0 && collector.take().length === 0;
    }),
  );
});

t.test('a single piece is not copied', async (t) => {
  const collector = new ByteCollector();
  const piece = Buffer.from('all of it');
  collector.push(Buffer.alloc(0));
  collector.push(piece);
  t.equal(collector.take(), piece);
});

t.test('a million pieces of one byte take about as much as they say, and none keeps the chunk that it was cut from', async (t) => {
  const before = bytesInUse();
  const ones = new ByteCollector();
  for (let i = 0; i < 1_000_000; i++) ones.push(Buffer.from([i & 255]));
  t.ok(bytesInUse() - before < 2_000_000, 'of one byte');
  t.equal(ones.take().length, 1_000_000);
  const between = bytesInUse();
  const cuts = new ByteCollector();
  for (let i = 0; i < 500; i++) cuts.push(Buffer.allocUnsafeSlow(65_536).subarray(0, 2_000));
  t.ok(bytesInUse() - between < 3_000_000, 'cut from chunks');
  t.equal(cuts.size, 1_000_000);
});
