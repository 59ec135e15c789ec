import { type Kept, keepHourly } from '../services/keeper/keep-hourly.ts';
import type { Resources } from './resources.ts';

/** Removes what is older than it is to be kept, now, every hour, and when the clock is believed again. Returns a function that stops it. */
export function keepRetention(
  { events, ...ground }: Pick<Resources, 'clock' | 'clockWatch' | 'log' | 'events'>,
  kept: readonly Kept[],
): () => void {
  const keeping = keepHourly(ground, kept);
  void keeping.run();
  const unsubscribe = events.subscribe(['clockBelieved'], () => void keeping.run());
  return () => {
    unsubscribe();
    keeping.stop();
  };
}
