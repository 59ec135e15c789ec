import { Decimal } from 'decimal.js';

/**
 * An amount that somebody reckoned by hand: `1,000 × 2.5 + 2 × 10 / 1,000 = $0.0225`. Products are tokens at dollars
 * per million, quotients are dollars as they stand.
 */
export interface ByHand {
  /** What stands behind the equals sign. */
  readonly stated: string;
  /** What the arithmetic before it comes to, rounded half up to a trillionth. */
  readonly reckoned: string;
  /** Of each product or quotient what is no count: rates, factors and divisors. */
  readonly rates: readonly string[];
}

const TERM = /^[\d,.]+(?: × [\d.]+)+(?: \/ [\d,]+)?$/;
const Exact = Decimal.clone({ precision: 60, rounding: Decimal.ROUND_HALF_UP });

/** Knows numbers, ×, / and + and nothing of the product. @throws Error for anything else */
export function byHand(text: string): ByHand {
  const [sum = '', stated = '', ...more] = text.split(' = $');
  const terms = sum.split(' + ');
  if (more.length > 0 || !/^\d+(?:\.\d+)?$/.test(stated) || !terms.every((term) => TERM.test(term)))
    throw new Error(`no arithmetic: ${text}`);
  const rates: string[] = [];
  let total = new Exact(0);
  for (const term of terms) {
    const [product = '', divisor] = term.split(' / ');
    const [count = '', ...factors] = product.split(' × ');
    rates.push(...factors);
    const value = factors.reduce((so, factor) => so.times(factor), number(count));
    total = total.plus(value.div(divisor === undefined ? 1_000_000 : number(divisor)));
  }
  return { stated, reckoned: total.toDecimalPlaces(12).toFixed(), rates };
}

function number(text: string): Decimal {
  return new Exact(text.replaceAll(',', ''));
}
