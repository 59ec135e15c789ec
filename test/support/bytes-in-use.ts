import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** What this process holds of its heap and of buffers beside it, after a full collection, so that only what is held counts. */
export function bytesInUse(): number {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  if (typeof collect === 'function') Reflect.apply(collect, undefined, []);
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
