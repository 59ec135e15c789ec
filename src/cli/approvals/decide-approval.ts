import type { Approval } from '../../base/model/approval.ts';
import { type CliIo, type Command, EXIT_OK } from '../command.ts';
import { URL_OPTION } from '../gateway-client.ts';
import { parseWithOne } from '../parse-options.ts';
import { printJson } from '../print-json.ts';
import { approvalText } from './approval-text.ts';
import { openApprovals } from './approvals-access.ts';

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
    print(await approvals.one(id), values.json === true, io);
    return EXIT_OK;
  },
};

/** Approves a request that waits. */
export const approveApproval: Command = deciding('approve', 'Approves a request that waits: it is executed once, when it comes again.');
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
      print(await approvals.decide(id, verb, body), json, io);
      return EXIT_OK;
    },
  };
}

function print(answer: unknown, json: boolean, io: CliIo): void {
  if (json) printJson(answer, io);
  else io.stdout(approvalText(answer as Approval));
}
