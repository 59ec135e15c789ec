import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { UsageError } from './command.ts';
import type { Document } from './policy/input.ts';
import { unreadable } from './policy/policy-target.ts';

/**
 * The texts of records: the lines of a file as they stand there, or a data folder's, newest first.
 * @throws UsageError unless one of both is given; UnreadablePath
 */
export function recordTexts({ records, data }: { readonly records?: string; readonly data?: string }): AsyncIterable<Document> {
  if (records !== undefined && data === undefined) return fromLines(records);
  if (data !== undefined && records === undefined) return fromStore(data);
  throw new UsageError('give either --records FILE or --data FOLDER');
}

async function* fromStore(dataDir: string): AsyncGenerator<Document> {
  try {
    // The store's engine is loaded by the commands that need it alone.
    const { storedRecords } = await import('../app/stored-records.ts');
    for await (const text of storedRecords(dataDir)) yield { name: dataDir, text };
  } catch (error) {
    throw unreadable(dataDir, error);
  }
}

/** One record a line, as a log of records or `curl` in a loop writes it. */
async function* fromLines(path: string): AsyncGenerator<Document> {
  let line = 0;
  try {
    for await (const text of createInterface({ input: createReadStream(path, 'utf8'), crlfDelay: Number.POSITIVE_INFINITY })) {
      line++;
      if (text.trim() !== '') yield { name: `${path}:${line}`, text };
    }
  } catch (error) {
    throw unreadable(path, error);
  }
}
