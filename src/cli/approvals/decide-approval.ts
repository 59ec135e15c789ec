import { systemClock } from '../../base/lib/clock.ts';
import type { Approval } from '../../base/model/approval.ts';
import { parseWithOne } from '../checked-arguments.ts';
import { type CliIo, type Command, EXIT_OK } from '../command.ts';
import { URL_OPTION } from '../gateway-client.ts';
import { isUuid } from '../management/table-cells.ts';
import { printJson } from '../terminal-text.ts';
import { approvalText } from './approval-text.ts';
import { openApprovals } from './approvals-access.ts';
import type { ApprovalsAccess } from './approvals-port.ts';

const SHOW_OPTIONS = { json: { type: 'boolean' }, key: { type: 'string' }, ...URL_OPTION } as const;
const DECIDE_OPTIONS = { ...SHOW_OPTIONS, reason: { type: 'string' }, by: { type: 'string' } } as const;
const ONE_RULE = 'one approval is named by its id';

/** Prints one approval of a running gateway. */
export const showApproval: Command = {
  name: 'approvals show',
  usage: 'ID [--json] [--url http://HOST:PORT] [--key mgk_…]',
  summary: 'Prints what an approver needs to know of one approval of a running gateway.',
  async run(args, io) {
    const { one: id, values } = parseWithOne(args, SHOW_OPTIONS, ONE_RULE);
    const approvals = await openApprovals(values, io);
    print(await approvals.one(await wholeApprovalId(approvals, id, false, io)), values.json === true, io);
    return EXIT_OK;
  },
};

/** Approves a request that waits. */
export const approveApproval: Command = deciding(
  'approve',
  'Approves a request that waits: its call is sent at once where it is held, else it is executed once, when it comes again.',
);
/** Denies it. */
export const denyApproval: Command = deciding('deny', 'Denies a request that waits.');

function deciding(verb: 'approve' | 'deny', summary: string): Command {
  return {
    name: `approvals ${verb}`,
    usage: 'ID [--reason TEXT] [--by NAME] [--json] [--url http://HOST:PORT] [--key mgk_…]',
    summary,
    async run(args, io) {
      const { one: id, values } = parseWithOne(args, DECIDE_OPTIONS, ONE_RULE);
      const { json = false, reason, by } = values;
      const approvals = await openApprovals(values, io);
      const body = { ...(by === undefined ? {} : { decided_by: by }), ...(reason === undefined ? {} : { reason }) };
      print(await approvals.decide(await wholeApprovalId(approvals, id, true, io), verb, body), json, io);
      return EXIT_OK;
    },
  };
}

/**
 * What a person has shortened is looked for among all approvals that whoever asks may see.
 * @throws Unusable where several are meant
 */
async function wholeApprovalId(approvals: ApprovalsAccess, id: string, changes: boolean, io: CliIo): Promise<string> {
  if (isUuid(id)) return id;
  // The operations are loaded by what needs them alone.
  const { MOST_LOOKED_THROUGH, wholeId } = await import('../management/short-ids.ts');
  const search = { short: id, list: 'mgmt.approvals.list', changes, removes: false };
  return (await wholeId(search, pageOfAll(approvals, MOST_LOOKED_THROUGH), io)) ?? id;
}

async function* pageOfAll(approvals: ApprovalsAccess, most: number): AsyncGenerator<readonly unknown[]> {
  const all = { org: undefined, workload: undefined, status: undefined };
  for await (const item of approvals.each(all, most)) yield [item];
}

function print(answer: unknown, json: boolean, io: CliIo): void {
  if (json) printJson(answer, io);
  else io.stdout(approvalText(answer as Approval, systemClock.now()));
}
