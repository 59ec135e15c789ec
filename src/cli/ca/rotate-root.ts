import type { RootStatus } from '../../inbound/ca/root-status.ts';
import { parseOptions } from '../checked-arguments.ts';
import { type CliIo, type Command, EXIT_OK } from '../command.ts';
import { GatewayClient, URL_OPTION } from '../gateway-client.ts';
import { asTyped } from '../program-name.ts';
import { SWITCH_OPTIONS, switchAsked } from '../switch-time.ts';
import { printRoots } from './root-report.ts';

/** Time enough to bring the next root to every client. */
const USUAL_WAIT = '30d';

const OPTIONS = { ...SWITCH_OPTIONS, json: { type: 'boolean' }, ...URL_OPTION } as const;

/** Shows the roots of a running gateway. */
export const caStatus: Command = {
  name: 'ca status',
  usage: '[--json] [--url http://HOST:PORT]',
  summary: 'Shows the roots that a running gateway hands out: which one signs, which one will and from when on, and former ones.',
  async run(args, io) {
    const { url, json = false } = parseOptions(args, { json: { type: 'boolean' }, ...URL_OPTION });
    const gateway = await GatewayClient.open(url, io);
    printRoots((await gateway.json('GET', '/v1/admin/ca')) as RootStatus, json, io);
    return EXIT_OK;
  },
};

/** Replaces the root of a running gateway without a time at which clients trust none. */
export const rotateRoot: Command = {
  name: 'ca rotate',
  usage: '[--in DURATION | --switch-at TIME | --cancel | --finish] [--json] [--url http://HOST:PORT]',
  summary: `Makes a next root, which a running gateway hands out at once and signs with from a date on (default: in ${USUAL_WAIT}).`,
  help: `  --in DURATION      when it signs, from now: 12h, 30d; 0 at once, for a key that has leaked
  --switch-at TIME   the same as a time, such as 2027-01-31T03:00:00Z
  --cancel           gives the next root up, as long as it does not sign
  --finish           stops handing former roots out
`,
  async run(args, io) {
    const { url, json = false, ...asked } = parseOptions(args, OPTIONS);
    const { what, ...body } = switchAsked(asked, USUAL_WAIT);
    const gateway = await GatewayClient.open(url, io);
    const status = (await gateway.json('POST', `/v1/admin/ca/${what}`, what === 'rotate' ? body : undefined)) as RootStatus;
    printRoots(status, json, io);
    if (!json && what === 'rotate') sayWhatNow(status, io);
    return EXIT_OK;
  },
};

function sayWhatNow({ switch_at: at }: RootStatus, io: CliIo): void {
  const until = at === null ? 'Bring the root to every client now' : `Bring the next root to every client until then`;
  io.stdout(asTyped(`${until}: "gw trust install", or a new start of programs that read root-ca.pem or ca-bundle.pem.\n`, io.program));
}
