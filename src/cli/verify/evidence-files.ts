/*
 * Files that somebody else may have written, as `gw verify` reads them: of bounded size, and with one meaning only
 * (decision 13.4).
 */
import { createReadStream } from 'node:fs';
import { type FileHandle, mkdir, open, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AmbiguousJsonError, unambiguousJson } from '../../base/json/unambiguous-json.ts';
import { messageOf } from '../../base/lib/gateway-error.ts';
import { packageRoot } from '../../base/lib/package-root.ts';
import type { ListedKey } from '../../ledger/ledger-answers.ts';
import { readKeyList, readRootsPage } from '../../ledger/ledger-answers.ts';
import { LedgerError } from '../../ledger/ledger-error.ts';
import { type MerkleRoot, readRoot } from '../../ledger/merkle-root.ts';
import { type ListedLogEntry, readListedEntry, readLogEntriesPage } from '../../ledger/root-entry.ts';
import { type CliIo, Unusable } from '../command.ts';
import { LineReader } from '../mcp/line-reader.ts';
import { whyUnreadable } from '../process-io.ts';

/** Bytes of a file that is read whole. */
export const MAX_EVIDENCE_BYTES = 16 * 1024 * 1024;
/** Bytes of a line of a file of lines. */
const MAX_LINE_BYTES = 1024 * 1024;
const LINES = '.ndjson';
/** The code of a space; those of line ends and tabs are lower. */
const SPACE = 0x20;

/**
 * The bytes of a file, or of standard input. An empty one is no evidence of anything: it is what a list of no records
 * leaves, and what a command before a pipe leaves that has failed.
 * @param source `-`: standard input
 * @throws Unusable
 */
export async function readEvidence(source: string, io: CliIo): Promise<Uint8Array> {
  let bytes: Uint8Array;
  try {
    bytes = await (source === '-' ? io.stdin(MAX_EVIDENCE_BYTES) : wholeFile(source));
  } catch (error) {
    throw new Unusable(`${nameOf(source)}: ${whyUnreadable(error)}`, { cause: error });
  }
  if (bytes.every((byte) => byte <= SPACE)) throw new Unusable(`${nameOf(source)}: it is empty: there is nothing to verify`);
  return bytes;
}

/** What stands in a file of JSON. @throws Unusable when it cannot be read, or in two ways */
export async function readJsonFile(source: string, io: CliIo): Promise<unknown> {
  return jsonOf(await readEvidence(source, io), nameOf(source));
}

/**
 * The roots of several files one after the other: answers of `/roots`, and `.ndjson` files with a root on each line, of
 * any length.
 * @throws Unusable; LedgerError for what is no root
 */
export async function* rootsInFiles(files: readonly string[], io: CliIo): AsyncGenerator<MerkleRoot> {
  for (const file of files) {
    if (!file.endsWith(LINES)) yield* readRootsPage(await readJsonFile(file, io));
    else for await (const value of jsonLines(file)) yield readRoot(value);
  }
}

/** Entries of roots in a log, in the same two forms. @throws Unusable; LedgerError for what is no entry */
export async function* entriesInFiles(files: readonly string[], io: CliIo): AsyncGenerator<ListedLogEntry> {
  for (const file of files) {
    if (!file.endsWith(LINES)) yield* readLogEntriesPage(await readJsonFile(file, io));
    else for await (const value of jsonLines(file)) yield readListedEntry(value);
  }
}

/** Values of a file of lines; empty lines are passed over. @throws Unusable */
async function* jsonLines(file: string): AsyncGenerator<unknown> {
  const reader = new LineReader(MAX_LINE_BYTES);
  let number = 0;
  for await (const chunk of chunksOf(file)) {
    for (const read of reader.read(chunk)) {
      number++;
      const name = `${file}, line ${number}`;
      if ('tooLong' in read) throw new Unusable(`${name}: it is longer than ${MAX_LINE_BYTES} bytes`);
      if (read.line.length > 0) yield jsonOf(read.line, name);
    }
  }
}

/** With a line end behind the last line, which may lack it. */
async function* chunksOf(file: string): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of createReadStream(file)) if (chunk instanceof Buffer) yield chunk;
  } catch (error) {
    throw new Unusable(`${file}: ${whyUnreadable(error)}`, { cause: error });
  }
  yield Buffer.from('\n');
}

/** What is no file of a size, such as a pipe, is bounded as well. */
async function wholeFile(file: string): Promise<Uint8Array> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of createReadStream(file)) {
    if (!(chunk instanceof Buffer)) continue;
    size += chunk.length;
    if (size > MAX_EVIDENCE_BYTES) throw new Error(`the file is larger than ${MAX_EVIDENCE_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** @throws Unusable */
function jsonOf(bytes: Uint8Array, name: string): unknown {
  try {
    return unambiguousJson(bytes);
  } catch (error) {
    if (error instanceof AmbiguousJsonError) throw new Unusable(`${name}: ${error.message}`, { cause: error });
    throw error;
  }
}

/** How a file is called in a message. */
export function nameOf(source: string): string {
  return source === '-' ? 'standard input' : source;
}

/** The ledger keys in a file as `/keys` answers. @throws Unusable when it has none */
export async function keysInFile(file: string, io: CliIo): Promise<readonly ListedKey[]> {
  const value = await readJsonFile(file, io);
  try {
    const keys = readKeyList(value);
    if (keys.length === 0) throw new LedgerError('there is no ledger key in it');
    return keys;
  } catch (error) {
    if (error instanceof LedgerError) throw new Unusable(`${file}: ${error.message}`, { cause: error });
    throw error;
  }
}

/**
 * What goes into the folder as it is in the package: the text that explains it, and what checks everything, as a
 * program and as a page for a browser.
 */
const TEMPLATES = { 'README.md': 'page.md', 'check.py': 'check.py', 'verify.html': 'verify.html' } as const;

/** Files of lines that grow while something is exported. */
export type EvidenceLines = 'records.ndjson' | 'proofs.ndjson' | 'roots.ndjson' | 'log-entries.ndjson';

/** A folder for a third party, written line by line (decision 13.4). */
export class EvidenceFolder {
  readonly #path: string;
  readonly #open = new Map<EvidenceLines, FileHandle>();

  private constructor(path: string) {
    this.#path = path;
  }

  /** @throws Unusable unless the folder is new or empty: what was handed out is not mixed with what is */
  static async create(path: string): Promise<EvidenceFolder> {
    try {
      await mkdir(path, { recursive: true });
      if ((await readdir(path)).length > 0) throw new Error('it is not empty: name a new folder');
      const folder = new EvidenceFolder(path);
      for (const [name, template] of Object.entries(TEMPLATES))
        await folder.write(name, await readFile(join(packageRoot(), 'docs', 'evidence', template), 'utf8'));
      return folder;
    } catch (error) {
      throw new Unusable(`${path}: ${messageOf(error)}`, { cause: error });
    }
  }

  /** Adds whole lines. @param lines without their ends */
  async append(name: EvidenceLines, lines: readonly string[]): Promise<void> {
    let file = this.#open.get(name);
    if (file === undefined) {
      file = await open(join(this.#path, name), 'ax');
      this.#open.set(name, file);
    }
    if (lines.length > 0) await file.appendFile(`${lines.join('\n')}\n`);
  }

  async write(name: string, text: string): Promise<void> {
    await writeFile(join(this.#path, name), text, { flag: 'wx' });
  }

  /** A file in a folder of this one, which is made. */
  async writeBelow(folder: string, name: string, bytes: Uint8Array): Promise<void> {
    await mkdir(join(this.#path, folder), { recursive: true });
    await writeFile(join(this.#path, folder, name), bytes, { flag: 'wx' });
  }

  async close(): Promise<void> {
    for (const file of this.#open.values()) {
      await file.sync();
      await file.close();
    }
    this.#open.clear();
  }
}
