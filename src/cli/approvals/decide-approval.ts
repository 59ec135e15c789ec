import { parseArgs } from 'node:util';
import { messageOf } from '../../base/lib/thrown.ts';
import type { Approval } from '../../base/model/approval.ts';
import { type CliIo, type Command, EXIT_OK, UsageError } from '../command.ts';
import { GatewayClient, URL_OPTION } from '../gateway-client.ts';
import { approvalText } from './approval-text.ts';

const SHOW_OPTIONS = { json: { type: 'boolean' }, ...URL_OPTION } as const;
const DECIDE_OPTIONS = { ...SHOW_OPTIONS, reason: { type: 'string' }, by: { type: 'string' } } as const;

/** Prints one approval of a running gateway. */
export const showApproval: Command = {
  name: 'approvals show',
  usage: 'ID [--json] [--url http://HOST:PORT]',
  summary: 'Prints what an approver needs to know of one approval of a running gateway.',
  async run(args, io) {
    const { id, values } = read(args, SHOW_OPTIONS);
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
      const { id, values } = read(args, DECIDE_OPTIONS);
      const { url, json = false, reason, by } = values;
      const gateway = await GatewayClient.open(url, io);
      const body = { ...(by === undefined ? {} : { decided_by: by }), ...(reason === undefined ? {} : { reason }) };
      print(await gateway.json('POST', `${pathOf(id)}/${verb}`, body), json, io);
      return EXIT_OK;
    },
  };
}

function read<O extends typeof SHOW_OPTIONS>(args: readonly string[], options: O) {
  try {
    const { values, positionals } = parseArgs({ args: [...args], options, strict: true, allowPositionals: true });
    const [id, ...more] = positionals;
    if (id === undefined || more.length > 0) throw new UsageError('one approval is named by its id');
    return { id, values };
  } catch (error) {
    throw error instanceof UsageError ? error : new UsageError(messageOf(error), { cause: error });
  }
}

function pathOf(id: string): string {
  return `/v1/admin/approvals/${encodeURIComponent(id)}`;
}

function print(answer: unknown, json: boolean, io: CliIo): void {
  io.stdout(json ? `${JSON.stringify(answer)}\n` : approvalText(answer as Approval));
}
