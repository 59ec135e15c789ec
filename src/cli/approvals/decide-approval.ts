import type { Approval } from '../../base/model/approval.ts';
import { type CliIo, type Command, EXIT_OK } from '../command.ts';
import { GatewayClient, URL_OPTION } from '../gateway-client.ts';
import { parseWithOne } from '../parse-options.ts';
import { approvalText } from './approval-text.ts';

const SHOW_OPTIONS = { json: { type: 'boolean' }, ...URL_OPTION } as const;
const DECIDE_OPTIONS = { ...SHOW_OPTIONS, reason: { type: 'string' }, by: { type: 'string' } } as const;
const ONE_RULE = 'one approval is named by its id';

/** Prints one approval of a running gateway. */
export const showApproval: Command = {
  name: 'approvals show',
  usage: 'ID [--json] [--url http://HOST:PORT]',
  summary: 'Prints what an approver needs to know of one approval of a running gateway.',
  async run(args, io) {
    const { one: id, values } = parseWithOne(args, SHOW_OPTIONS, ONE_RULE);
    const gateway = await GatewayClient.open(values.url, io);
    print(await gateway.json('GET', pathOf(id)), values.json === true, io);
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
    usage: 'ID [--reason TEXT] [--by NAME] [--json] [--url http://HOST:PORT]',
    summary,
    async run(args, io) {
      const { one: id, values } = parseWithOne(args, DECIDE_OPTIONS, ONE_RULE);
      const { url, json = false, reason, by } = values;
      const gateway = await GatewayClient.open(url, io);
      const body = { ...(by === undefined ? {} : { decided_by: by }), ...(reason === undefined ? {} : { reason }) };
      print(await gateway.json('POST', `${pathOf(id)}/${verb}`, body), json, io);
      return EXIT_OK;
    },
  };
}

function pathOf(id: string): string {
  return `/v1/admin/approvals/${encodeURIComponent(id)}`;
}

function print(answer: unknown, json: boolean, io: CliIo): void {
  io.stdout(json ? `${JSON.stringify(answer)}\n` : approvalText(answer as Approval));
}
