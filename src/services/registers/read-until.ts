import type { Store } from '../../storage/contract/store.ts';

/** What a store gives to whoever only reads. */
export type StoreReading = Pick<Store, 'recordById' | 'recordByHash' | 'records' | 'counters'>;

/**
 * A store that gives nothing more once nobody waits for it: each page is asked for in vain, with the reason of the
 * signal.
 */
export function readUntil<S extends Partial<StoreReading>>(signal: AbortSignal, store: S): S {
  const { recordById, recordByHash, records, counters } = store;
  const ended: { -readonly [K in keyof StoreReading]?: StoreReading[K] } = {};
  if (recordById) ended.recordById = until(signal, recordById.bind(store));
  if (recordByHash) ended.recordByHash = until(signal, recordByHash.bind(store));
  if (counters) ended.counters = until(signal, counters.bind(store));
  if (records) {
    const read = records.bind(store);
    ended.records = until(signal, (query) => read({ ...query, signal }));
  }
  return ended as S;
}

function until<A extends unknown[], R>(signal: AbortSignal, read: (...args: A) => Promise<R>): (...args: A) => Promise<R> {
  return async (...args) => {
    signal.throwIfAborted();
    return read(...args);
  };
}
