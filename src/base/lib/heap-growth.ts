import { setFlagsFromString } from 'node:v8';

/**
 * How far the heap grows beyond what lives in it before garbage is looked for, in per cent. On a machine with much memory V8 takes up to 300, which under load are hundreds of megabytes
 * of garbage; what lives in the heap of a gateway is small, so that looking more often costs little.
 */
const GROWS_BY_PERCENT = 60;

/** Keeps the heap of this process small. V8 reads it whenever it has collected garbage, so that it holds from then on. */
export function boundHeapGrowth(): void {
  setFlagsFromString(`--heap-growing-percent=${GROWS_BY_PERCENT}`);
}
