import { cutToCells } from '../base/lib/cell-width.ts';
import { timestamp } from '../base/lib/clock.ts';
import { parseDate, parseTime } from '../base/lib/rfc3339.ts';
import type { AuditChange, AuditEntry } from '../base/model/audit-entry.ts';
import { principalText } from '../base/model/principal.ts';
import { type AuditQuery, auditEntries } from './audit-entries.ts';
import { badValue } from './checked-arguments.ts';
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
const PASSED_OVER: readonly string[] = ['org_id', 'created_at', 'updated_at', 'due', 'share.caller', 'share.org'];
/** What is kept beside a thing to find or to send it by: the change itself once more. */
const SAID_BEFORE: ReadonlySet<string> = new Set(['outbox', 'approval_pending', 'quarantine_active']);
/** A member whose value is a secret, or may be one. */
const HIDDEN = '(not shown)';
const DAY_MS = 86_400_000;

/** Prints what people have changed in a running gateway. */
export const auditTrail: Command = {
  name: 'audit list',
  usual: true,
  usage:
    '[--operation ID] [--object ID] [--principal ID] [--org ID] [--from TIME] [--to TIME] [--limit N] [--json] [--url http://HOST:PORT] [--key mgk_…]',
  summary: 'Prints what people have changed in a running gateway, the newest first (50, or --limit); --json: one entry a line.',
  help: `
  --operation   the id of an operation (workloads.put), or its group (workloads)
  --object      what was changed: its id, or its name
  --principal   who: the id or the name of a key, admin, or the user of a program that works with the admin token
  --from, --to  times, or days in UTC: both days are included
`,
  async run(args, io) {
    const { limit, json = false, url, org, key, principal, operation, object, from, to } = parseOptions(args, OPTIONS);
    const most = limit === undefined ? 50 : Number(limit);
    if (!Number.isInteger(most) || most < 1) throw new UsageError('--limit takes a whole number from 1');
    const query = { principal, operation, object, from: momentOf('from', from), to: momentOf('to', to) };
    let count = 0;
    for await (const item of auditEntries({ url, org, key }, query, most, io)) {
      count += 1;
      if (json) printJson(item, io);
      else io.stdout(entryText(item as AuditEntry, io));
    }
    if (count === 0 && !json) io.stdout(`${nothingOf(query)}\n`);
    return EXIT_OK;
  },
};

/** A day as the time at which it begins or, as the end of a range that includes it, ends. */
function momentOf(end: 'from' | 'to', text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const day = parseDate(text);
  if (day !== undefined) return timestamp(end === 'from' ? day : day + DAY_MS);
  if (parseTime(text) === undefined) throw badValue(`--${end}`, 'a time such as 2026-11-22T05:00:00Z, or a day such as 2026-11-22', text);
  return text;
}

/** An empty answer is no proof where a filter may be misspelt. */
function nothingOf({ operation, ...others }: AuditQuery): string {
  if (operation !== undefined)
    return 'nothing was changed that fits; --operation takes the id of an operation, such as workloads.put, or its group, such as workloads';
  return Object.values(others).some((value) => value !== undefined) ? 'nothing was changed that fits' : 'nothing was changed';
}

/** A head, who it was, and a line for each member: `+` is new, `-` is gone. */
function entryText(
  { at, operation, object, object_name: name, principal, from, changes, more_changes: more }: AuditEntry,
  io: CliIo,
): string {
  const what = [at, operation, ...(object === undefined ? [] : [object])].map(cellText).join('  ');
  const lines = [
    what,
    ...(name === undefined ? [] : [`  ${terminalText(name)}`]),
    `  by ${terminalText(principalText(principal))} from ${terminalText(from)}`,
    ...changeLines(changes.filter((change) => saysMore(change, object, name))),
    ...(more === undefined ? [] : [`  and ${more} more`]),
  ];
  return `${lines.map((line) => (io.columns === undefined ? line : cutToCells(line, io.columns))).join('\n')}\n`;
}

/** What stands above already, and when it was, is left out; `--json` has it all. */
function saysMore(
  { entity, member, before_value: was, after_value: is }: AuditChange,
  object: string | undefined,
  name: string | undefined,
): boolean {
  if (SAID_BEFORE.has(entity) || PASSED_OVER.includes(member)) return false;
  return was !== undefined || is === undefined || (is !== object && is !== name);
}

/** The parts of a secret are one line: nobody can tell them apart. */
function changeLines(changes: readonly AuditChange[]): readonly string[] {
  const whole = (change: AuditChange): AuditChange =>
    change.before_value === undefined && change.after_value === undefined
      ? { ...change, member: change.member.split('.')[0] ?? change.member }
      : change;
  return [...new Set(changes.map((change) => `  ${terminalText(changeText(whole(change)))}`))];
}

function changeText({ member, before, after, before_value: was = HIDDEN, after_value: is = HIDDEN }: AuditChange): string {
  if (before === null) return `+ ${member}: ${is}`;
  return after === null ? `- ${member}: ${was}` : `  ${member}: ${was} → ${is}`;
}
