import { setTimeout as wait } from 'node:timers/promises';
import type { Approval } from '../../base/model/approval.ts';
import { type CliIo, type Command, EXIT_OK, UsageError } from '../command.ts';
import { URL_OPTION } from '../gateway-client.ts';
import { parseOptions } from '../parse-options.ts';
import { printJson } from '../print-json.ts';
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
  json: { type: 'boolean' },
  key: { type: 'string' },
  ...URL_OPTION,
} as const;

/** Prints approvals of a running gateway. */
export const listApprovals: Command = {
  name: 'approvals list',
  usage:
    '[--status pending|approved|denied|expired] [--org ID] [--workload ID] [--limit N] [--watch] [--json] [--url http://HOST:PORT] [--key mgk_…]',
  summary:
    'Prints approvals of a running gateway, the newest first (50, or --limit); --watch: those that wait, as they come, until it is stopped or has printed --limit.',
  async run(args, io) {
    const { limit, watch = false, json = false, url, key, org, workload, status } = parseOptions(args, OPTIONS);
    const most = limit === undefined ? (watch ? Number.POSITIVE_INFINITY : USUAL) : Number(limit);
    if (limit !== undefined && (!Number.isInteger(most) || most < 1)) throw new UsageError('--limit takes a whole number from 1');
    const filters = { org, workload, status: watch ? 'pending' : status };
    const approvals = await openApprovals({ url, key }, io);
    if (watch) await follow(approvals, filters, most, (approval) => print(approval, json, io));
    else for await (const item of approvals.each(filters, most)) print(item as Approval, json, io);
    return EXIT_OK;
  },
};

function print(approval: Approval, json: boolean, io: CliIo): void {
  if (json) printJson(approval, io);
  else io.stdout(approvalLine(approval));
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
