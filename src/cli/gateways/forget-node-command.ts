import type { ForgottenNode, GatewayNode } from '../../services/keeper/node-register.ts';
import { agrees } from '../agreement.ts';
import { parseWithOne } from '../checked-arguments.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK } from '../command.ts';
import { GatewayClient, URL_OPTION } from '../gateway-client.ts';
import { counted } from '../policy/check-command.ts';
import { JSON_OPTION, printJson, terminalText } from '../terminal-text.ts';

const PATH = '/v1/admin/nodes';
const OPTIONS = { yes: { type: 'boolean' }, ...JSON_OPTION, ...URL_OPTION } as const;

/** Forgets a node that never comes back. */
export const forgetNodeCommand: Command = {
  name: 'nodes forget',
  usage: 'ID [--yes] [--json] [--url http://HOST:PORT]',
  summary: 'Forgets a node that never comes back; what it held of shared caps counts as spent.',
  help: `
  ID     gw nodes list shows the names of nodes, and when each was last heard of
  --yes  does it without asking

  What the node has not carried into the database stays in its data folder and is missing there for good: where you still have the folder,
  start the node on it once more first. A process of the node that runs all the same takes no calls any more once it hears of the database.
`,
  async run(args, io) {
    const { values, one } = parseWithOne(args, OPTIONS, 'it takes the ID of one node; gw nodes list shows them');
    const { yes = false, json = false, url } = values;
    const gateway = await GatewayClient.open(url, io);
    if (!yes && !(await isMeant(gateway, one, io))) return EXIT_NO;
    const done = (await gateway.json('DELETE', `${PATH}/${encodeURIComponent(one)}`)) as ForgottenNode;
    if (json) printJson(done, io);
    else io.stdout(told(done));
    return EXIT_OK;
  },
};

/** Shows what is known of the node; what is wrong with its name the gateway says. */
async function isMeant(gateway: GatewayClient, id: string, io: CliIo): Promise<boolean> {
  const { nodes } = (await gateway.json('GET', PATH)) as { readonly nodes: readonly GatewayNode[] };
  const node = nodes.find(({ node_id: name }) => name === id);
  if (node === undefined) return true;
  const { last_seen_at: seen = 'never', backlog = { records: 0 }, allowances } = node;
  io.stderr(
    `The node ${terminalText(id)}, last heard of ${terminalText(seen)}, had ${counted(backlog.records, 'record')} that the database does not have`,
  );
  io.stderr(
    allowances === undefined || allowances.accounts === 0 ? '.\n' : `; ${terminalText(allowances.usd)} USD that it held count as spent.\n`,
  );
  if (io.columns === undefined) {
    io.stderr('Nobody can be asked here: --yes says that it is meant. Nothing was changed.\n');
    return false;
  }
  return agrees('It never comes back, and is to be forgotten?', io);
}

function told({ node_id: id, charged }: ForgottenNode): string {
  const held =
    charged.accounts === 0
      ? 'it held nothing of shared caps'
      : `${terminalText(charged.usd)} USD that it held of shared caps count as spent`;
  return `The node ${terminalText(id)} is forgotten; ${held}.\n`;
}
