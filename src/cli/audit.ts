import { parseDate, parseTime, systemClock, timestamp } from '../base/lib/clock.ts';
import type { AuditEntry } from '../base/model/audit-entry.ts';
import { auditEntryText } from './audit-text.ts';
import { badValue, parseOptions } from './checked-arguments.ts';
import { type CliIo, type Command, EXIT_OK, UsageError } from './command.ts';
import { eachItem, GatewayClient, URL_OPTION } from './gateway-client.ts';
import { givenKey, ONE_ORG } from './management/given-key.ts';
import { printJson } from './terminal-text.ts';

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

const DAY_MS = 86_400_000;
const DAYS_AGO: Readonly<Record<string, number>> = { today: 0, yesterday: 1 };

/** Prints what people have changed in a running gateway. */
export const auditTrail: Command = {
  name: 'audit list',
  usual: true,
  usage:
    '[--operation ID] [--object ID] [--principal ID] [--org ID] [--from TIME] [--to TIME] [--limit N] [--json] [--url http://HOST:PORT] [--key mgk_…]',
  summary: 'Prints what people have changed in a running gateway, the newest first (50, or --limit); --json: one entry a line.',
  help: `
  --operation   the id of an operation (workloads.put), or its group (workloads)
  --object      what was changed: its id, or its name; also a rule of policy that was changed with others
  --principal   who: the id or the name of a key, admin, or the user of a program that works with the admin token
  --from, --to  times, or days in UTC, also today and yesterday: both days are included
`,
  async run(args, io) {
    const { limit, json = false, url, org, key, principal, operation, object, from, to } = parseOptions(args, OPTIONS);
    const most = limit === undefined ? 50 : Number(limit);
    if (!Number.isInteger(most) || most < 1) throw new UsageError('--limit takes a whole number from 1');
    const query = { principal, operation, object, from: auditMoment('from', from), to: auditMoment('to', to) };
    if (query.from !== undefined && query.to !== undefined && (parseTime(query.from) ?? 0) >= (parseTime(query.to) ?? 0))
      throw new UsageError('--from is not before --to: nothing lies between them');
    let count = 0;
    for await (const item of auditEntries({ url, org, key }, query, most, io)) {
      count += 1;
      if (json) printJson(item, io);
      else io.stdout(auditEntryText(item as AuditEntry, io.columns));
    }
    if (count === 0 && !json) io.stdout(`${nothingOf(query)}\n`);
    return EXIT_OK;
  },
};

/**
 * A day as the time at which it begins or, as the end of a range that includes it, ends.
 * @param now milliseconds since the epoch
 * @throws UsageError
 */
export function auditMoment(end: 'from' | 'to', text: string | undefined, now: number = systemClock.now()): string | undefined {
  if (text === undefined) return undefined;
  const ago = DAYS_AGO[text];
  const day = ago === undefined ? parseDate(text) : (Math.floor(now / DAY_MS) - ago) * DAY_MS;
  if (day !== undefined) return timestamp(end === 'from' ? day : day + DAY_MS);
  if (parseTime(text) === undefined)
    throw badValue(`--${end}`, 'a time such as 2026-11-22T05:00:00Z, or a day such as 2026-11-22, today or yesterday', text);
  return text;
}

/** An empty answer is no proof where a filter may be misspelt. */
function nothingOf({ operation, ...others }: AuditQuery): string {
  if (operation !== undefined)
    return 'nothing was changed that fits; --operation takes the id of an operation, such as workloads.put, or its group, such as workloads';
  return Object.values(others).some((value) => value !== undefined) ? 'nothing was changed that fits' : 'nothing was changed';
}

/** Which entries; undefined: all. */
export interface AuditQuery {
  readonly principal: string | undefined;
  readonly operation: string | undefined;
  readonly object: string | undefined;
  readonly from: string | undefined;
  readonly to: string | undefined;
}

export interface AuditPlace {
  readonly url: string | undefined;
  readonly key: string | undefined;
  readonly org: string | undefined;
}

/**
 * Entries of a running gateway, the newest first: with a management key those of its org, with the admin token those of
 * all.
 * @throws UsageError, Unusable, GatewayRefusal
 */
async function* auditEntries({ url, key, org }: AuditPlace, query: AuditQuery, most: number, io: CliIo): AsyncGenerator<unknown> {
  const own = givenKey(key, io);
  const given = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined);
  if (own === undefined) {
    const asked = new URLSearchParams(org === undefined ? given : [...given, ['org_id', org]]);
    yield* eachItem(await GatewayClient.open(url, io), '/v1/admin/audit', asked, most);
    return;
  }
  if (org !== undefined) throw new UsageError(ONE_ORG);
  // Loaded here: the small commands do not wait for the operations.
  const [{ AUDIT_OPERATIONS }, { entryOf }, { listByKey }, { ManagementClient }] = await Promise.all([
    import('../operations/audit-operations.ts'),
    import('../operations/operation.ts'),
    import('./management/list-by-key.ts'),
    import('./management/management-client.ts'),
  ]);
  yield* listByKey(
    new ManagementClient(GatewayClient.keyPlace(io, url), own),
    entryOf(AUDIT_OPERATIONS, 'mgmt.audit.list'),
    Object.fromEntries(given),
    most,
  );
}
