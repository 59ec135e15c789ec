import t from 'tap';
import { type Bucket, bucketShape, tokensAt, waitForOne } from '../../../src/decide/limits/token-bucket.ts';
import { fc } from '../../support/properties.ts';

t.test('a bucket gives no more than its size and what flowed in, however it is asked', async (t) => {
  const calls = fc.array(fc.integer({ min: 0, max: 5_000 }), { minLength: 1, maxLength: 200 });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 50 }), fc.integer({ min: 1, max: 500 }), calls, (capacity, perMinute, pauses) => {
      const shape = bucketShape(capacity, perMinute, 60_000);
      let bucket: Bucket | undefined;
      let now = 0;
      let given = 0;
      for (const pause of pauses) {
        now += pause;
        const tokens = tokensAt(bucket, shape, now);
        if (waitForOne(tokens, shape) > 0) continue;
        bucket = { tokens: tokens - 1, at: now };
        given += 1;
      }
      return given <= capacity + (now * perMinute) / 60_000 + 1e-6;
    }),
  );
  t.pass();
});

t.test('the wait that is named is enough and not longer than needed', async (t) => {
  fc.assert(
    fc.property(fc.double({ min: 0, max: 0.999, noNaN: true }), fc.integer({ min: 1, max: 100_000 }), (tokens, perMinute) => {
      const shape = bucketShape(10, perMinute, 60_000);
      const wait = waitForOne(tokens, shape);
      const after = (ms: number) => tokensAt({ tokens, at: 0 }, shape, ms);
      return after(wait + 0.001) >= 1 - 1e-9 && after(wait * 0.99) < 1;
    }),
  );
  t.pass();
});
