import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { timestamp } from '../base/lib/clock.ts';
import { inFolder } from '../base/lib/folder.ts';
import { codeOf } from '../base/lib/thrown.ts';
import type { ClockConfirmation } from './clock-watch.ts';

const SETTING = 'GW_DATA_DIR';

/** A file, so that it can be made while a gateway runs and while none does. */
function fileIn(dataDir: string): string {
  return join(dataDir, 'clock-confirmed');
}

export function clockConfirmation(dataDir: string): ClockConfirmation {
  const file = fileIn(dataDir);
  return {
    async read() {
      try {
        const at = Date.parse((await readFile(file, 'utf8')).trim());
        return Number.isNaN(at) ? undefined : at;
      } catch (error) {
        if (codeOf(error) === 'ENOENT') return undefined;
        throw error;
      }
    },
    clear: () => rm(file, { force: true }),
  };
}

/** @param now milliseconds since the epoch @throws Error that names the setting when the folder cannot be written */
export async function confirmClock(dataDir: string, now: number): Promise<void> {
  await inFolder(SETTING, dataDir, () => writeFile(fileIn(dataDir), `${timestamp(now)}\n`, { mode: 0o644 }));
}
