/*
 * What commands ask of a folder that the embedded driver keeps: whether it is there, in which format, how large, and
 * what becomes of its journal.
 */
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isMissing } from '../../base/lib/gateway-error.ts';
import { checkJournal, type JournalFinding } from '../embedded/check-journal.ts';
import { formatFile, journalFolder } from '../embedded/layout.ts';
import { parsePosition } from '../embedded/location.ts';
import { type RepairReport, repairJournal } from '../embedded/repair-journal.ts';
import { FORMAT_VERSION, segmentFileName } from '../embedded/segment-header.ts';
import { FolderClaims } from '../node/folder-claims.ts';

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

/** Whether a database knows a folder, or did: its store was moved there, or began there. @throws the system's error */
export async function isNodeFolder(dataDir: string): Promise<boolean> {
  return (await FolderClaims.read(dataDir)).hasHistory;
}

/** Bytes of all files below a folder. @throws the system's error */
export async function folderSize(dir: string): Promise<number> {
  let bytes = 0;
  for (const entry of await readdir(dir, { withFileTypes: true, recursive: true })) {
    if (!entry.isFile()) continue;
    const found = await stat(join(entry.parentPath, entry.name)).catch((error: unknown) => {
      // The gateway that runs on it may have removed the file.
      if (!isMissing(error)) throw error;
    });
    bytes += found?.size ?? 0;
  }
  return bytes;
}

/** A place of a journal, such as up to where it was carried; undefined for what is none. */
export function journalPlace(position: string): { readonly segment: number; readonly offset: number } | undefined {
  return parsePosition(position);
}
