import { systemClock } from '../base/lib/clock.ts';
import type { DiscoveredDomain, DomainList } from '../services/discovery.ts';
import { type CliIo, type Command, EXIT_OK, UsageError } from './command.ts';
import { GatewayClient, URL_OPTION } from './gateway-client.ts';
import { shortTimes } from './management/table-cells.ts';
import { type TableColumn, textTable } from './management/text-table.ts';
import { parseOptions } from './parse-options.ts';
import { printJson } from './print-json.ts';

const OPTIONS = {
  managed: { type: 'boolean' },
  unmanaged: { type: 'boolean' },
  lookalike: { type: 'boolean' },
  category: { type: 'string' },
  vendor: { type: 'string' },
  traffic: { type: 'string' },
  sort: { type: 'string' },
  limit: { type: 'string' },
  json: { type: 'boolean' },
  ...URL_OPTION,
} as const;

const COLUMNS: readonly (readonly [name: string, cell: (domain: DiscoveredDomain) => string])[] = [
  ['domain', ({ domain }) => domain],
  ['vendor', ({ vendor }) => vendor ?? '-'],
  ['category', ({ category }) => category ?? '-'],
  ['connector', (domain) => domain.connector_id ?? '-'],
  ['hits', ({ hits }) => String(hits)],
  ['requests', ({ requests }) => String(requests)],
  ['ambient', ({ traffic }) => String(traffic.ambient)],
  ['marks', marksOf],
];

/** Prints which domains the traffic of a running gateway went to. */
export const discoveredDomains: Command = {
  name: 'domains',
  usage:
    '[--managed | --unmanaged] [--lookalike] [--category NAME] [--vendor NAME] [--traffic developer|ambient] [--sort last_seen|first_seen|hits|requests] [--limit N] [--json] [--url http://HOST:PORT]',
  summary: 'Prints which domains traffic went to, those met last first (50, or --limit); --json: the answer of the gateway.',
  async run(args, io) {
    const {
      json = false,
      url,
      managed = false,
      unmanaged = false,
      lookalike,
      traffic,
      limit = '50',
      ...filters
    } = parseOptions(args, OPTIONS);
    if (managed && unmanaged) throw new UsageError('--managed and --unmanaged exclude each other');
    const asked = {
      ...filters,
      traffic_class: traffic,
      managed: managed || unmanaged ? String(managed) : undefined,
      lookalike: lookalike ? 'true' : undefined,
      limit,
    };
    const query = new URLSearchParams(Object.entries(asked).filter((entry): entry is [string, string] => entry[1] !== undefined));
    const gateway = await GatewayClient.open(url, io);
    const list = (await gateway.json('GET', `/v1/admin/discovery/domains?${query}`)) as DomainList;
    if (json) printJson(list, io);
    else print(list, io);
    return EXIT_OK;
  },
};

function marksOf(domain: DiscoveredDomain): string {
  const { looks_like: like, looks_like_by: by } = domain;
  const marks = [
    ...(like === undefined ? [] : [`looks like ${like}, by ${by}`]),
    ...(domain.pinned ? ['pinned'] : []),
    ...(domain.wants_client_certificate ? ['wants a client certificate'] : []),
  ];
  return marks.join(', ') || '-';
}

function print({ domains, total, other }: DomainList, io: CliIo): void {
  const seen = domains.map((domain) => domain.last_seen);
  const times = io.columns === undefined ? seen : shortTimes(seen, systemClock.now());
  const [domain, ...others] = COLUMNS.map(([name, cell]): TableColumn => ({ name, cells: domains.map(cell) }));
  const columns = [...(domain === undefined ? [] : [domain]), { name: 'last seen', cells: times, whole: true }, ...others];
  if (domains.length > 0) io.stdout(textTable(columns, io.columns));
  const rest = total - domains.length;
  if (domains.length === 0) io.stdout('no domain\n');
  else if (rest > 0) io.stdout(`and ${rest} more: --limit\n`);
  if (other.domains > 0) io.stdout(`beside them ${other.hits} hits of ${other.domains} domains that the list had no room for\n`);
}
