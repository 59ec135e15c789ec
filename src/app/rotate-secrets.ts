import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { Config } from '../base/config/config.ts';
import { systemClock } from '../base/lib/clock.ts';
import { silentLogger } from '../base/lib/log.ts';
import { SecretBox } from '../base/lib/secret-box.ts';
import { replaceSecretKeys } from '../base/lib/secret-key-file.ts';
import { RESULTS, resultContext } from '../services/money/idempotency.ts';
import { CREDENTIALS } from '../services/people/credentials.ts';
import { secretContext } from '../services/registers/org-key.ts';
import { rewrapSealed, rewrapWhole } from '../services/registers/rewrap-sealed.ts';
import { APPROVAL_CONTENT, contentContext } from '../services/review/approvals.ts';
import { CHANNELS, channelContext } from '../services/sending/alerts/alert-channels.ts';
import { EXPORTS, exportContext } from '../services/sending/exports/export-destinations.ts';
import { openStoreIn, requireStore } from './data-folder.ts';
import { existingSecretKeys, SECRETS_KEY_FILE } from './secrets.ts';

/** Spaces whose entities have a sealed member, and where that belongs. */
const SEALED: readonly (readonly [space: string, contextOf: (key: string) => string])[] = [
  [CREDENTIALS, secretContext],
  [CHANNELS, channelContext],
  [EXPORTS, exportContext],
];
/** Spaces of which each entity is sealed as a whole. */
const SEALED_WHOLE: typeof SEALED = [
  [RESULTS, resultContext],
  [APPROVAL_CONTENT, contentContext],
];

/**
 * Gives the stored secrets a new key: only their data keys are encrypted again. A key that is kept in the data folder
 * is replaced there; one that is configured is the operator's to replace with `newKey`. Interrupted at any moment, a
 * second run finishes the work: until the end both keys are in the file.
 * @returns how many secrets have the new key now
 * @throws Error when there is no store or no key in the data folder, or nodes share one; StoreError `in_use` while a
 * gateway runs on the folder
 */
export async function rotateSecrets(config: Config, newKey: Uint8Array = randomBytes(32)): Promise<number> {
  if (config.databaseUrl !== undefined)
    throw new Error('GW_DATABASE_URL is set: the key of what nodes share cannot be replaced yet; give all of them the same GW_SECRETS_KEY');
  await requireStore(config.dataDir);
  const { store, sync } = await openStoreIn(config.dataDir, { fsync: 'always', clock: systemClock, log: silentLogger });
  try {
    const known = await existingSecretKeys(config.dataDir, config.secretsKey);
    const file = join(config.dataDir, SECRETS_KEY_FILE);
    const inFile = config.secretsKey === undefined;
    if (inFile) await replaceSecretKeys(file, [newKey, ...known]);
    const box = new SecretBox([newKey, ...known]);
    let count = 0;
    for (const [space, contextOf] of SEALED_WHOLE) count += await rewrapWhole(store, box, space, contextOf);
    for (const [space, contextOf] of SEALED) count += await rewrapSealed(store, box, space, contextOf);
    await sync();
    if (inFile) await replaceSecretKeys(file, [newKey]);
    return count;
  } finally {
    await store.close();
  }
}
