import { randomBytes } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { systemClock } from '../../base/lib/clock.ts';
import { silentLogger } from '../../base/lib/log.ts';
import { SecretBox } from '../../base/lib/secret-box.ts';
import { replaceSecretKeys, secretKeysIn } from '../../base/lib/secret-key-file.ts';
import { readGuarded } from '../../inbound/ca/root-files.ts';
import { rewrapSealed } from '../../services/registers/rewrap-sealed.ts';
import { openStore } from '../../storage/drivers/open-store.ts';
import { SEALED_OF_PLANE } from '../state/org-entities.ts';
import type { ControlPlaneConfig } from './control-plane-config.ts';
import { PLANE_FILES } from './plane-files.ts';

const GROUP_OR_OTHERS = 0o077;

/**
 * Gives the stored secrets of a control plane that is stopped a new key (decision 13.19): of each only its data key is
 * encrypted again. A key that is kept in the data folder is replaced there, and both are in the file until the end; one
 * that is configured is the operator's to replace with `newKey`. Interrupted at any moment, a second run with the same
 * keys finishes the work.
 * @returns how many secrets have the new key now that had another one
 * @throws Error when there is no control plane in the folder; StoreError `in_use` while one runs on it; SealError for a
 * secret that the present key does not open
 */
export async function rotatePlaneSecrets(
  { dataDir, secretsKey }: Pick<ControlPlaneConfig, 'dataDir' | 'secretsKey'>,
  newKey: Uint8Array = randomBytes(32),
): Promise<number> {
  const dir = resolve(dataDir);
  const place = join(dir, 'store');
  if (!(await stat(place).catch(() => undefined))?.isDirectory())
    throw new Error(`there is no control plane in ${dir} (CP_DATA_DIR): run this in the folder in which it was started`);
  const { store } = await openStore(place, { fsync: 'always', clock: systemClock, log: silentLogger });
  try {
    const file = join(dir, PLANE_FILES.secretsKey);
    const inFile = secretsKey === undefined;
    const known = inFile ? secretKeysIn(await readGuarded(file, GROUP_OR_OTHERS, 'chmod 600'), file) : [secretsKey];
    if (inFile) await replaceSecretKeys(file, [newKey, ...known]);
    const box = new SecretBox([newKey, ...known]);
    let count = 0;
    for (const [space, contextOf] of SEALED_OF_PLANE) count += await rewrapSealed(store, box, space, contextOf);
    if (inFile) await replaceSecretKeys(file, [newKey]);
    return count;
  } finally {
    await store.close();
  }
}
