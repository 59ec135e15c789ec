import { randomInt } from 'node:crypto';

/** Time as the gateway sees it. Tests inject their own. */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number;
  /** Monotonic milliseconds, fractional; only differences mean anything. */
  monotonic(): number;
  /** Calls back once after `ms`; never keeps the process alive. Returns a function that cancels it. */
  after(ms: number, callback: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, callback) {
    const timer = setTimeout(callback, ms);
    timer.unref();
    return () => clearTimeout(timer);
  },
};

/** Waits `ms` milliseconds, or until the signal is aborted. Never rejects. */
export function pause(clock: Pick<Clock, 'after'>, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      cancel();
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const cancel = clock.after(ms, done);
    signal?.addEventListener('abort', done, { once: true });
    if (signal?.aborted === true) done();
  });
}

let second = Number.NaN;
/** `2026-11-21T10:00:00.` */
let secondText = '';

/**
 * RFC 3339 UTC with milliseconds (decision 8.8). Formatting a date costs a microsecond, so that of the last second is
 * kept.
 */
export function timestamp(epochMs: number): string {
  const ms = Math.floor(epochMs);
  const at = Math.floor(ms / 1000);
  if (at !== second) {
    secondText = new Date(at * 1000).toISOString().slice(0, -4);
    second = at;
  }
  const rest = ms - at * 1000;
  return `${secondText}${rest < 10 ? '00' : rest < 100 ? '0' : ''}${rest}Z`;
}

let dateSecond = Number.NaN;
let dateText = '';

/** IMF-fixdate of RFC 9110 §5.6.7, as the field `Date` has it. */
export function httpDate(epochMs: number): string {
  const at = Math.floor(epochMs / 1000);
  if (at !== dateSecond) {
    dateText = new Date(at * 1000).toUTCString();
    dateSecond = at;
  }
  return dateText;
}

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

const TIME = /^(\d{4}-\d{2}-\d{2})[Tt](?:[01]\d|2[0-3]):\d{2}:\d{2}(?:\.\d{1,9})?(?:[Zz]|[+-]\d{2}:\d{2})$/;
const DATE = /^\d{4}-\d{2}-\d{2}$/;

/**
 * Milliseconds since the epoch of an RFC 3339 time; undefined for any other text, for a day that its month does not
 * have, and for the 24th hour, which `Date` would take.
 */
export function parseTime(text: string): number | undefined {
  const date = TIME.exec(text)?.[1];
  if (date === undefined || parseDate(date) === undefined) return undefined;
  const value = Date.parse(text.toUpperCase());
  return Number.isNaN(value) ? undefined : value;
}

/**
 * Milliseconds since the epoch at which a UTC day such as `2026-11-22` begins; undefined for any other text, and for a
 * day that its month does not have.
 */
export function parseDate(text: string): number | undefined {
  if (!DATE.test(text)) return undefined;
  const value = Date.parse(`${text}T00:00:00.000Z`);
  return !Number.isNaN(value) && new Date(value).toISOString().startsWith(text) ? value : undefined;
}

const FIRST_MS = 1_000;
const LONGEST_MS = 5 * 60_000;
/** Thousandths of a delay that are left to chance, so that not all come back in one moment. */
const JITTER = 200;

/**
 * How long to wait before the next try after this many earlier failures, milliseconds: a second, twice as long each
 * time, `longestMs` at most, a fifth less by chance.
 */
export function retryDelay(failures: number, longestMs: number = LONGEST_MS): number {
  const ms = Math.min(FIRST_MS * 2 ** failures, longestMs);
  return Math.round((ms * (1_000 - randomInt(JITTER))) / 1_000);
}
