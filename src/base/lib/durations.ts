/** Milliseconds of each unit: Go's, plus `d` for 24 hours (decisions, section 2). */
const UNITS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  μs: 1e-3,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

const PART = /(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h|d)/gy;

/**
 * Reads a duration such as `90s`, `1h30m`, `1.5h`, `7d` or `0`.
 * @returns milliseconds (fractional below one), or undefined when the text is no duration; a sign is none
 */
export function parseDuration(text: string): number | undefined {
  if (text === '0') return 0;
  if (text === '' || text.length > 64) return undefined;
  let total = 0;
  PART.lastIndex = 0;
  let end = 0;
  for (let part = PART.exec(text); part !== null; part = PART.exec(text)) {
    total += Number(part[1]) * (UNITS[part[2] ?? ''] ?? Number.NaN);
    end = PART.lastIndex;
  }
  return end === text.length && Number.isFinite(total) ? total : undefined;
}
