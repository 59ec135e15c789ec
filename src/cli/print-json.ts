import type { CliIo } from './command.ts';

/** The option of commands that print data. */
export const JSON_OPTION = { json: { type: 'boolean' } } as const;

/** What `--json` prints: one document on a line of its own. */
export function printJson(value: unknown, io: CliIo): void {
  io.stdout(`${JSON.stringify(value)}\n`);
}
