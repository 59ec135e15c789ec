/* `gw dashboard`: requests and dollars of some time, for people. */
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { entryOf } from '../../operations/operation.ts';
import { OPERATIONS } from '../../operations/operation-table.ts';
import { parseOptions } from '../checked-arguments.ts';
import { type Command, EXIT_OK, UsageError } from '../command.ts';
import { URL_OPTION } from '../gateway-client.ts';
import { askManagement } from '../management/ask-management.ts';
import { linesAsTyped } from '../program-name.ts';
import { printJsonText, terminalText } from '../terminal-text.ts';
import { type Doubted, doubtText } from './cost-report-text.ts';
import { minuteText } from './forecast-text.ts';
import { grouped, shownUsd } from './money-table.ts';
import { promisedAnswer } from './promised-answer.ts';
import { periodsTable } from './spend-command.ts';

const DASHBOARD = 'mgmt.dashboard.read';

const OPTIONS = {
  from: { type: 'string' },
  to: { type: 'string' },
  tz: { type: 'string' },
  json: { type: 'boolean' },
  org: { type: 'string' },
  key: { type: 'string' },
  ...URL_OPTION,
} as const;

/** As its operation answers. */
interface Dashboard extends Doubted {
  readonly org_id: string;
  readonly from: string;
  readonly to: string;
  readonly allow_count: number;
  readonly deny_count: number;
  readonly approval_count: number;
  readonly quarantine_count: number;
}

/** Prints how much goes on, and what it costs. */
export const dashboard: Command = {
  name: 'dashboard',
  usage: '[--from TIME|DAY] [--to TIME|DAY] [--tz ZONE] [--json] [--url http://HOST:PORT] [--key mgk_…] [--org ID]',
  summary:
    'Requests and their cost in the last 24 hours, or from one time to another, what was spent today, yesterday and in both months, and where this month will end.',
  async run(args, io) {
    const { json = false, url, key, org, ...given } = parseOptions(args, OPTIONS);
    const asked = Object.fromEntries(Object.entries(given).filter((entry): entry is [string, string] => entry[1] !== undefined));
    const zone = given.tz === undefined ? {} : { tz: given.tz };
    try {
      await askManagement({ url, key, org }, ['read'], io, async (client) => {
        if (json) printJsonText(await client.text(entryOf(OPERATIONS, DASHBOARD), asked), io);
        else {
          const told = await promisedAnswer<Dashboard>(client, DASHBOARD, asked);
          io.stdout(linesAsTyped(`${dashboardText(told)}\n${await periodsTable(client, zone, io.columns)}`, io.program));
        }
      });
    } catch (error) {
      if (error instanceof GatewayError) throw new UsageError(error.message, { cause: error });
      throw error;
    }
    return EXIT_OK;
  },
};

function dashboardText(told: Dashboard): string {
  const { allow_count: allowed, deny_count: denied, approval_count: asked, quarantine_count: held, total_requests: all } = told;
  const others = all - allowed - denied - asked - held;
  const rows = [
    ['requests', grouped(all)],
    ['  allowed', grouped(allowed)],
    ['  denied', grouped(denied)],
    ['  waiting for approval', grouped(asked)],
    ['  in quarantine', grouped(held)],
    ['  others (failed, limited)', grouped(others)],
    ['cost', shownUsd(told.total_cost_usd)],
  ] as const;
  const [name, amount] = [Math.max(...rows.map(([text]) => text.length)), Math.max(...rows.map(([, text]) => text.length))];
  const lines = rows.map(([text, shown]) => `${text.padEnd(name)}  ${shown.padStart(amount)}\n`).join('');
  return `Org ${terminalText(told.org_id)}, ${minuteText(told.from)} to ${minuteText(told.to)} (UTC)\n\n${lines}${doubtText(told)}`;
}
