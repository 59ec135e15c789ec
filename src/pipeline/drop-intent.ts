import type { Effect } from '../storage/contract/store.ts';

/** Entities of calls under a cap that are under way: their records, if nothing else is ever heard of them. */
export const INTENTS = 'intent';

/** To be committed with the record that settles the call. */
export function dropIntent(recordId: string): Effect {
  return { op: 'delete', space: INTENTS, key: recordId };
}
