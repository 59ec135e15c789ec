/*
 * What commands ask of a folder that the embedded driver keeps: whether it is there, in which format, and what becomes
 * of its journal.
 */
import { readFile, stat } from 'node:fs/promises';
import { isMissing } from '../../base/lib/gateway-error.ts';
import { checkJournal, type JournalFinding } from '../embedded/check-journal.ts';
import { formatFile, journalFolder } from '../embedded/layout.ts';
import { type RepairReport, repairJournal } from '../embedded/repair-journal.ts';
import { FORMAT_VERSION, segmentFileName } from '../embedded/segment-header.ts';

export type { JournalFinding, RepairReport };

/** What a command does with the journal of a folder. */
export const JOURNAL = { check: checkJournal, repair: repairJournal, segmentName: segmentFileName } as const;

/** @throws the system's error when there is no journal, or it cannot be looked at */
export async function requireJournal(dir: string): Promise<void> {
  await stat(journalFolder(dir));
}

/** Which format a store has, and up to which this version reads; undefined where there is none yet. */
export async function formatOf(dir: string): Promise<{ readonly found: number; readonly reads: number } | undefined> {
  try {
    const text = await readFile(formatFile(dir), 'utf8');
    return { found: Number(/\d+/.exec(text)?.[0]), reads: FORMAT_VERSION };
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}
