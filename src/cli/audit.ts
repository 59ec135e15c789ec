import { cutToCells } from '../base/lib/cell-width.ts';
import type { AuditChange, AuditEntry } from '../base/model/audit-entry.ts';
import { auditEntries } from './audit-entries.ts';
import { type CliIo, type Command, EXIT_OK, UsageError } from './command.ts';
import { URL_OPTION } from './gateway-client.ts';
import { parseOptions } from './parse-options.ts';
import { printJson } from './print-json.ts';
import { cellText, terminalText } from './terminal-text.ts';

const OPTIONS = {
  org: { type: 'string' },
  principal: { type: 'string' },
  operation: { type: 'string' },
  object: { type: 'string' },
  from: { type: 'string' },
  to: { type: 'string' },
  limit: { type: 'string' },
  json: { type: 'boolean' },
  key: { type: 'string' },
  ...URL_OPTION,
} as const;

/** Members that say nothing to a person who reads an entry. */
const PASSED_OVER: readonly string[] = ['org_id', 'created_at', 'updated_at'];
/** A member whose value is a secret, or may be one. */
const HIDDEN = '(not shown)';

/** Prints what people have changed in a running gateway. */
export const auditTrail: Command = {
  name: 'audit list',
  usual: true,
  usage:
    '[--operation ID] [--object ID] [--principal ID] [--org ID] [--from TIME] [--to TIME] [--limit N] [--json] [--url http://HOST:PORT] [--key mgk_…]',
  summary: 'Prints what people have changed in a running gateway, the newest first (50, or --limit); --json: one entry a line.',
  async run(args, io) {
    const { limit, json = false, url, org, key, principal, operation, object, from, to } = parseOptions(args, OPTIONS);
    const most = limit === undefined ? 50 : Number(limit);
    if (!Number.isInteger(most) || most < 1) throw new UsageError('--limit takes a whole number from 1');
    let count = 0;
    for await (const item of auditEntries({ url, org, key }, { principal, operation, object, from, to }, most, io)) {
      count += 1;
      if (json) printJson(item, io);
      else io.stdout(entryText(item as AuditEntry, io));
    }
    if (count === 0 && !json) io.stdout('nothing was changed\n');
    return EXIT_OK;
  },
};

/** A head, who it was, and a line for each member: `+` is new, `-` is gone. */
function entryText(
  { at, operation, object, object_name: name, principal, from, changes, more_changes: more }: AuditEntry,
  io: CliIo,
): string {
  const what = [at, operation, ...(object === undefined ? [] : [object])].map(cellText).join('  ');
  const lines = [
    what,
    ...(name === undefined ? [] : [`  ${terminalText(name)}`]),
    `  by ${terminalText(whoOf(principal))} from ${terminalText(from)}`,
    ...changes.filter((change) => saysMore(change, object, name)).map((change) => `  ${terminalText(changeText(change))}`),
    ...(more === undefined ? [] : [`  and ${more} more`]),
  ];
  return `${lines.map((line) => (io.columns === undefined ? line : cutToCells(line, io.columns))).join('\n')}\n`;
}

/** What stands above already, and when it was, is left out; `--json` has it all. */
function saysMore(
  { member, before_value: was, after_value: is }: AuditChange,
  object: string | undefined,
  name: string | undefined,
): boolean {
  if (PASSED_OVER.includes(member)) return false;
  return was !== undefined || is === undefined || (is !== object && is !== name);
}

function whoOf({ kind, id, name, program, user }: AuditEntry['principal']): string {
  const by = program === undefined ? undefined : `${program}${user === undefined ? '' : ` for ${user}`}`;
  const beside = [by, name === undefined ? undefined : `${kind.replaceAll('_', ' ')} ${id}`].filter((text) => text !== undefined);
  return `${name ?? id}${beside.length === 0 ? '' : ` (${beside.join(', ')})`}`;
}

function changeText({ member, before, after, before_value: was = HIDDEN, after_value: is = HIDDEN }: AuditChange): string {
  if (before === null) return `+ ${member}: ${is}`;
  return after === null ? `- ${member}: ${was}` : `  ${member}: ${was} → ${is}`;
}
