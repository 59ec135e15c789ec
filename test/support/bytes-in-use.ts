import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Less than a collection has to free to be called for again, bytes. */
const NOTHING = 10_000;

/**
 * What this process holds of its heap and of buffers beside it, after a full collection, so that only what is held
 * counts.
 */
export function bytesInUse(): number {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  if (typeof collect === 'function') Reflect.apply(collect, undefined, []);
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/**
 * The same when a collection frees nothing more: what a first one leaves may hang on callbacks that have not run yet.
 */
export async function settledBytesInUse(): Promise<number> {
  for (let least = Number.POSITIVE_INFINITY; ; ) {
    const used = bytesInUse();
    if (used > least - NOTHING) return used;
    least = used;
    await new Promise((resolve) => void setImmediate(resolve));
  }
}
