import { messageOf } from '../../base/lib/gateway-error.ts';
import type { ListedKey } from '../../ledger/ledger-answers.ts';
import { LedgerError } from '../../ledger/ledger-error.ts';
import { type LogKey, logKeysOf } from '../../ledger/log-entry.ts';
import type { MerkleRoot } from '../../ledger/merkle-root.ts';
import { checkListedEntry, type ListedLogEntry } from '../../ledger/root-entry.ts';
import type { SeenStamp } from '../../ledger/watched-chain.ts';
import { type CliIo, Unusable } from '../command.ts';
import { entriesInFiles, readEvidence, rootsInFiles } from './evidence-files.ts';

/** What somebody should know to whom nobody has said which key the log has. */
export const NO_LOG_KEY = 'whose log it is was not checked: --rekor-key FILE names its key';

/** The keys of logs that are believed, in a PEM file. @throws Unusable */
export async function logKeysIn(file: string, io: CliIo): Promise<readonly LogKey[]> {
  const bytes = await readEvidence(file, io);
  try {
    return logKeysOf(Buffer.from(bytes).toString('latin1'));
  } catch (error) {
    throw new Unusable(`${file}: ${messageOf(error)}`, { cause: error });
  }
}

/** Files of which entries are checked. */
export interface EntryFiles {
  readonly logEntries: readonly string[];
  readonly rekorKey: string | undefined;
  readonly roots: readonly string[];
}

/**
 * The newest of the entries that were given, each of which must be one of a root that was given.
 * @param keys of the ledger that are believed
 * @param isCut whether a root that was not given stands in a span that a restore has cut (decision 13.23)
 * @returns undefined where none was given @throws Unusable; LedgerError for what does not fit
 */
export async function newestEntryIn(
  { logEntries, rekorKey, roots }: EntryFiles,
  keys: readonly ListedKey[],
  isCut: (sequence: number) => boolean,
  io: CliIo,
): Promise<SeenStamp | undefined> {
  if (logEntries.length === 0) return undefined;
  const logKeys = rekorKey === undefined ? undefined : await logKeysIn(rekorKey, io);
  const entries = new Map<number, ListedLogEntry>();
  for await (const entry of entriesInFiles(logEntries, io)) {
    // One of them would not be checked.
    if (entries.has(entry.sequence)) throw new LedgerError(`log entry: root ${entry.sequence} has two`);
    entries.set(entry.sequence, entry);
  }
  let newest: SeenStamp | undefined;
  for await (const root of rootsInFiles(roots, io)) {
    const entry = entries.get(root.sequence);
    if (entry === undefined) continue;
    entries.delete(root.sequence);
    newest = checkedEntry(entry, root, keys, logKeys);
  }
  const [lost] = [...entries.keys()].filter((sequence) => !isCut(sequence));
  if (lost !== undefined) throw new LedgerError(`root ${lost} is not among the roots that were given, and has an entry`);
  return newest;
}

/** Checks one entry; what does not fit names its root. @throws LedgerError */
export function checkedEntry(
  entry: ListedLogEntry,
  root: MerkleRoot,
  keys: readonly ListedKey[],
  logKeys: readonly LogKey[] | undefined,
): SeenStamp {
  try {
    return { sequence: root.sequence, time: checkListedEntry(entry, root, keys, logKeys) };
  } catch (error) {
    if (error instanceof LedgerError) throw new LedgerError(`root ${root.sequence}: ${error.message}`, { cause: error });
    throw error;
  }
}
