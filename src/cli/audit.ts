import type { AuditEntry } from '../base/model/audit-entry.ts';
import { type CliIo, type Command, EXIT_OK, UsageError } from './command.ts';
import { GatewayClient, URL_OPTION } from './gateway-client.ts';
import { eachItem } from './list-items.ts';
import { parseOptions } from './parse-options.ts';
import { printJson } from './print-json.ts';
import { cellText } from './terminal-text.ts';

const OPTIONS = {
  org: { type: 'string' },
  principal: { type: 'string' },
  operation: { type: 'string' },
  object: { type: 'string' },
  from: { type: 'string' },
  to: { type: 'string' },
  limit: { type: 'string' },
  json: { type: 'boolean' },
  ...URL_OPTION,
} as const;

/** Prints what people have changed in a running gateway. */
export const auditTrail: Command = {
  name: 'audit',
  usage:
    '[--operation ID] [--object ID] [--principal ID] [--org ID] [--from TIME] [--to TIME] [--limit N] [--json] [--url http://HOST:PORT]',
  summary: 'Prints what people have changed in a running gateway, the newest first (50, or --limit); --json: one entry a line.',
  async run(args, io) {
    const { limit, json = false, url, org, ...filters } = parseOptions(args, OPTIONS);
    const most = limit === undefined ? 50 : Number(limit);
    if (!Number.isInteger(most) || most < 1) throw new UsageError('--limit takes a whole number from 1');
    const query = new URLSearchParams(Object.entries({ ...filters, org_id: org }).filter(isGiven));
    const gateway = await GatewayClient.open(url, io);
    for await (const item of eachItem(gateway, '/v1/admin/audit', query, most)) print(item as AuditEntry, json, io);
    return EXIT_OK;
  },
};

function isGiven(entry: [string, string | undefined]): entry is [string, string] {
  return entry[1] !== undefined;
}

function print(entry: AuditEntry, json: boolean, io: CliIo): void {
  if (json) {
    printJson(entry, io);
    return;
  }
  const { at, operation, object = '', principal, from, changes, more_changes: more } = entry;
  const members = changes.map(({ member, before, after }) => `${before === null ? '+' : after === null ? '-' : '~'}${member}`);
  const rest = more === undefined ? [] : [`and ${more} more`];
  const cells = [at, operation, object, `by ${principal.id} from ${from}`, [...members, ...rest].join(' ')];
  io.stdout(`${cells.map(cellText).join('  ')}\n`);
}
