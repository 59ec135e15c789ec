import { GatewayError } from '../base/lib/gateway-error.ts';
import type { Effect, Store } from '../storage/contract/store.ts';
import type { Commit } from './commit.ts';

/** Somebody else may be first so often; then there is something else wrong. */
const MOST_TRIES = 5;

export interface EntityChange<V> {
  readonly space: string;
  readonly key: string;
  /** Names it in the audit trail. */
  readonly object: string;
  readonly commit: Commit;
  /**
   * What it becomes, from what it is, which is undefined where there is none. Asked again when somebody else was first.
   * @throws GatewayError that keeps everything as it is
   */
  readonly next: (current: V | undefined) => V;
  /** What is stored with it. */
  readonly also?: (after: V, before: V | undefined) => readonly Effect[];
}

/**
 * Changes one entity from the state that its change was made of, whoever else writes to the store: nothing that somebody else has changed in between is written over.
 * @throws GatewayError as `next` and `Store.commit`
 */
export async function changeEntity<V>(
  store: Pick<Store, 'entity'>,
  { space, key, object, commit, next, also }: EntityChange<V>,
): Promise<V> {
  for (let tries = 1; ; tries += 1) {
    const found = await store.entity(space, key);
    const before = found?.value as V | undefined;
    const after = next(before);
    const effects: readonly Effect[] = [{ op: 'put', space, key, value: after }, ...(also?.(after, before) ?? [])];
    try {
      await commit(object, effects, [{ space, key, version: found?.version }]);
      return after;
    } catch (error) {
      if (!(error instanceof GatewayError) || error.code !== 'conflict' || tries === MOST_TRIES) throw error;
    }
  }
}
