import { STOP_SIGNALS } from '../../base/lib/stopping.ts';

/** Resolves at the first signal to stop; a second one ends the process at once, as without us. */
export function untilStopped(): Promise<void> {
  return new Promise((resolve) => {
    const stop = () => {
      for (const signal of STOP_SIGNALS) process.off(signal, stop);
      resolve();
    };
    for (const signal of STOP_SIGNALS) process.on(signal, stop);
  });
}
