import type { DiscoveredDomain, OrgDomain } from '../services/learning/discovered-domain.ts';
import type { OtherDomains } from '../services/learning/discovery.ts';
import { type CliIo, UsageError } from './command.ts';
import { GatewayClient } from './gateway-client.ts';

export interface DomainsAsked {
  /** Not AI alone. */
  readonly all: boolean;
  readonly managed: boolean | undefined;
  readonly lookalike: boolean;
  readonly category: string | undefined;
  readonly vendor: string | undefined;
  readonly workload: string | undefined;
  readonly traffic: string | undefined;
  readonly sort: string | undefined;
  readonly most: number;
}

export interface DomainAnswer {
  readonly domains: readonly (OrgDomain & Partial<Pick<DiscoveredDomain, 'pinned' | 'wants_client_certificate'>>)[];
  /** How many there are, before `most`. */
  readonly total: number;
  /** What the list had no room for; undefined: who asks is not told. */
  readonly other?: OtherDomains;
  readonly all: boolean;
}

/** With the admin token: of every org. @throws UsageError, Unusable, GatewayRefusal */
export async function domainsByAdmin(asked: DomainsAsked, url: string | undefined, io: CliIo): Promise<DomainAnswer> {
  const { all, managed, lookalike, category, vendor, workload, traffic, sort, most } = asked;
  const given = {
    ai: all || lookalike ? undefined : 'true',
    managed: managed === undefined ? undefined : String(managed),
    lookalike: lookalike ? 'true' : undefined,
    category,
    vendor,
    workload_id: workload,
    traffic_class: traffic,
    sort,
    limit: String(most),
  };
  const query = new URLSearchParams(Object.entries(given).filter((entry): entry is [string, string] => entry[1] !== undefined));
  const gateway = await GatewayClient.open(url, io);
  const answer = (await gateway.json('GET', `/v1/admin/discovery/domains?${query}`)) as Omit<DomainAnswer, 'all'>;
  return { ...answer, all };
}

/** With a management key: of its org, those met last first. @throws as {@link domainsByAdmin} */
export async function domainsByKey(asked: DomainsAsked, key: string, url: string | undefined, io: CliIo): Promise<DomainAnswer> {
  const { all, managed, lookalike, category, vendor, workload, traffic, sort, most } = asked;
  if (traffic !== undefined || sort !== undefined) throw new UsageError('--traffic and --sort are for the admin token');
  const [{ DISCOVERY_OPERATIONS }, { entryOf }, { listByKey }, { ManagementClient }] = await Promise.all([
    import('../operations/discovery-operations.ts'),
    import('../operations/operation.ts'),
    import('./management/list-by-key.ts'),
    import('./management/management-client.ts'),
  ]);
  const given = {
    show: all ? 'all' : undefined,
    managed: managed === undefined ? undefined : String(managed),
    vendor,
    workload_id: workload,
  };
  const args = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  const found: OrgDomain[] = [];
  const client = new ManagementClient(GatewayClient.keyPlace(io, url), key);
  for await (const item of listByKey(client, entryOf(DISCOVERY_OPERATIONS, 'mgmt.domains.list'), args, Number.POSITIVE_INFINITY)) {
    const domain = item as OrgDomain;
    if ((!lookalike || domain.looks_like !== undefined) && (category === undefined || domain.category === category)) found.push(domain);
  }
  found.sort((a, b) => (a.last_seen < b.last_seen ? 1 : -1));
  return { domains: found.slice(0, most), total: found.length, all };
}
