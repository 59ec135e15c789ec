/*
 * storage/embedded: the storage contract on one disk by one process. A journal of segments is the truth; LevelDB behind
 * it holds entities, counters and the index, and can always be caught up from the journal. README.md follows a record
 * through its life.
 *
 * May live here: everything that reads or writes the data folder's `journal`, `index`, `format` and `owner.pid`. May
 * not: what a record or an entity means, configuration, and any other package than `level`.
 */
import { readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Clock } from '../../base/lib/clock.ts';
import { makeFolder } from '../../base/lib/file-system.ts';
import { codeOf } from '../../base/lib/gateway-error.ts';
import type { Logger } from '../../base/lib/log.ts';
import { StoreError } from '../contract/store.ts';
import { Counters } from './counters.ts';
import { WAY_ON } from './damage.ts';
import { EmbeddedStore } from './embedded-store.ts';
import { type Files, systemFiles } from './files.ts';
import { claimFolder } from './folder-claim.ts';
import { Indexer } from './indexer.ts';
import { inspectJournal, type JournalFiles, newerFormat } from './inspect-journal.ts';
import { type Fsync, JournalWriter } from './journal-writer.ts';
import { columnsFolder, formatFile, indexFolder, journalFolder, ownerFile } from './layout.ts';
import { isLocked, LevelIndex, ROW } from './level-index.ts';
import { catchUp, placeJournal } from './recovery.ts';
import { SegmentColumns } from './segment-columns.ts';
import { FORMAT_VERSION } from './segment-header.ts';
import type { Segments } from './segments.ts';
import { Tail } from './tail.ts';

export interface EmbeddedStoreOptions {
  /** The data folder; made when it is not there, readable by the owner only. */
  readonly dir: string;
  /**
   * When records are forced to the medium (`GW_RECORD_FSYNC`): with every commit, every so many milliseconds, never.
   */
  readonly fsync: Fsync;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info' | 'warn' | 'error'>;
  /** Size at which a segment is closed; default 32 MiB, at most 1 GiB. Retention removes whole segments. */
  readonly segmentBytes?: number;
  /** Age at which a segment is closed; default one day. */
  readonly segmentAgeMs?: number;
  /**
   * Told how many segments past their retention wait to be removed after that failed, and 0 when none does any more.
   */
  readonly onUnremoved?: (segments: number) => void;
  /** Where the journal's writes go; tests put a failing disk here. */
  readonly files?: Files;
}

const DEFAULT_SEGMENT_BYTES = 32 * 1024 * 1024;
const MAX_SEGMENT_BYTES = 1024 * 1024 * 1024;
const DAY_MS = 24 * 60 * 60 * 1000;
/** How long the index may lag behind when nothing is forced to the medium anyway. */
const INDEX_EVERY_MS = 200;
const FORMAT_TEXT = /^gateway-store (\d{1,9})\n?$/;

/**
 * Opens the store of a data folder, or creates it. Rejects with a StoreError, having changed nothing, when another
 * process has it, when it was written by a newer version, or when it is damaged; with the system's error when the
 * folder cannot be used.
 */
export async function openEmbeddedStore(options: EmbeddedStoreOptions): Promise<EmbeddedStore> {
  const dir = resolve(options.dir);
  await makeFolder(dir, 0o700);
  const unclaim = await claimFolder(dir);
  if (unclaim === undefined) throw new StoreError('in_use', inUseLine(dir, process.pid), { pid: process.pid });
  try {
    return await openClaimed({ ...options, dir }, unclaim);
  } catch (error) {
    unclaim();
    throw error;
  }
}

async function openClaimed(options: EmbeddedStoreOptions, unclaim: () => void): Promise<EmbeddedStore> {
  const { dir } = options;
  await checkFormat(dir);
  const before = await inspectUnlocked(dir);
  const index = await openIndex(dir, before.files[0]?.segment ?? 1);
  try {
    await makeFolder(journalFolder(dir), 0o700);
    const journal = (await unchanged(before)) ? before : await inspectJournal(journalFolder(dir));
    return await assemble(options, index, journal, unclaim);
  } catch (error) {
    await index.close();
    throw error;
  }
}

async function assemble(
  options: EmbeddedStoreOptions,
  index: LevelIndex,
  journal: JournalFiles,
  unclaim: () => void,
): Promise<EmbeddedStore> {
  const { dir, fsync, clock, log, files = systemFiles, segmentAgeMs = DAY_MS } = options;
  const segmentBytes = Math.min(options.segmentBytes ?? DEFAULT_SEGMENT_BYTES, MAX_SEGMENT_BYTES);
  const durable = fsync !== 'off';
  const place = await placeJournal(journalFolder(dir), index, journal, log);
  const { segments } = place;
  const counters = new Counters((key) => index.get(ROW.counter + key));
  const tail = new Tail(counters);
  const lastIndexedId = (await index.lastKey(ROW.recordId))?.slice(ROW.recordId.length) ?? '';
  const everyMs = typeof fsync === 'number' ? fsync : INDEX_EVERY_MS;
  const replayed = { segment: place.state.segment, end: place.state.offset };
  const opened: { writer?: JournalWriter } = {};
  const indexer = new Indexer(
    {
      index,
      tail,
      segments,
      clock,
      log,
      durable,
      everyMs,
      position: () => opened.writer?.active ?? replayed,
      syncJournal: async () => opened.writer?.sync(),
    },
    place.state,
  );
  const { lastReplayedId } = await catchUp(place, tail, counters, log, async (segment, end) => {
    Object.assign(replayed, { segment, end });
    await indexer.flush({ sync: false });
  });

  // Nothing can be refused any more: from here on the journal is changed.
  await writeFormat(dir);
  await writeFile(ownerFile(dir), `${process.pid}\n`, { mode: 0o600 });
  if (journal.tornFile !== undefined) {
    log.warn({ file: journal.tornFile }, 'A segment whose header was not completely written was removed');
    await rm(journal.tornFile);
  }
  cutTorn(journal, files, log);
  const columns = await openColumns(segments, dir, log);
  if (durable) await files.syncFolder(dir);
  const writer = JournalWriter.open({ segments, files, clock, fsync, segmentBytes, segmentAgeMs });
  opened.writer = writer;
  const release = async (): Promise<void> => {
    await rm(ownerFile(dir), { force: true });
    await index.close();
    unclaim();
  };
  return new EmbeddedStore({
    clock,
    log,
    segments,
    files,
    writer,
    index,
    columns,
    tail,
    counters,
    indexer,
    lastRecordId: [lastReplayedId, lastIndexedId].sort().at(-1),
    unfinished: place.unfinished,
    onUnremoved: options.onUnremoved ?? (() => undefined),
    release,
  });
}

/** Cuts what was not completely written at the end of the journal. */
function cutTorn(journal: JournalFiles, files: Files, log: EmbeddedStoreOptions['log']): void {
  const lastFile = journal.files.at(-1);
  if (lastFile && journal.last && journal.last.end < lastFile.bytes) {
    const { segment, bytes, path } = lastFile;
    log.warn({ segment, offset: journal.last.end, bytes: bytes - journal.last.end }, 'A torn write at the end of the journal was cut');
    const fd = files.open(path);
    files.truncate(fd, journal.last.end);
    files.close(fd);
  }
}

async function openColumns(segments: Segments, dir: string, log: EmbeddedStoreOptions['log']): Promise<SegmentColumns> {
  const folder = columnsFolder(dir);
  await makeFolder(folder, 0o700);
  const columns = new SegmentColumns(segments, folder, log);
  await columns.open();
  return columns;
}

/** In one step: a file of which a full disk took nothing would stop every later start. */
async function writeFormat(dir: string): Promise<void> {
  const next = `${formatFile(dir)}.new`;
  await writeFile(next, `gateway-store ${FORMAT_VERSION}\n`, { mode: 0o600 });
  await rename(next, formatFile(dir));
}

/** @throws StoreError for a file of a newer version, or one that says nothing */
export async function checkFormat(dir: string): Promise<void> {
  const text = await readFile(formatFile(dir), 'utf8').catch((error: unknown) => {
    if (codeOf(error) !== 'ENOENT') throw error;
  });
  if (text === undefined) return;
  const version = Number(FORMAT_TEXT.exec(text)?.[1]);
  if (Number.isNaN(version)) throw new StoreError('corrupt', `${formatFile(dir)} is not the format file of a gateway's store. ${WAY_ON}`);
  if (version > FORMAT_VERSION) throw newerFormat(formatFile(dir), version);
}

/**
 * The look before the lock, so that a refusal changes nothing at all. A journal that is being written may look damaged:
 * then its owner is the reason.
 */
async function inspectUnlocked(dir: string): Promise<JournalFiles> {
  try {
    return await inspectJournal(journalFolder(dir));
  } catch (error) {
    if ((await livingOwner(dir)) !== undefined) await (await openIndex(dir, 1)).close();
    throw error;
  }
}

/**
 * Opens the index, which is the lock. Rejects with a StoreError; `firstSegment` tells whether an index that is missing
 * could be built anew.
 */
async function openIndex(dir: string, firstSegment: number): Promise<LevelIndex> {
  const folder = indexFolder(dir);
  const exists = await stat(folder).then(
    () => true,
    () => false,
  );
  if (!exists && firstSegment > 1) throw indexMissing(dir);
  try {
    return await LevelIndex.open(folder);
  } catch (error) {
    throw cannotOpen(dir, await livingOwner(dir), error);
  }
}

/**
 * The index as it is, and with it the lock, or why it cannot be opened.
 * @throws StoreError `in_use`; the system's error
 */
export async function openIndexOf(dir: string): Promise<LevelIndex | StoreError> {
  try {
    return await openIndex(dir, 1);
  } catch (error) {
    if (error instanceof StoreError && error.code === 'corrupt') return error;
    throw error;
  }
}

/** True when nothing was written since the look. */
async function unchanged({ files, tornFile }: JournalFiles): Promise<boolean> {
  const last = files.at(-1);
  if (last === undefined || tornFile !== undefined) return false;
  const now = await stat(last.path).catch(() => undefined);
  return now?.size === last.bytes;
}

/**
 * The process id in the owner file, when that process is alive and another one: in a container the dead one often had
 * our own number.
 */
async function livingOwner(dir: string): Promise<number | undefined> {
  const pid = Number(await readFile(ownerFile(dir), 'utf8').catch(() => ''));
  if (!Number.isSafeInteger(pid) || pid <= 0 || pid === process.pid) return undefined;
  try {
    process.kill(pid, 0);
    return pid;
  } catch (error) {
    return codeOf(error) === 'EPERM' ? pid : undefined;
  }
}

/** LevelDB gives the system's words and not its code. These say nothing of what is stored. */
const SYSTEM_CODES: Readonly<Record<string, string>> = {
  'Permission denied': 'EACCES',
  'Operation not permitted': 'EPERM',
  'Read-only file system': 'EROFS',
  'No space left on device': 'ENOSPC',
  'Disk quota exceeded': 'EDQUOT',
};

/** Why LevelDB did not open. */
function cannotOpen(dir: string, owner: number | undefined, cause: unknown): Error {
  if (isLocked(cause)) return new StoreError('in_use', inUseLine(dir, owner), { cause, pid: owner });
  const why = reason(cause);
  const message = `The index in ${indexFolder(dir)} cannot be opened: ${why}`;
  const corrupt = `${message}. "gw journal repair" makes it anew from the journal`;
  const code = Object.entries(SYSTEM_CODES).find(([words]) => why.includes(words))?.[1];
  return code === undefined ? new StoreError('corrupt', corrupt, { cause }) : Object.assign(new Error(message, { cause }), { code });
}

function inUseLine(dir: string, pid: number | undefined): string {
  return `The data folder ${dir} is in use by another gateway${pid === undefined ? '' : ` (pid ${pid})`}: stop that one, or give this one a folder of its own (GW_DATA_DIR)`;
}

function indexMissing(dir: string): StoreError {
  return new StoreError(
    'corrupt',
    `The index of ${dir} is missing and its journal does not begin at segment 1, so that settings and totals of before cannot be had from it. Restore a backup, or give them up by "gw journal repair --rebuild-index"`,
  );
}

/** LevelDB hides why it failed in the cause. */
function reason(error: unknown): string {
  let message = String(error);
  for (let at: unknown = error; at instanceof Error; at = at.cause) message = at.message;
  return message;
}
