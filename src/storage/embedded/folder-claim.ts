import { stat } from 'node:fs/promises';

/**
 * Folders whose store is open in this process, by device and inode. LevelDB's lock alone is not enough: it is a POSIX
 * record lock, and when the same process tries to take it a second time, LevelDB closes its second handle of the lock
 * file, which releases the first one's lock. From then on another process could open the folder beside us.
 */
const claimed = new Set<string>();

/** Claims a folder for this process; undefined when a store of this process has it. The result gives it back. */
export async function claimFolder(dir: string): Promise<(() => void) | undefined> {
  const { dev, ino } = await stat(dir, { bigint: true });
  const key = `${dev}:${ino}`;
  if (claimed.has(key)) return undefined;
  claimed.add(key);
  return () => claimed.delete(key);
}
