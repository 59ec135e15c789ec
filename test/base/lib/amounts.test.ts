import t from 'tap';
import { readAmount, shareOf, tidyAmount } from '../../../src/base/lib/amounts.ts';
import { parseUsd, usdFromPico } from '../../../src/base/lib/money.ts';
import { NO_AMOUNTS } from '../../support/no-amounts.ts';
import { fc } from '../../support/properties.ts';

const digits = (minLength: number, maxLength: number) => fc.string({ unit: fc.constantFrom(...'0123456789'), minLength, maxLength });
/** Amounts with zeros on either end, those at both limits of length, and texts that nearly are some. */
const text = fc.oneof(
  fc.tuple(digits(1, 19), digits(1, 12), fc.nat(30)).map(([whole, part, zeros]) => `${whole}.${part}${'0'.repeat(zeros)}`),
  fc.tuple(digits(1, 18), digits(12, 41)).map((parts) => parts.join('.')),
  digits(0, 20),
  fc.string({ unit: fc.constantFrom(...'0123456789.-+e_ xN١') }),
);

t.test('an amount means one thing wherever it is read: as people write it, and on the path of a call', async () => {
  fc.assert(
    fc.property(text, (amount) => readAmount(amount) === parseUsd(amount)),
    { numRuns: 5000 },
  );
});

t.test('what is no amount is none here either', async (t) => {
  for (const bad of NO_AMOUNTS) t.equal(readAmount(bad), undefined, JSON.stringify(bad));
  t.equal(readAmount('999999999999999999.999999999999'), 999_999_999_999_999_999_999_999_999_999n, 'the largest');
  t.equal(readAmount('0.000000000001'), 1n, 'the smallest');
});

t.test('an amount is told without zeros that say nothing, as integers tell it', async (t) => {
  for (const [written, told] of [
    ['2.50', '2.5'],
    ['007.10', '7.1'],
    ['0.000000000001', '0.000000000001'],
    ['100', '100'],
    ['0.0', '0'],
  ] as const)
    t.equal(tidyAmount(written), told);
  fc.assert(
    fc.property(text, (amount) => {
      const pico = parseUsd(amount);
      return pico === undefined || tidyAmount(amount) === usdFromPico(pico);
    }),
    { numRuns: 2000 },
  );
  t.throws(() => tidyAmount('2,50'), RangeError);
});

t.test('a share is rounded up to a whole pico-dollar, as integers reckon it', async (t) => {
  t.equal(shareOf(0n, 80), 0n);
  t.equal(shareOf(1n, 1), 1n);
  t.equal(shareOf(100n, 80), 80n);
  t.equal(shareOf(101n, 80), 81n);
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 10n ** 30n }), fc.integer({ min: 1, max: 100 }), (pico, percent) => {
      return shareOf(pico, percent) === (pico * BigInt(percent) + 99n) / 100n;
    }),
    { numRuns: 2000 },
  );
});
