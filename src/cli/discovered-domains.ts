import { csvLine } from '../operations/csv-line.ts';
import { kindOf, type OrgDomain, type ShownCaller } from '../services/learning/discovered-domain.ts';
import { parseOptions } from './checked-arguments.ts';
import { type CliIo, type Command, EXIT_OK, UsageError } from './command.ts';
import { type DomainAnswer, type DomainsAsked, domainsByAdmin, domainsByKey } from './domain-lists.ts';
import { URL_OPTION } from './gateway-client.ts';
import { givenKey } from './management/given-key.ts';
import { type TableColumn, textTable } from './management/text-table.ts';
import { printJson } from './terminal-text.ts';

const OPTIONS = {
  all: { type: 'boolean' },
  managed: { type: 'boolean' },
  unmanaged: { type: 'boolean' },
  lookalike: { type: 'boolean' },
  category: { type: 'string' },
  vendor: { type: 'string' },
  workload: { type: 'string' },
  traffic: { type: 'string' },
  sort: { type: 'string' },
  by: { type: 'string' },
  limit: { type: 'string' },
  csv: { type: 'boolean' },
  json: { type: 'boolean' },
  key: { type: 'string' },
  ...URL_OPTION,
} as const;

type Row = OrgDomain & Partial<Pick<DomainAnswer['domains'][number], 'pinned' | 'wants_client_certificate'>>;
type Columns<T> = readonly (readonly [name: string, cell: (row: T) => string])[];

const DAY = 'YYYY-MM-DD'.length;
const MINUTE = 'YYYY-MM-DDThh:mm'.length;

const COLUMNS: Columns<Row> = [
  ['domain', ({ domain }) => domain],
  ['vendor', vendorOf],
  ['governed', governedOf],
  ['hits', ({ hits }) => String(hits)],
  ['since', ({ first_seen: at }) => at.slice(0, DAY)],
  ['last seen', ({ last_seen: at }) => minuteOf(at)],
  ['workloads', ({ workloads }) => workloads.map(workloadOf).join(', ') || '-'],
  ['marks', marksOf],
];

interface CallerRow {
  readonly of: Row;
  readonly caller: ShownCaller;
}

const BY_WORKLOAD: Columns<CallerRow> = [
  ['workload', ({ caller }) => workloadOf(caller)],
  ['domain', ({ of }) => of.domain],
  ['vendor', ({ of }) => vendorOf(of)],
  ['governed', ({ of }) => governedOf(of)],
  ['hits', ({ caller }) => String(caller.hits)],
  ['since', ({ caller }) => caller.first_seen.slice(0, DAY)],
  ['last seen', ({ caller }) => minuteOf(caller.last_seen)],
  ['org', ({ caller }) => caller.org_id ?? '-'],
];

/** For spreadsheets: whole times, and one thing a cell. */
const CSV: Columns<Row> = [
  ['domain', ({ domain }) => domain],
  ['kind', kindOf],
  ['vendor', ({ vendor = '' }) => vendor],
  ['category', ({ category = '' }) => category],
  ['connector_id', (row) => row.connector_id ?? ''],
  ['looks_like', (row) => row.looks_like ?? ''],
  ['hits', ({ hits }) => String(hits)],
  ['first_seen', (row) => row.first_seen],
  ['last_seen', (row) => row.last_seen],
  ['workloads', ({ workloads }) => workloads.map(workloadOf).join(' ')],
];

const CSV_BY_WORKLOAD: Columns<CallerRow> = [
  ['workload_id', ({ caller }) => workloadOf(caller)],
  ['org_id', ({ caller }) => caller.org_id ?? ''],
  ...CSV.slice(0, 6).map(([name, cell]): Columns<CallerRow>[number] => [name, ({ of }) => cell(of)]),
  ['hits', ({ caller }) => String(caller.hits)],
  ['first_seen', ({ caller }) => caller.first_seen],
  ['last_seen', ({ caller }) => caller.last_seen],
];

/** Prints to which domains the traffic of a running gateway went. */
export const discoveredDomains: Command = {
  name: 'domains list',
  usual: true,
  usage:
    '[--all] [--managed | --unmanaged] [--lookalike] [--by workload] [--workload ID] [--vendor NAME] [--category NAME] [--traffic developer|ambient] [--sort last_seen|first_seen|hits|requests] [--limit N] [--csv] [--json] [--url http://HOST:PORT] [--key mgk_…]',
  summary:
    'Prints to which AI domains traffic went (--all: to others too), those met last first (50, or --limit); --by workload: who went there; --json: the answer of the gateway.',
  async run(args, io) {
    const values = parseOptions(args, OPTIONS);
    const { json = false, csv = false, by, url, key } = values;
    if (json && csv) throw new UsageError('--csv and --json exclude each other');
    if (by !== undefined && by !== 'workload') throw new UsageError(`--by takes workload, not "${by}"`);
    const asked = askedBy(values);
    const own = givenKey(key, io);
    const answer = own === undefined ? await domainsByAdmin(asked, url, io) : await domainsByKey(asked, own, url, io);
    if (json) printJson(shownOf(answer), io);
    else if (by === undefined) print(answer, csv ? CSV : COLUMNS, answer.domains, csv, io);
    else print(answer, csv ? CSV_BY_WORKLOAD : BY_WORKLOAD, callersOf(answer.domains), csv, io);
    return EXIT_OK;
  },
};

type Values = ReturnType<typeof parseOptions<typeof OPTIONS>>;

function askedBy({ all = false, managed = false, unmanaged = false, lookalike = false, limit, ...more }: Values): DomainsAsked {
  if (managed && unmanaged) throw new UsageError('--managed and --unmanaged exclude each other');
  const most = limit === undefined ? 50 : Number(limit);
  if (!Number.isInteger(most) || most < 1 || most > 5000) throw new UsageError('--limit takes a whole number from 1 to 5000');
  const { category, vendor, workload, traffic, sort } = more;
  return { all, managed: managed || unmanaged ? managed : undefined, lookalike, category, vendor, workload, traffic, sort, most };
}

/** As the gateway answers. */
function shownOf({ all: _all, ...answer }: DomainAnswer): object {
  return answer;
}

function callersOf(domains: readonly Row[]): readonly CallerRow[] {
  const rows = domains.flatMap((of) => of.workloads.map((caller) => ({ of, caller })));
  const place = ({ org_id: org = '', workload_id: workload = '\uffff' }: ShownCaller) => `${org}\n${workload}`;
  return rows.sort((a, b) => {
    const [one, other] = [place(a.caller), place(b.caller)];
    if (one !== other) return one < other ? -1 : 1;
    return b.caller.hits - a.caller.hits;
  });
}

function workloadOf({ workload_id: id = '(others)' }: ShownCaller): string {
  return id;
}

function vendorOf({ vendor, looks_like: like }: Row): string {
  return vendor ?? (like === undefined ? '-' : `like ${like}`);
}

function governedOf({ managed, connector_id: id = 'yes' }: Row): string {
  return managed ? id : 'no';
}

function minuteOf(at: string): string {
  return at.slice(0, MINUTE).replace('T', ' ');
}

function marksOf({ looks_like_by: by, pinned, wants_client_certificate: certificate }: Row): string {
  const marks = [
    ...(by === undefined ? [] : [`looks so by ${by}`]),
    ...(pinned === true ? ['pinned'] : []),
    ...(certificate === true ? ['wants a client certificate'] : []),
  ];
  return marks.join(', ') || '-';
}

function print<T>({ domains, total, other, all }: DomainAnswer, columns: Columns<T>, rows: readonly T[], csv: boolean, io: CliIo): void {
  if (csv) {
    io.stdout(csvLine(columns.map(([name]) => name)));
    for (const row of rows) io.stdout(csvLine(columns.map(([, cell]) => cell(row))));
    return;
  }
  const table = columns.map(([name, cell]): TableColumn => ({ name, cells: rows.map(cell) }));
  if (rows.length > 0) io.stdout(textTable(table, io.columns));
  else if (domains.length === 0) io.stdout(all ? 'no domain\n' : 'no AI domain (--all shows others too)\n');
  else io.stdout('which workloads went there was not counted yet\n');
  const rest = total - domains.length;
  if (rest > 0) io.stdout(`and ${rest} more: --limit\n`);
  if (other !== undefined && other.domains > 0)
    io.stdout(`beside them ${other.hits} hits of ${other.domains} domains that the list had no room for\n`);
}
