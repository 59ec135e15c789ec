import { StoreError } from '../contract/store.ts';

/** What an operator can do about a damaged journal. */
export const WAY_ON =
  'Nothing was changed. "gw journal check" says what is whole and what would be lost, "gw journal repair" sets the damaged part aside and keeps the rest; or restore a backup';

/**
 * Damage that keeps a store from being opened.
 * @param where segment, file and offset
 * @param lost what of it cannot be read any more
 */
export function journalDamaged(where: string, lost: string): StoreError {
  return new StoreError('corrupt', `The journal is damaged: ${where}. ${lost}. ${WAY_ON}`);
}
