/* `gw spend`: what was spent, in dollars, for people; the exact amounts by --json and --csv. */

import { GatewayError } from '../../base/lib/gateway-error.ts';
import { entryOf } from '../../operations/operation.ts';
import { OPERATIONS } from '../../operations/operation-table.ts';
import { parseWithWords } from '../checked-arguments.ts';
import { type CliIo, type Command, EXIT_OK, UsageError } from '../command.ts';
import { URL_OPTION } from '../gateway-client.ts';
import { askManagement } from '../management/ask-management.ts';
import type { ManagementClient } from '../management/management-client.ts';
import { linesAsTyped } from '../program-name.ts';
import { printJsonText, terminalText } from '../terminal-text.ts';
import { type CostReport, daysText, reportText } from './cost-report-text.ts';
import { monthForecastText } from './forecast-text.ts';
import { grouped, moneyTable, shownUsd } from './money-table.ts';
import { promisedAnswer, TIMEOUT_MS } from './promised-answer.ts';

const REPORT = 'mgmt.billing.report';
const PERIODS = ['today', 'yesterday', 'this-month', 'last-month'] as const;
const MODELS_SHOWN = 5;

/** Names by which the calls are narrowed. */
const FILTERS = ['project', 'customer', 'account', 'caller', 'workload', 'provider', 'model', 'label'] as const;

const OPTIONS = {
  project: { type: 'string' },
  customer: { type: 'string' },
  account: { type: 'string' },
  caller: { type: 'string' },
  workload: { type: 'string' },
  provider: { type: 'string' },
  model: { type: 'string' },
  label: { type: 'string' },
  by: { type: 'string', multiple: true },
  per: { type: 'string' },
  from: { type: 'string' },
  to: { type: 'string' },
  month: { type: 'string' },
  last: { type: 'string' },
  tz: { type: 'string' },
  limit: { type: 'string' },
  csv: { type: 'boolean' },
  json: { type: 'boolean' },
  org: { type: 'string' },
  key: { type: 'string' },
  ...URL_OPTION,
} as const;

type Options = ReturnType<typeof parseWithWords<typeof OPTIONS>>['values'];

/** Prints what was spent. */
export const spend: Command = {
  name: 'spend',
  usage:
    '[today|yesterday|this-week|last-week|this-month|last-month|2026-10|2026-10-31] [--by KEY[,KEY...]] [--project NAME] [--workload ID] [--provider ID] [--model NAME] [--caller ID] [--customer NAME] [--account NAME] [--label NAME=VALUE] [--per total|month|day] [--month 2026-10] [--last 7d] [--from DAY] [--to DAY] [--tz ZONE] [--limit N] [--csv] [--json] [--url http://HOST:PORT] [--key mgk_…] [--org ID]',
  summary:
    'What was spent, in dollars: today, yesterday, this month and last month, or any days, by what you like, of all calls or of some; and where this month will end.',
  help: `
  --by         project, customer, account, caller, workload, provider, model, label:NAME;
               several with commas: --by project,model, or each with a --by of its own.
               day is the same as --per day
  --project, --workload, --provider, --model, --caller, --customer, --account
               only calls of that name, which is whole; '' means calls that had none.
               Of several all hold: --label team=red --by model --month 2026-10
  --label      only calls that had this label: --label team=red
  --per        a row for the whole range (total), for each month, or for each day
  --month      one month
  --last       so many days or weeks up to today: 7d, 4w
  --from, --to days, both part of the range; --to alone is from the first of its month
  --tz         the zone whose days they are, such as Europe/Berlin; default: UTC
  --limit      rows of each period, the dearest; all others are one (default 100, most 1000).
               --csv has all
  --csv        exact amounts for a spreadsheet: gw spend last-month --by project --csv > costs.csv
  --json       the answer of the gateway
`,
  async run(args, io) {
    const { values, words } = parseWithWords(args, OPTIONS, 1);
    const asked = argumentsOf(values, words[0]);
    if (values.csv === true && values.json === true) throw new UsageError('give either --csv or --json');
    try {
      await askManagement({ url: values.url, key: values.key, org: values.org }, ['read'], io, (client) =>
        answer(client, asked, values, io),
      );
    } catch (error) {
      if (error instanceof GatewayError) throw new UsageError(error.message, { cause: error });
      throw error;
    }
    return EXIT_OK;
  },
};

type Arguments = Readonly<Record<string, string>>;

function argumentsOf(options: Options, word: string | undefined): Arguments {
  const { by, per, from, to, month, last, tz, limit } = options;
  if (word !== undefined && month !== undefined) throw new UsageError('give either a period or --month');
  // A day is no name but a stretch of time; people ask for it as for a name.
  const keys = by?.flatMap((given) => given.split(',')) ?? [];
  const times = keys.filter((key) => key === 'day' || key === 'month');
  if (times.length > 1 || (times.length === 1 && per !== undefined)) throw new UsageError('give one of --by day, --by month and --per');
  const names = keys.filter((key) => key !== 'day' && key !== 'month').map((key) => (key === 'connector' ? 'provider' : key));
  const given = {
    ...Object.fromEntries(FILTERS.map((name) => [name, options[name]])),
    by: names.length === 0 ? undefined : names.join(','),
    per: times[0] ?? per,
    period: word ?? month,
    last,
    from,
    to,
    tz,
    limit,
  };
  return Object.fromEntries(Object.entries(given).filter((entry): entry is [string, string] => entry[1] !== undefined));
}

async function answer(client: ManagementClient, asked: Arguments, { csv, json, tz }: Options, io: CliIo): Promise<void> {
  if (csv === true) {
    const { limit: _, ...rest } = asked;
    // As it is, to the byte: a spreadsheet is given what the gateway made.
    io.stdout(await client.text(reportOperation(), { ...rest, format: 'csv' }, {}, TIMEOUT_MS));
    return;
  }
  const isPlain = Object.keys(asked).every((name) => name === 'tz');
  if (json === true) printJsonText(await client.text(reportOperation(), asked, {}, TIMEOUT_MS), io);
  else if (isPlain) io.stdout(linesAsTyped(await overview(client, tz, io), io.program));
  else io.stdout(linesAsTyped(reportText(await reportOf(client, asked), asked['per'] ?? 'total', io.columns), io.program));
}

function reportOperation() {
  return entryOf(OPERATIONS, REPORT);
}

function reportOf(client: ManagementClient, asked: Arguments): Promise<CostReport> {
  return promisedAnswer(client, REPORT, asked);
}

/** What a person wants to know first. @throws as the client does */
async function overview(client: ManagementClient, tz: string | undefined, io: CliIo): Promise<string> {
  const zone: Arguments = tz === undefined ? {} : { tz };
  const table = await periodsTable(client, zone, io.columns);
  const models = await reportOf(client, { ...zone, by: 'model', period: 'this-month', limit: String(MODELS_SHOWN) });
  const head = `Spend of org ${terminalText(models.org_id)}. Days are those of ${terminalText(models.tz)}.\n\n`;
  const dearest = models.total_requests === 0 ? '' : `\nThis month by model, ${daysText(models)}:\n\n${bodyOf(models, io.columns)}`;
  return `${head}${table}${dearest}\nMore: gw spend --by project --last 7d\n      gw spend last-month --by customer,model --csv > costs.csv\n`;
}

/** Without the heading, and without the forecast, which stands below the periods. */
function bodyOf(report: CostReport, width: number | undefined): string {
  const text = reportText({ ...report, forecast: undefined }, 'total', width);
  return text.slice(text.indexOf('\n\n') + 2);
}

/** The four periods that people ask for, a line each, and where this month will end. */
export async function periodsTable(client: ManagementClient, zone: Arguments, width: number | undefined): Promise<string> {
  const reports: CostReport[] = [];
  for (const period of PERIODS) reports.push(await reportOf(client, { ...zone, period }));
  const column = (name: string, of: (report: CostReport) => string) => ({ name, kind: 'amount' as const, cells: reports.map(of) });
  const table = moneyTable(
    [
      { name: 'PERIOD', kind: 'name', cells: PERIODS.map((period) => period.replace('-', ' ')) },
      { name: 'DAYS', kind: 'name', cells: reports.map(({ from, to }) => (from === to ? from : `${from} to ${to}`)) },
      column('COST', (report) => shownUsd(report.total_cost_usd)),
      column('REQUESTS', (report) => grouped(report.total_requests)),
      column('NO USAGE', (report) => grouped(report.total_requests_without_usage ?? 0)),
      column('BY DEFAULT', (report) => shownUsd(report.total_cost_priced_by_default_usd)),
    ],
    width,
  );
  const forecast = reports[PERIODS.indexOf('this-month')]?.forecast;
  return forecast === undefined ? table : `${table}\n${monthForecastText(forecast, false, width)}`;
}
