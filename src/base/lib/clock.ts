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

/** RFC 3339 UTC with milliseconds (decision 8.8). */
export function timestamp(epochMs: number): string {
  return new Date(epochMs).toISOString();
}
