/* Amounts and counts as people read them; programs are given the exact ones. */
import { parseUsd, usdFromPico } from '../../base/lib/money.ts';

const PICO = 10n ** 12n;
/** Below a dollar so many decimals, above it cents. */
const SMALL_DECIMALS = 4;

/** Pico-dollars as `$1,204.10`, `$0.0042` or `<$0.0001`: rounded half up to cents, below a dollar to a hundredth of a cent. */
export function dollars(pico: bigint): string {
  if (pico < 0n) return `-${dollars(-pico)}`;
  const small = PICO / 10n ** BigInt(SMALL_DECIMALS);
  if (pico > 0n && pico < small / 2n) return `<$${usdFromPico(small)}`;
  const unit = pico < PICO ? small : PICO / 100n;
  const [whole = '0', part = ''] = usdFromPico(((pico + unit / 2n) / unit) * unit).split('.');
  return `$${grouped(BigInt(whole))}.${part.length > 2 ? part.padEnd(SMALL_DECIMALS, '0') : part.padEnd(2, '0')}`;
}

/** The same of an amount of an answer; absent: 0. */
export function shownUsd(text: string | undefined): string {
  return dollars(parseUsd(text ?? '0') ?? 0n);
}

/** `1,204`. */
export function grouped(count: bigint | number): string {
  return count.toString().replaceAll(/\B(?=(?:\d{3})+$)/g, ',');
}

const UNITS = ['', 'K', 'M', 'G', 'T'] as const;

/** Of tokens: `940`, `12.4K`, `3.0M`. */
export function roughly(count: number): string {
  if (count < 1_000) return String(count);
  let [tenths, at] = [Math.round(count / 100), 1];
  while (tenths >= 10_000 && at < UNITS.length - 1) {
    tenths = Math.round(tenths / 1_000);
    at += 1;
  }
  return `${Math.floor(tenths / 10)}.${tenths % 10}${UNITS[at]}`;
}
