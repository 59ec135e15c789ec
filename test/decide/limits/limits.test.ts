import t from 'tap';
import { BUDGET_PERIODS, type BudgetPeriod } from '../../../src/base/model/budget-limit.ts';
import { forecastPico, limitForecast } from '../../../src/decide/limits/forecast.ts';
import { type Bucket, bucketShape, tokensAt, waitForOne } from '../../../src/decide/limits/token-bucket.ts';
import { hourOf, startText, windowEnd, windowStart } from '../../../src/decide/limits/windows.ts';
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

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** A month in UTC with what was spent in it so far. */
function monthOf(year: number, month: number, spentPico: bigint) {
  return { start: Date.UTC(year, month - 1, 1), end: Date.UTC(year, month, 1), spentPico };
}

t.test('a forecast is what was spent, by the time that has passed, times the period: exactly, and not before a 24th of it', (t) => {
  for (const [name, year, month, passed, spent, expected] of [
    ['the first hour of a month', 2026, 11, HOUR, 10n ** 12n, undefined],
    ['a millisecond before a 24th', 2026, 11, 30 * HOUR - 1, 10n ** 12n, undefined],
    ['a 24th', 2026, 11, 30 * HOUR, 10n ** 12n, 24n * 10n ** 12n],
    ['28 days', 2027, 2, 7 * DAY, 7n * 10n ** 12n, 28n * 10n ** 12n],
    ['a leap year', 2028, 2, 7 * DAY, 7n * 10n ** 12n, 29n * 10n ** 12n],
    ['the leap day itself', 2028, 2, 28 * DAY + 12 * HOUR, 57n, 58n],
    ['no spend', 2026, 11, 15 * DAY, 0n, 0n],
    ['half a pico-dollar is rounded up', 2026, 11, 20 * DAY, 1n, 2n],
    ['less is not', 2026, 11, 22 * DAY + 12 * HOUR, 1n, 1n],
    ['no digit of a large amount is lost', 2026, 11, 10 * DAY, 123_456_789_012_345_678_901n, 370_370_367_037_037_036_703n],
    ['the last moment', 2026, 12, 31 * DAY, 5n, 5n],
    ['the very first', 2026, 12, 0, 5n, undefined],
  ] as const)
    t.equal(forecastPico(monthOf(year, month, spent), Date.UTC(year, month - 1, 1) + passed), expected, name);
  t.end();
});

t.test('a limit is reached when so much is spent at that rate, by an override and then by its own amount', (t) => {
  let reached: bigint | undefined;
  const of = (passed: number, spentPico: bigint, ...amounts: readonly (readonly [pico: bigint, untilDay: number])[]) => {
    const month = monthOf(2026, 11, spentPico);
    const held = amounts.map(([pico, until]) => ({ pico, until: month.start + until * DAY }));
    const { outlook, reachedAt, reachedPico } = limitForecast(month, held, month.start + passed);
    reached = reachedPico;
    return [outlook, reachedAt === undefined ? undefined : (reachedAt - month.start) / DAY];
  };
  t.same(of(10 * DAY, 100n, [100n, 30]), ['reached', undefined]);
  t.same(of(10 * DAY, 101n, [100n, 30]), ['reached', undefined]);
  t.same(of(HOUR, 101n, [100n, 30]), ['reached', undefined], 'that needs no forecast');
  t.same(of(HOUR, 99n, [100n, 30]), ['unknown', undefined]);
  t.same(of(10 * DAY, 0n, [100n, 30]), ['holds', undefined]);
  t.same(of(10 * DAY, 0n, [0n, 30]), ['reached', undefined], 'a cap of nothing');
  t.same(of(10 * DAY, 100n, [250n, 30]), ['will_be_reached', 25]);
  t.same(of(10 * DAY, 100n, [300n, 30]), ['holds', undefined], 'at the moment of its end it begins anew');
  t.same(of(10 * DAY, 100n, [250n, 20], [260n, 30]), ['will_be_reached', 26], 'the override ends before it is reached');
  t.equal(reached, 260n, 'the amount that is reached is that of the limit');
  t.same(of(10 * DAY, 100n, [250n, 26], [120n, 30]), ['will_be_reached', 25]);
  t.same(of(10 * DAY, 100n, [250n, 20], [120n, 30]), ['will_be_reached', 20], 'and then more is spent than the limit allows');
  t.same(of(10 * DAY, 100n, [250n, 20], [310n, 30]), ['holds', undefined]);
  const month = monthOf(2026, 11, 3n);
  const { reachedAt = 0 } = limitForecast(month, [{ pico: 4n, until: month.end }], month.start + 10 * DAY + 1);
  t.ok(BigInt(reachedAt - month.start) * 3n >= 4n * BigInt(10 * DAY + 1), 'so much is spent then');
  t.ok(BigInt(reachedAt - 1 - month.start) * 3n < 4n * BigInt(10 * DAY + 1), 'and a millisecond before it is not');
  t.end();
});

t.test('a window begins and ends at its own time in UTC, whatever the zone and its summer time', (t) => {
  const at = Date.UTC(2027, 2, 28, 1, 59, 59, 999); // Sunday, the last millisecond before summer time begins in Europe
  const ends: Readonly<Record<BudgetPeriod, readonly [string, number]>> = {
    hourly: ['2027-03-28T01:00:00Z', Date.UTC(2027, 2, 28, 2)],
    daily: ['2027-03-28', Date.UTC(2027, 2, 29)],
    weekly: ['2027-03-22', Date.UTC(2027, 2, 29)],
    monthly: ['2027-03-01', Date.UTC(2027, 3, 1)],
  };
  for (const period of BUDGET_PERIODS) {
    const [start, end] = ends[period];
    t.equal(startText(period, windowStart(period, hourOf(at))), start);
    t.equal(windowEnd(period, hourOf(at)), end, period);
  }
  fc.assert(
    fc.property(fc.constantFrom(...BUDGET_PERIODS), fc.integer({ min: 0, max: hourOf(Date.UTC(2100, 0, 1)) }), (period, hour) => {
      const start = windowStart(period, hour);
      const end = hourOf(windowEnd(period, hour));
      return start <= hour && hour < end && windowStart(period, end) === end && windowStart(period, end - 1) === start;
    }),
  );
  t.same(
    [Date.UTC(2026, 10, 19, 18, 29), Date.UTC(2026, 10, 19, 18, 30)].map((time) =>
      startText('hourly', windowStart('hourly', hourOf(time))),
    ),
    ['2026-11-19T18:00:00Z', '2026-11-19T18:00:00Z'],
    'midnight in India is in the middle of an hour',
  );
  t.end();
});
