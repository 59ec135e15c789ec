import { open, readFile, rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import { codeOf } from './gateway-error.ts';

const KEY_BYTES = 32;

/**
 * Keys that seal secrets, as a file in a data folder holds them: one a line, the first one seals, the others only open
 * what was sealed with them.
 * @throws Error when one of them is none
 */
export function secretKeysIn(text: string, file: string): readonly Uint8Array[] {
  const keys = text
    .trim()
    .split(/\s+/)
    .map((line) => Buffer.from(line, 'base64'));
  if (keys.some((key) => key.length !== KEY_BYTES)) throw new Error(`${file} must hold one base64 key of 32 bytes a line.`);
  return keys;
}

/** Reads a key as `GW_SECRETS_KEY` and `CP_SECRETS_KEY` take it. @throws Error when the file holds none */
export async function readKeyFile(file: string): Promise<Uint8Array> {
  const how = 'as openssl rand -base64 32 gives';
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw new Error(`--new-key-file: ${file} cannot be read (${codeOf(error)}); it holds 32 bytes in base64, ${how}`, { cause: error });
  });
  const key = Buffer.from(text.trim(), 'base64');
  if (key.length !== KEY_BYTES) throw new Error(`--new-key-file: ${file} does not hold 32 bytes in base64, ${how}`);
  return key;
}

/** Replaces the file in one step, so that there is never a moment without a key, nor is after a cut of the power. */
export async function replaceSecretKeys(file: string, keys: readonly Uint8Array[]): Promise<void> {
  const next = `${file}.new`;
  const handle = await open(next, 'w', 0o600);
  try {
    await handle.writeFile(`${keys.map((key) => Buffer.from(key).toString('base64')).join('\n')}\n`);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(next, file);
  const folder = await open(dirname(file), 'r');
  await folder.sync().finally(() => folder.close());
}
