import { Decimal } from 'decimal.js';
import t from 'tap';
import { costPico, parseUsd, picoFromUsd, usdFromPico } from '../../../src/base/lib/money.ts';
import { NO_AMOUNTS } from '../../support/no-amounts.ts';
import { fc } from '../../support/properties.ts';

t.test('amounts are read exactly and written without exponent and padding', async (t) => {
  const cases: readonly (readonly [string, bigint, string])[] = [
    ['0', 0n, '0'],
    ['5.00', 5_000_000_000_000n, '5'],
    ['0.15', 150_000_000_000n, '0.15'],
    ['10', 10_000_000_000_000n, '10'],
    ['007.10', 7_100_000_000_000n, '7.1'],
    ['0.000000000001', 1n, '0.000000000001'],
    ['0.0000000000010000', 1n, '0.000000000001'],
    ['999999999999999999', 999_999_999_999_999_999_000_000_000_000n, '999999999999999999'],
  ];
  for (const [text, pico, back] of cases) {
    t.equal(picoFromUsd(text), pico, text);
    t.equal(usdFromPico(pico), back, text);
  }
  t.equal(usdFromPico(-1_500_000_000_000n), '-1.5');
});

t.test('what is not a plain decimal is refused', async (t) => {
  for (const text of NO_AMOUNTS) {
    t.throws(() => picoFromUsd(text), RangeError, JSON.stringify(text));
    t.equal(parseUsd(text), undefined);
  }
});

t.test('the cost is the specified formula, exact to the last digit, as decimal arithmetic says', async (t) => {
  const count = fc.integer({ min: 0, max: 10_000_000 });
  const rate = fc.integer({ min: 0, max: 999_999_999 }).map((micro) => new Decimal(micro).div(1e6).toFixed());
  fc.assert(
    fc.property(count, count, rate, rate, (tokensIn, tokensOut, rateIn, rateOut) => {
      const expected = new Decimal(tokensIn).mul(rateIn).plus(new Decimal(tokensOut).mul(rateOut)).div(1_000_000);
      return usdFromPico(costPico(tokensIn, tokensOut, { in: picoFromUsd(rateIn), out: picoFromUsd(rateOut) })) === expected.toFixed();
    }),
    { numRuns: 500 },
  );
  t.equal(usdFromPico(costPico(12, 7, { in: picoFromUsd('5'), out: picoFromUsd('15') })), '0.000165');
});

t.test('parts of the tokens are priced apart, and no token twice', async (t) => {
  const rates = { in: picoFromUsd('3'), out: picoFromUsd('15') };
  const cost = (tokensIn: number, tokensOut: number, ...parts: readonly (readonly ['in' | 'out', number, string])[]) =>
    usdFromPico(
      costPico(
        tokensIn,
        tokensOut,
        rates,
        parts.map(([of, tokens, rate]) => ({ of, tokens, rate: picoFromUsd(rate) })),
      ),
    );
  t.equal(cost(1_000_000, 0), '3');
  t.equal(cost(1_000_000, 0, ['in', 900_000, '0.3']), '0.57');
  t.equal(cost(10, 0, ['in', 99, '0']), '0', 'no more is cached than was read');
  t.equal(cost(1_000_000, 0, ['in', 500_000, '0.3'], ['in', 400_000, '3.75']), '1.95', '0.15 read, 1.5 written, 0.3 neither');
  t.equal(cost(10, 0, ['in', 6, '0.3'], ['in', 99, '3.75']), '0.0000168', 'no token is read and written');
  t.equal(cost(0, 1_000_000, ['in', 5, '1'], ['out', 400_000, '80']), '41', 'each side has its own');
});

t.test('a token count that is no count is refused', async (t) => {
  for (const bad of [-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53])
    t.throws(() => costPico(bad, 0, { in: 1n, out: 1n }), RangeError, String(bad));
});
