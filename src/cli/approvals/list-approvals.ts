import { setTimeout as wait } from 'node:timers/promises';
import { systemClock } from '../../base/lib/clock.ts';
import type { Approval } from '../../base/model/approval.ts';
import { parseOptions } from '../checked-arguments.ts';
import { type CliIo, type Command, EXIT_OK, UsageError } from '../command.ts';
import { URL_OPTION } from '../gateway-client.ts';
import { listText } from '../management/answer-text.ts';
import { LISTS } from '../management/command-tables.ts';
import { columnNames, type TableView } from '../management/table-cells.ts';
import { printJson } from '../terminal-text.ts';
import { approvalLine } from './approval-text.ts';
import { openApprovals } from './approvals-access.ts';
import type { ApprovalFilters, ApprovalsAccess } from './approvals-port.ts';

const USUAL = 50;
const EVERY_MS = 2_000;

const OPTIONS = {
  org: { type: 'string' },
  workload: { type: 'string' },
  status: { type: 'string' },
  limit: { type: 'string' },
  watch: { type: 'boolean' },
  wide: { type: 'boolean' },
  columns: { type: 'string' },
  json: { type: 'boolean' },
  key: { type: 'string' },
  ...URL_OPTION,
} as const;

/** Prints approvals of a running gateway. */
export const listApprovals: Command = {
  name: 'approvals list',
  usage:
    '[--status pending|approved|denied|expired|withdrawn] [--org ID] [--workload ID] [--limit N] [--watch] [--wide] [--columns NAME,…] [--json] [--url http://HOST:PORT] [--key mgk_…]',
  summary:
    'Prints approvals of a running gateway, the newest first (50, or --limit); --watch: those that wait, as they come, until it is stopped or has printed --limit.',
  async run(args, io) {
    const { limit, watch = false, json = false, url, key, org, workload, status, wide, columns } = parseOptions(args, OPTIONS);
    if (watch && (wide === true || columns !== undefined))
      throw new UsageError('--wide and --columns are for a table, and --watch prints lines');
    const most = limit === undefined ? (watch ? Number.POSITIVE_INFINITY : USUAL) : Number(limit);
    if (limit !== undefined && (!Number.isInteger(most) || most < 1)) throw new UsageError('--limit takes a whole number from 1');
    const filters = { org, workload, status: watch ? 'pending' : status };
    const approvals = await openApprovals({ url, key }, io);
    if (watch) await follow(approvals, filters, most, (approval) => tell(approval, json, io));
    else
      await printAll(
        approvals.each(filters, most),
        json,
        { width: io.columns, wide: wide === true, columns: columnNames(columns), now: systemClock.now() },
        io,
      );
    return EXIT_OK;
  },
};

/** At a terminal a row of the table: the others come later. */
function tell(approval: Approval, json: boolean, io: CliIo): void {
  if (json || io.columns === undefined) {
    print(approval, json, io);
    return;
  }
  const facts = { things: 'approvals', ...LISTS['mgmt.approvals.list'], view: { width: io.columns, now: systemClock.now() } };
  io.stdout(`${listText([approval], facts).split('\n')[1]}\n`);
}

function print(approval: Approval, json: boolean, io: CliIo): void {
  if (json) printJson(approval, io);
  else io.stdout(approvalLine(approval));
}

/** A table for people and for who asks for one; else a line each, as it comes. */
async function printAll(items: AsyncIterable<unknown>, json: boolean, view: TableView, io: CliIo): Promise<void> {
  const isTable = view.width !== undefined || view.wide === true || view.columns !== undefined;
  const all: unknown[] = [];
  for await (const item of items) {
    if (json || !isTable) print(item as Approval, json, io);
    else all.push(item);
  }
  if (!json && isTable) io.stdout(listText(all, { things: 'approvals', ...LISTS['mgmt.approvals.list'], view }));
}

/** Each that waits is told once, the oldest first. */
async function follow(
  approvals: ApprovalsAccess,
  filters: ApprovalFilters,
  most: number,
  tell: (approval: Approval) => void,
): Promise<void> {
  let told: ReadonlySet<string> = new Set();
  for (let left = most; ; ) {
    const waiting: Approval[] = [];
    for await (const item of approvals.each(filters, Number.POSITIVE_INFINITY)) waiting.unshift(item as Approval);
    for (const approval of waiting) {
      if (told.has(approval.approval_id)) continue;
      tell(approval);
      left -= 1;
      if (left === 0) return;
    }
    // What does not wait any more never comes again.
    told = new Set(waiting.map(({ approval_id: id }) => id));
    await wait(EVERY_MS);
  }
}
