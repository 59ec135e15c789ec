import { randomBytes } from 'node:crypto';
import { open, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import type { Config } from '../base/config/config.ts';
import { systemClock } from '../base/lib/clock.ts';
import { codeOf } from '../base/lib/gateway-error.ts';
import { silentLogger } from '../base/lib/log.ts';
import { type Sealed, SecretBox } from '../base/lib/secret-box.ts';
import { RESULTS, resultContext } from '../services/money/idempotency.ts';
import { CREDENTIALS } from '../services/people/credentials.ts';
import { secretContext } from '../services/registers/org-key.ts';
import { CHANNELS, channelContext } from '../services/sending/alerts/alert-channels.ts';
import { EXPORTS, exportContext } from '../services/sending/exports/export-destinations.ts';
import type { Effect, Store } from '../storage/contract/store.ts';
import { openStoreIn, requireStore } from './data-folder.ts';
import { existingSecretKeys, SECRETS_KEY_FILE } from './secrets.ts';

const AT_ONCE = 100;
/** Spaces whose entities have a sealed member, and where that belongs. */
const SEALED: readonly (readonly [space: string, contextOf: (key: string) => string])[] = [
  [CREDENTIALS, secretContext],
  [CHANNELS, channelContext],
  [EXPORTS, exportContext],
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
    const inFile = config.secretsKey === undefined;
    if (inFile) await writeKeys(config.dataDir, [newKey, ...known]);
    const box = new SecretBox([newKey, ...known]);
    let count = await rewrapResults(store, box);
    for (const [space, contextOf] of SEALED) count += await rewrapSealed(store, box, space, contextOf);
    await sync();
    if (inFile) await writeKeys(config.dataDir, [newKey]);
    return count;
  } finally {
    await store.close();
  }
}

/** Reads a key as `GW_SECRETS_KEY` takes it. @throws Error when the file holds none */
export async function readKeyFile(file: string): Promise<Uint8Array> {
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw new Error(
      `--new-key-file: ${file} cannot be read (${codeOf(error)}); it holds 32 bytes in base64, as openssl rand -base64 32 gives`,
      {
        cause: error,
      },
    );
  });
  const key = Buffer.from(text.trim(), 'base64');
  if (key.length !== 32) throw new Error(`--new-key-file: ${file} does not hold 32 bytes in base64, as openssl rand -base64 32 gives`);
  return key;
}

async function rewrapSealed(store: Store, box: SecretBox, space: string, contextOf: (key: string) => string): Promise<number> {
  const changed = (await store.list(space)).flatMap(({ key, value }): Effect[] => {
    const { sealed } = value as { sealed?: Sealed };
    const next = sealed && box.rewrap(sealed, contextOf(key));
    return next ? [{ op: 'put', space, key, value: { ...(value as object), sealed: next } }] : [];
  });
  if (changed.length > 0) await store.commit(undefined, changed);
  return changed.length;
}

async function rewrapResults(store: Store, box: SecretBox): Promise<number> {
  let count = 0;
  let after: string | undefined;
  for (;;) {
    const page = await store.list(RESULTS, { limit: AT_ONCE, ...(after === undefined ? {} : { after }) });
    const changed = page.flatMap(({ key, value }): Effect[] => {
      const next = box.rewrap(value as Sealed, resultContext(key));
      return next ? [{ op: 'put', space: RESULTS, key, value: next }] : [];
    });
    if (changed.length > 0) await store.commit(undefined, changed);
    count += changed.length;
    after = page.at(-1)?.key;
    if (page.length < AT_ONCE) return count;
  }
}

/** Replaces the file in one step, so that there is never a moment without a key. */
async function writeKeys(dataDir: string, keys: readonly Uint8Array[]): Promise<void> {
  const file = join(dataDir, SECRETS_KEY_FILE);
  const next = `${file}.new`;
  const handle = await open(next, 'w', 0o600);
  try {
    await handle.writeFile(`${keys.map((key) => Buffer.from(key).toString('base64')).join('\n')}\n`);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(next, file);
}
