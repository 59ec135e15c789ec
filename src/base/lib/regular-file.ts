import { constants } from 'node:fs';
import { open } from 'node:fs/promises';

/**
 * The bytes of a regular file, also by a link. Anything else is refused before it is read: a pipe would be waited for, a device may never end.
 * @throws the system's error, or one that says what is wrong with the file
 */
export async function readRegularFile(path: string, maxBytes: number): Promise<Uint8Array> {
  // Without the flag, opening a pipe waits for its writer.
  const file = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  try {
    const found = await file.stat();
    if (!found.isFile()) throw new Error('it is no regular file');
    if (found.size > maxBytes) throw new Error(`it is larger than ${maxBytes} bytes`);
    return await file.readFile();
  } finally {
    await file.close();
  }
}
