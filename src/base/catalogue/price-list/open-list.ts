import type { ErrorDetail } from '../../lib/gateway-error.ts';
import { sha256Hex } from '../../lib/sha256.ts';
import { PriceList } from './price-list.ts';
import { type ReadListOptions, readPriceList } from './read-list.ts';

export interface OpenedList {
  /** To be used only where there are no problems. */
  readonly list: PriceList;
  /** What is wrong with it, with provider and model. */
  readonly problems: readonly ErrorDetail[];
  /** What of it this version of the program does not understand. */
  readonly warnings: readonly string[];
}

/** Reads the text of a price list in any of its published forms, and checks it. Does not throw. */
export function openPriceList(text: string, options: ReadListOptions): OpenedList {
  const read = readPriceList(text, options);
  return { list: new PriceList(read.providers, read, sha256Hex(text)), problems: read.problems, warnings: read.warnings };
}
