import type { Logger } from '../../base/lib/log.ts';
import type { EntityEvent } from '../contract/store.ts';
import type { PreparedEffect } from './prepared-commit.ts';
import { versionOf } from './version.ts';

type Listener = (event: EntityEvent) => void | Promise<void>;

/** Who is told what becomes of the entities of a space. Spaces that nobody watches cost a look at the map. */
export class Watchers {
  readonly #log: Pick<Logger, 'error'>;
  readonly #bySpace = new Map<string, Set<Listener>>();
  /** Visible, and not told yet. */
  #changes: { readonly space: string; readonly key: string; readonly text: string | undefined }[] = [];

  constructor(log: Pick<Logger, 'error'>) {
    this.#log = log;
  }

  add(space: string, listener: Listener): () => void {
    // One listener may watch a space twice, and end one of both.
    const own: Listener = (event) => listener(event);
    const listeners = this.#bySpace.get(space) ?? new Set();
    this.#bySpace.set(space, listeners.add(own));
    return () => {
      listeners.delete(own);
      if (listeners.size === 0 && this.#bySpace.get(space) === listeners) this.#bySpace.delete(space);
    };
  }

  /** Notes what a commit that became visible has done. */
  note(effects: readonly PreparedEffect[]): void {
    if (this.#bySpace.size === 0) return;
    for (const effect of effects) {
      if (effect.op === 'add') continue;
      const end = effect.key.indexOf('\0');
      const space = effect.key.slice(0, end);
      if (!this.#bySpace.has(space)) continue;
      this.#changes.push({ space, key: effect.key.slice(end + 1), text: effect.op === 'put' ? effect.value : undefined });
    }
  }

  /** Tells what was noted. */
  tell(): void {
    if (this.#changes.length === 0) return;
    const changes = this.#changes;
    this.#changes = [];
    for (const { space, key, text } of changes) {
      const version = text === undefined ? undefined : versionOf(text);
      for (const listener of this.#bySpace.get(space) ?? [])
        this.#call(listener, { key, value: text === undefined ? undefined : (JSON.parse(text) as unknown), version });
    }
  }

  /** Nobody is told anything from here on. */
  close(): void {
    this.#bySpace.clear();
  }

  #call(listener: Listener, event: EntityEvent): void {
    const failed = (error: unknown) => this.#log.error({ err: error }, 'What was to follow a change in the store has failed');
    try {
      const done = listener(event);
      if (done instanceof Promise) done.catch(failed);
    } catch (error) {
      failed(error);
    }
  }
}
