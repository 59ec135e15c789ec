import { LRUCache } from 'lru-cache';
import type { Clock } from './clock.ts';

export interface LruOptions<V> {
  /** Entries kept at most. */
  readonly max: number;
  /**
   * With it the sum of all sizes is bounded too; `sizeOf` gives a positive integer per entry. A value larger than that
   * is not kept.
   */
  readonly size?: { readonly max: number; readonly sizeOf: (value: V) => number };
  /** An entry is gone this long after it was set; reading does not renew it. */
  readonly ttl?: { readonly ms: number; readonly clock: Clock };
  /** Called for every value that leaves: pushed out, replaced, expired, deleted. */
  readonly onGone?: (value: V) => void;
}

/**
 * A bounded map that forgets what was not used for longest. Undefined is no value. It takes the memory for all its
 * entries with the first one: a gateway has many of these, and most of them stay empty.
 */
export class Lru<K extends {}, V extends {}> {
  readonly #options: LruOptions<V>;
  #cache: LRUCache<K, V> | undefined;

  constructor(options: LruOptions<V>) {
    this.#options = options;
  }

  /** Makes the entry the most recently used one. */
  get(key: K): V | undefined {
    return this.#cache?.get(key);
  }

  /** Looks without touching the order of use. */
  peek(key: K): V | undefined {
    return this.#cache?.peek(key);
  }

  has(key: K): boolean {
    return this.#cache?.has(key) === true;
  }

  set(key: K, value: V): void {
    this.#cache ??= cacheOf(this.#options);
    this.#cache.set(key, value);
  }

  delete(key: K): boolean {
    return this.#cache?.delete(key) === true;
  }

  clear(): void {
    this.#cache?.clear();
  }

  /** Entries, expired ones that nobody asked for included. */
  get size(): number {
    return this.#cache?.size ?? 0;
  }

  /** From the most to the least recently used. */
  entries(): IterableIterator<[K, V]> {
    return this.#cache?.entries() ?? [].values();
  }
}

function cacheOf<K extends {}, V extends {}>({ max, size, ttl, onGone }: LruOptions<V>): LRUCache<K, V> {
  return new LRUCache<K, V>({
    max,
    ...(size ? { maxSize: size.max, sizeCalculation: (value: V) => size.sizeOf(value) } : {}),
    // a start of 0 means "no ttl" to the package
    ...(ttl ? { ttl: ttl.ms, ttlResolution: 0, perf: { now: () => 1 + ttl.clock.monotonic() } } : {}),
    ...(onGone ? { dispose: (value: V) => onGone(value) } : {}),
  });
}
