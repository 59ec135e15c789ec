import type { SeenRoot } from './chain-walk.ts';

/** Between two kept roots lie at most so many of those behind them: some hundred are kept of any number. */
const PART = 8;

/**
 * Roots that a watcher keeps beside the last one, in order: the newer they are, the closer together.
 * @param kept with one that is newer than all of them
 */
export function thinned(kept: readonly SeenRoot[]): readonly SeenRoot[] {
  const newest = placeOf(kept.at(-1));
  const sparse: SeenRoot[] = [];
  for (const one of kept.toReversed()) {
    const last = sparse.at(-1);
    const isFar = (placeOf(last) - placeOf(one)) * PART >= newest - placeOf(one);
    if (last === undefined || isFar) sparse.push(one);
  }
  return sparse.reverse();
}

/** By hashes, whose number goes on behind a restore as before it. */
function placeOf(root: SeenRoot | undefined): number {
  return root?.leaves ?? root?.sequence ?? 0;
}
