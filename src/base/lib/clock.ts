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

let lastMs = Number.NaN;
let lastText = '';

/** RFC 3339 UTC with milliseconds (decision 8.8). Many requests share a millisecond, so the last answer is kept. */
export function timestamp(epochMs: number): string {
  if (epochMs !== lastMs) {
    lastText = new Date(epochMs).toISOString();
    lastMs = epochMs;
  }
  return lastText;
}
