import { SpaceWatchers } from '../contract/space-watchers.ts';
import type { PreparedEffect } from './prepared-commit.ts';

/** Who is told what becomes of the entities of a space. Spaces that nobody watches cost a look at the map. */
export class Watchers extends SpaceWatchers {
  /** Visible, and not told yet. */
  #changes: { readonly space: string; readonly key: string; readonly text: string | undefined }[] = [];

  /** Notes what a commit that became visible has done. */
  note(effects: readonly PreparedEffect[]): void {
    if (this.isEmpty) return;
    for (const effect of effects) {
      if (effect.op === 'add') continue;
      const end = effect.key.indexOf('\0');
      const space = effect.key.slice(0, end);
      if (!this.watches(space)) continue;
      this.#changes.push({ space, key: effect.key.slice(end + 1), text: effect.op === 'put' ? effect.value : undefined });
    }
  }

  /** Tells what was noted. */
  tellNoted(): void {
    if (this.#changes.length === 0) return;
    const changes = this.#changes;
    this.#changes = [];
    for (const { space, key, text } of changes) this.tell(space, key, text);
  }
}
