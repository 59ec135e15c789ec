import { shownJson } from '../base/lib/shown-text.ts';
import type { CliIo } from './command.ts';

/** The option of commands that print data. */
export const JSON_OPTION = { json: { type: 'boolean' } } as const;

/** What `--json` prints: one document on a line of its own. What a terminal would not show, or obey, stands in it as escapes of JSON: the same value. */
export function printJson(value: unknown, io: CliIo): void {
  printJsonText(JSON.stringify(value), io);
}

/** The same with a member a line. */
export function printJsonDocument(value: unknown, io: CliIo): void {
  printJsonText(JSON.stringify(value, null, 2), io);
}

/** The same of an answer as it came. */
export function printJsonText(text: string, io: CliIo): void {
  io.stdout(`${shownJson(text.trimEnd())}\n`);
}
