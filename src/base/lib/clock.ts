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

/** RFC 3339 UTC with milliseconds (decision 8.8). Formatting a date costs a microsecond, so that of the last second is kept. */
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
