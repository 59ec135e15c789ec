import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { isShortened, SHORTENED_RULE } from '../base/model/execution-record.ts';
import { isExecutionRecord } from '../policy-tools/recorded-request.ts';
import { type CliIo, UsageError } from './command.ts';
import { type Document, parseJsonMap, UnreadablePath, unreadable } from './policy/policy-target.ts';

/**
 * The record that a text is.
 * @throws UnreadablePath for what is none, and for a shortened one: what is judged by it would be wrong (decision 7.13)
 */
export function wholeRecord(document: Document): Readonly<Record<string, unknown>> {
  const record = parseJsonMap(document);
  if (!isExecutionRecord(record)) throw new UnreadablePath(`${document.name}: this is not an execution record`);
  return expectWhole(record, document.name);
}

/** The same of a record that was read. @param name as a person named it @throws UnreadablePath */
export function expectWhole(record: Readonly<Record<string, unknown>>, name: string): Readonly<Record<string, unknown>> {
  if (isShortened(record)) throw new UnreadablePath(`${name}: ${SHORTENED_RULE}`);
  return record;
}

/**
 * The texts of records: the lines of a file (`-`: of standard input) as they stand there, or a data folder's, newest
 * first.
 * @throws UsageError unless one of both is given; UnreadablePath
 */
export function recordTexts({ records, data }: { readonly records?: string; readonly data?: string }, io: CliIo): AsyncIterable<Document> {
  if (records !== undefined && data === undefined) return fromLines(records, io);
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

/** One record a line, as `gw logs --json --whole` or `curl` in a loop writes it. */
async function* fromLines(path: string, io: CliIo): AsyncGenerator<Document> {
  const name = path === '-' ? 'standard input' : path;
  let line = 0;
  try {
    for await (const text of path === '-' ? (io.stdinLines?.() ?? []) : linesOf(path)) {
      line++;
      if (text.trim() !== '') yield { name: `${name}:${line}`, text };
    }
  } catch (error) {
    throw unreadable(name, error);
  }
}

function linesOf(path: string): AsyncIterable<string> {
  return createInterface({ input: createReadStream(path, 'utf8'), crlfDelay: Number.POSITIVE_INFINITY });
}

/** Reason codes that say no more than the decision beside them. */
const REPEATED: ReadonlySet<string> = new Set([
  'approval_required',
  'attribution_required',
  'quarantined',
  'rate_limited',
  'policy_denied',
]);

/** Of the reason codes of a call those that tell something beside its decision (decision 10.17). */
export function tellingCodes(codes: readonly unknown[]): readonly string[] {
  return codes.filter((code): code is string => typeof code === 'string' && !REPEATED.has(code));
}
