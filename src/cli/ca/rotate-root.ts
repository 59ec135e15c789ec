import { parseDuration, parseTime, systemClock, timestamp } from '../../base/lib/clock.ts';
import type { RootStatus } from '../../inbound/ca/root-status.ts';
import { badValue, parseOptions } from '../checked-arguments.ts';
import { type CliIo, type Command, EXIT_OK, UsageError } from '../command.ts';
import { GatewayClient, URL_OPTION } from '../gateway-client.ts';
import { asTyped } from '../program-name.ts';
import { printRoots } from './root-report.ts';

/** Time enough to bring the next root to every client. */
const USUAL_WAIT = '30d';

const OPTIONS = {
  'switch-at': { type: 'string' },
  in: { type: 'string' },
  cancel: { type: 'boolean' },
  finish: { type: 'boolean' },
  json: { type: 'boolean' },
  ...URL_OPTION,
} as const;

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
    const { path, body } = questionOf(asked);
    const gateway = await GatewayClient.open(url, io);
    const status = (await gateway.json('POST', path, body)) as RootStatus;
    printRoots(status, json, io);
    if (!json && body !== undefined) sayWhatNow(status, io);
    return EXIT_OK;
  },
};

interface Asked {
  readonly 'switch-at'?: string | undefined;
  readonly in?: string | undefined;
  readonly cancel?: boolean | undefined;
  readonly finish?: boolean | undefined;
}

/** @throws UsageError */
function questionOf(asked: Asked): { readonly path: string; readonly body?: { readonly switch_at: string } } {
  if (Object.values(asked).filter((value) => value !== undefined).length > 1)
    throw new UsageError('of --in, --switch-at, --cancel and --finish one can be given');
  if (asked.cancel) return { path: '/v1/admin/ca/cancel' };
  if (asked.finish) return { path: '/v1/admin/ca/finish' };
  const { 'switch-at': at, in: wait = USUAL_WAIT } = asked;
  if (at !== undefined) {
    if (parseTime(at) === undefined) throw badValue('--switch-at', 'a time, such as 2027-01-31T03:00:00Z', at);
    return { path: '/v1/admin/ca/rotate', body: { switch_at: at } };
  }
  const ms = parseDuration(wait);
  if (ms === undefined) throw badValue('--in', 'a duration, such as 12h or 30d', wait);
  return { path: '/v1/admin/ca/rotate', body: { switch_at: timestamp(systemClock.now() + ms) } };
}

function sayWhatNow({ switch_at: at }: RootStatus, io: CliIo): void {
  const until = at === null ? 'Bring the root to every client now' : `Bring the next root to every client until then`;
  io.stdout(asTyped(`${until}: "gw trust install", or a new start of programs that read root-ca.pem or ca-bundle.pem.\n`, io.program));
}
