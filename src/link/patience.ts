import { type Clock, pause } from '../base/lib/clock.ts';
import { ProtocolError } from '../control-plane/proto/protocol-error.ts';

/** No shorter than this, whatever was asked for: several that were refused together come again one after the other. */
const LEAST_WAIT_MS = 100;

/**
 * Asks again while the control plane says when to come again: it has then read and stored nothing of the call.
 * @param longestMs for which that goes on; a wait that would end later is not begun
 * @throws what the last try has failed with
 */
export async function askPatiently<T>(clock: Pick<Clock, 'monotonic' | 'after'>, longestMs: number, ask: () => Promise<T>): Promise<T> {
  const until = clock.monotonic() + longestMs;
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof ProtocolError) || error.retryAfterMs === undefined) throw error;
      const wait = Math.max(LEAST_WAIT_MS, error.retryAfterMs);
      if (clock.monotonic() + wait > until) throw error;
      await pause(clock, wait);
    }
  }
}
