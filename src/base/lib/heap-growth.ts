import { setFlagsFromString } from 'node:v8';
import type { Clock } from './clock.ts';

/** How often the memory of the process is looked at, milliseconds. */
const LOOK_MS = 1_000;
/** Bytes that are resident: above `LARGE` the heap is kept small, below `SMALL` its growth is left to V8 again. */
const LARGE = 400 * 1024 * 1024;
const SMALL = 250 * 1024 * 1024;
/**
 * Per cent by which the heap may grow before garbage is looked for again. V8 itself lets it grow to four times what
 * lives where the machine has much memory.
 */
const KEPT_SMALL = 60;
const LEFT_TO_V8 = 0;

export interface HeapGrowthOptions {
  readonly clock: Clock;
  /** Bytes of the process that are resident. */
  readonly resident?: () => number;
  /** Takes per cent; 0 leaves the growth to V8. */
  readonly setGrowth?: (percent: number) => void;
}

/**
 * Keeps the heap small while the process is large: garbage is looked for earlier, which costs some per cent of each
 * call and is not worth it before (docs/guides/bodies-and-limits.md, "The memory of the process").
 * @returns ends it
 */
export function watchHeapGrowth({ clock, resident = process.memoryUsage.rss, setGrowth = setHeapGrowth }: HeapGrowthOptions): () => void {
  let isKeptSmall = false;
  let cancel = (): void => undefined;
  const look = (): void => {
    const bytes = resident();
    if (isKeptSmall ? bytes < SMALL : bytes > LARGE) {
      isKeptSmall = !isKeptSmall;
      setGrowth(isKeptSmall ? KEPT_SMALL : LEFT_TO_V8);
    }
    cancel = clock.after(LOOK_MS, look);
  };
  cancel = clock.after(LOOK_MS, look);
  return () => cancel();
}

/** V8 reads it whenever it has collected garbage, so that it holds from the next time on. */
function setHeapGrowth(percent: number): void {
  setFlagsFromString(`--heap-growing-percent=${percent}`);
}
