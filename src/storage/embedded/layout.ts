import { join } from 'node:path';

/** What lies in the data folder; see README.md. */
export function journalFolder(dir: string): string {
  return join(dir, 'journal');
}

/** What queries ask of records; can be removed at any time, since it is made again from the journal. */
export function columnsFolder(dir: string): string {
  return join(dir, 'columns');
}

export function indexFolder(dir: string): string {
  return join(dir, 'index');
}

/** Names the format version, so that a newer store is recognised before anything is opened. */
export function formatFile(dir: string): string {
  return join(dir, 'format');
}

/** Holds the process id of the owner, for the message a second process prints; the lock itself is the index's. */
export function ownerFile(dir: string): string {
  return join(dir, 'owner.pid');
}
