import type { Logger } from '../../base/lib/log.ts';
import { versionOf } from './entity-version.ts';
import type { EntityEvent } from './store.ts';

/** What is told of the entities of a space. */
export type WatchListener = (event: EntityEvent) => void | Promise<void>;

/**
 * Who watches which space of a store. A listener that throws or rejects is logged, and harms nobody.
 */
export class SpaceWatchers {
  readonly #log: Pick<Logger, 'error'>;
  readonly #bySpace = new Map<string, Set<WatchListener>>();

  constructor(log: Pick<Logger, 'error'>) {
    this.#log = log;
  }

  /** @returns what ends it */
  add(space: string, listener: WatchListener): () => void {
    // One listener may watch a space twice, and end one of both.
    const own: WatchListener = (event) => listener(event);
    const listeners = this.#bySpace.get(space) ?? new Set();
    this.#bySpace.set(space, listeners.add(own));
    return () => {
      listeners.delete(own);
      if (listeners.size === 0 && this.#bySpace.get(space) === listeners) this.#bySpace.delete(space);
    };
  }

  /** Nobody watches anything. */
  get isEmpty(): boolean {
    return this.#bySpace.size === 0;
  }

  /** The spaces that somebody watches. */
  get spaces(): readonly string[] {
    return [...this.#bySpace.keys()];
  }

  watches(space: string): boolean {
    return this.#bySpace.has(space);
  }

  /** Tells of an entity: the text of its value, or undefined when it is deleted. Everybody gets a copy. */
  tell(space: string, key: string, text: string | undefined): void {
    const version = text === undefined ? undefined : versionOf(text);
    for (const listener of this.#bySpace.get(space) ?? [])
      this.#call(listener, { key, value: text === undefined ? undefined : (JSON.parse(text) as unknown), version });
  }

  /** Tells everybody that something may have been missed. */
  tellLost(): void {
    for (const listeners of this.#bySpace.values()) for (const listener of listeners) this.#call(listener, { lost: true });
  }

  /** Nobody is told anything from here on. */
  close(): void {
    this.#bySpace.clear();
  }

  #call(listener: WatchListener, event: EntityEvent): void {
    const failed = (error: unknown) => this.#log.error({ err: error }, 'What was to follow a change in the store has failed');
    try {
      const done = listener(event);
      if (done instanceof Promise) done.catch(failed);
    } catch (error) {
      failed(error);
    }
  }
}
