/* Several records, one a line, as `gw logs --json --whole` prints them and `records.ndjson` of an export holds them. */
import { messageOf } from '../../base/lib/thrown.ts';
import { type CheckedRecord, checkRecord } from '../../record/verify-record.ts';
import { type CliIo, EXIT_NO, EXIT_OK, Unusable } from '../command.ts';
import { printJson } from '../print-json.ts';
import { terminalText } from '../terminal-text.ts';

/** A line of a file, and its number. */
export interface RecordLine {
  readonly text: string;
  readonly number: number;
}

/** The lines of a text that has a JSON object on each; undefined where it is one record, however it is written. */
export function recordLines(bytes: Uint8Array): readonly RecordLine[] | undefined {
  const lines = Buffer.from(bytes)
    .toString('utf8')
    .split('\n')
    .map((text, at) => ({ text: text.trim(), number: at + 1 }))
    .filter(({ text }) => text !== '');
  const [first] = lines;
  return lines.length > 1 && first?.text.startsWith('{') === true && first.text.endsWith('}') ? lines : undefined;
}

/**
 * Checks the hash of each record and prints a line for it, or with `json` an object.
 * @param name of the file, for messages @returns the exit code: 1 where one does not fit
 * @throws Unusable for a line that is no whole record
 */
export function checkRecordLines(lines: readonly RecordLine[], name: string, json: boolean, io: CliIo): number {
  let wrong = 0;
  for (const { text, number } of lines) {
    const { recordId, stored, computed } = checkedLine(text, `${name}, line ${number}`);
    const verified = stored === computed;
    if (!verified) wrong += 1;
    if (json) printJson({ record_id: recordId, verified, stored, computed }, io);
    else if (verified) io.stdout(`verified  ${terminalText(recordId)}\n`);
    else io.stdout(`MISMATCH  ${terminalText(recordId)}\n  in the record  ${terminalText(stored)}\n  recomputed     ${computed}\n`);
  }
  if (!json) io.stdout(`${lines.length} records: ${lines.length - wrong} verified, ${wrong} not\n`);
  return wrong === 0 ? EXIT_OK : EXIT_NO;
}

function checkedLine(text: string, name: string): CheckedRecord {
  try {
    return checkRecord(text);
  } catch (error) {
    throw new Unusable(`${name}: ${messageOf(error)}`, { cause: error });
  }
}
