import type { Effect, Store } from '../storage/contract/store.ts';

/** Changes in one commit: an entity has at most some 64 KiB, and a commit of the embedded store at most 64 MiB. */
const AT_ONCE = 100;

/**
 * Commits changes of which there may be more than one commit takes, such as those of a move: each whole, some at a time. Who is interrupted finds the rest as it was.
 * @throws Error when the store cannot be written; what comes before is stored then
 */
export async function commitInParts(store: Pick<Store, 'commit'>, changes: readonly (readonly Effect[])[]): Promise<void> {
  for (let at = 0; at < changes.length; at += AT_ONCE) await store.commit(undefined, changes.slice(at, at + AT_ONCE).flat());
}
