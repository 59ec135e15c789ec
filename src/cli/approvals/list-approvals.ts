import { setTimeout as wait } from 'node:timers/promises';
import type { Approval } from '../../base/model/approval.ts';
import { type CliIo, type Command, EXIT_OK, UsageError } from '../command.ts';
import { GatewayClient, URL_OPTION } from '../gateway-client.ts';
import { eachItem } from '../list-items.ts';
import { parseOptions } from '../parse-options.ts';
import { approvalLine } from './approval-text.ts';

const PATH = '/v1/admin/approvals';
const USUAL = 50;
const EVERY_MS = 2_000;

const OPTIONS = {
  org: { type: 'string' },
  workload: { type: 'string' },
  status: { type: 'string' },
  limit: { type: 'string' },
  watch: { type: 'boolean' },
  json: { type: 'boolean' },
  ...URL_OPTION,
} as const;

/** Prints approvals of a running gateway. */
export const listApprovals: Command = {
  name: 'approvals list',
  usage: '[--status pending|approved|denied|expired] [--org ID] [--workload ID] [--limit N] [--watch] [--json] [--url http://HOST:PORT]',
  summary:
    'Prints approvals of a running gateway, the newest first (50, or --limit); --watch: those that wait, as they come, until it is stopped or has printed --limit.',
  async run(args, io) {
    const { limit, watch = false, json = false, url, org, workload, status } = parseOptions(args, OPTIONS);
    const most = limit === undefined ? (watch ? Number.POSITIVE_INFINITY : USUAL) : Number(limit);
    if (limit !== undefined && (!Number.isInteger(most) || most < 1)) throw new UsageError('--limit takes a whole number from 1');
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries({ org_id: org, workload_id: workload, status: watch ? 'pending' : status }))
      if (value !== undefined) query.set(name, value);
    const gateway = await GatewayClient.open(url, io);
    if (watch) await follow(gateway, query, most, (approval) => print(approval, json, io));
    else for await (const item of eachItem(gateway, PATH, query, most)) print(item as Approval, json, io);
    return EXIT_OK;
  },
};

function print(approval: Approval, json: boolean, io: CliIo): void {
  io.stdout(json ? `${JSON.stringify(approval)}\n` : approvalLine(approval));
}

/** Each that waits is told once, the oldest first. */
async function follow(gateway: GatewayClient, query: URLSearchParams, most: number, tell: (approval: Approval) => void): Promise<void> {
  let told: ReadonlySet<string> = new Set();
  for (let left = most; ; ) {
    const waiting: Approval[] = [];
    for await (const item of eachItem(gateway, PATH, query, Number.POSITIVE_INFINITY)) waiting.unshift(item as Approval);
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
