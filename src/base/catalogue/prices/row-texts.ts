/*
 * Rates as people write them in tables and files, checked and made a price.
 */
import { readAmount, tidyAmount } from '../../lib/amounts.ts';
import { type PartRate, RATE_KINDS } from '../../model/usage.ts';
import type { Price, Rates } from '../types.ts';

/** Members of rates other than `in` and `out`. */
export const PART_MEMBERS: readonly string[] = RATE_KINDS.map(({ member }) => member);
/** The texts of a row that are not names. */
const RATE_TEXTS = ['in', 'out', ...PART_MEMBERS, 'max_output', 'valid_from'];
/** Finer rates would not give whole pico-dollars for every number of tokens. */
const RATE = /^\d{1,9}(?:\.\d{1,6})?$/;
const MAX_OUTPUT = /^[1-9]\d{0,8}$/;
const DAY = /^\d{4}-\d{2}-\d{2}$/;

/** Each empty or absent when the row has none. */
export type RateTexts = Readonly<Record<string, string | undefined>> & Readonly<Record<'in' | 'out', string>>;

/** What is wrong with the texts of a row, each with the member that it is about. */
export function faultsOf(texts: RateTexts): readonly (readonly [member: string, message: string])[] {
  return RATE_TEXTS.flatMap((member) => {
    const text = texts[member] ?? '';
    const message = text === '' && member !== 'in' && member !== 'out' ? undefined : faultOf(member, text);
    return message === undefined ? [] : [[member, `"${text}" is no ${message}`] as const];
  });
}

function faultOf(member: string, text: string): string | undefined {
  if (member === 'max_output') return MAX_OUTPUT.test(text) ? undefined : 'number of tokens';
  if (member === 'valid_from') return Number.isNaN(dayStart({ valid_from: text })) ? 'day: write it as 2026-09-01' : undefined;
  return RATE.test(text) && readAmount(text) !== undefined
    ? undefined
    : 'rate: a decimal number of USD per million tokens with at most six decimals, such as 0.15';
}

/** Midnight UTC of the day that a row holds from, epoch milliseconds; not a number for a day that does not exist. */
export function dayStart({ valid_from: text = '' }: Readonly<Record<string, string | undefined>>): number {
  if (text === '') return Number.NEGATIVE_INFINITY;
  const at = DAY.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
  return Number.isNaN(at) || new Date(at).toISOString().startsWith(text) ? at : Number.NaN;
}

/** The rates of texts without a fault. */
export function ratesOf(texts: RateTexts): Rates {
  const parts: Partial<Record<PartRate, string>> = {};
  for (const { rate, member } of RATE_KINDS) {
    const text = texts[member] ?? '';
    if (text !== '') parts[rate] = tidyAmount(text);
  }
  return { in: tidyAmount(texts.in), out: tidyAmount(texts.out), ...parts };
}

/** The price of texts without a fault. */
export function priceOf(texts: RateTexts, source: Price['source']): Price {
  const { max_output: maxOutput = '' } = texts;
  return Object.freeze({ ...ratesOf(texts), source, maxOutputTokens: maxOutput === '' ? undefined : Number(maxOutput) });
}
