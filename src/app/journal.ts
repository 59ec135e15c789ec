import { systemClock } from '../base/lib/clock.ts';
import { silentLogger } from '../base/lib/log.ts';
import { confirmClock } from '../services/keeper/clock-watch.ts';
import { JOURNAL, type JournalFinding, type RepairReport } from '../storage/drivers/store-folder.ts';
import { requireStore, storeFolder } from './data-folder.ts';

export type { JournalFinding, RepairReport };

/** The name of a segment's file, as people see it in the folder. */
export const segmentName = JOURNAL.segmentName;

/**
 * Reads all of the journal in a data folder, also while a gateway writes to it.
 * @throws Error when there is none; StoreError for a newer format
 */
export async function* findingsOf(dataDir: string): AsyncGenerator<JournalFinding> {
  await requireStore(dataDir);
  yield* JOURNAL.check(storeFolder(dataDir));
}

/** @throws Error when there is no store; StoreError `in_use` while a gateway holds the folder */
export async function repair(
  dataDir: string,
  options: { readonly dryRun: boolean; readonly rebuildIndex: boolean },
): Promise<RepairReport> {
  await requireStore(dataDir);
  return JOURNAL.repair({ ...options, dir: storeFolder(dataDir), clock: systemClock, log: silentLogger });
}

/**
 * Says to the gateway of a data folder, running or not, that the clock of this machine is right.
 * @returns what it says, milliseconds since the epoch
 */
export async function confirm(dataDir: string): Promise<number> {
  await requireStore(dataDir);
  const now = systemClock.now();
  await confirmClock(dataDir, now);
  return now;
}
