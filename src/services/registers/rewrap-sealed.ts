import type { Sealed, SecretBox } from '../../base/lib/secret-box.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import { commitInParts } from './commit.ts';

const AT_ONCE = 100;

/**
 * Gives what is sealed in the entities of a space (`sealed`) the key with which the box seals: only data keys are
 * encrypted again. Who is interrupted does the rest the next time.
 * @param contextOf where what stands under a key belongs
 * @returns how many have it now that had another one
 * @throws SealError for one that no key of the box opens
 */
export async function rewrapSealed(store: Store, box: SecretBox, space: string, contextOf: (key: string) => string): Promise<number> {
  const changed = (await store.list(space)).flatMap(({ key, value }): Effect[] => {
    const { sealed } = value as { sealed?: Sealed };
    const next = sealed && box.rewrap(sealed, contextOf(key));
    return next ? [{ op: 'put', space, key, value: { ...(value as object), sealed: next } }] : [];
  });
  await commitInParts(
    store,
    changed.map((effect) => [effect]),
  );
  return changed.length;
}

/** As {@link rewrapSealed}, where each entity of the space is sealed as a whole; such may be large. */
export async function rewrapWhole(store: Store, box: SecretBox, space: string, contextOf: (key: string) => string): Promise<number> {
  let count = 0;
  let after: string | undefined;
  for (;;) {
    const page = await store.list(space, { limit: AT_ONCE, ...(after === undefined ? {} : { after }) });
    const changed = page.flatMap(({ key, value }): Effect[] => {
      const next = box.rewrap(value as Sealed, contextOf(key));
      return next ? [{ op: 'put', space, key, value: next }] : [];
    });
    if (changed.length > 0) await store.commit(undefined, changed);
    count += changed.length;
    after = page.at(-1)?.key;
    if (page.length < AT_ONCE) return count;
  }
}
