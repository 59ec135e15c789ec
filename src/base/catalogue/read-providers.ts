import { canonicalHost } from '../lib/host.ts';
import type { YamlNode } from '../lib/yaml.ts';
import { isReservedConnectorId } from './connector-id.ts';
import { isSuffixPattern, sampleOf } from './host-globs.ts';
import { OPERATION_MEMBERS, OperationTable, readOperation } from './operations.ts';
import { ERROR_SHAPES, oneOf } from './read-dialects.ts';
import { Row, type RowProblems } from './row-reader.ts';
import type { AuthScheme, Dialect, ModelNames, Provider } from './types.ts';

const MEMBERS = [
  'id',
  'version',
  'neutral_id',
  'aliases',
  'kind',
  'in_proxy_registry',
  'hosts',
  'host_patterns',
  'customer_host_patterns',
  'shared',
  'plan_paths',
  'paths_ignore_case',
  'model_names',
  'bases',
  'default_path',
  'auth',
  'auth_query_names',
  'auth_subprotocol',
  'version_header',
  'idempotency_header',
  'oauth',
  'docs_url',
  'prices',
  'price_suppliers',
  'operations',
  'use',
];

const NAMES_OF_HOSTS: Readonly<Record<string, string>> = {
  hosts: 'host',
  host_patterns: 'host pattern with a star or {region} before its last two labels',
  customer_host_patterns: 'host pattern with a star and a domain',
};

export interface ProviderRow {
  readonly provider: Provider;
  readonly operations: OperationTable;
}

export interface ProviderContext {
  readonly version: string;
  readonly dialects: ReadonlyMap<string, Dialect>;
  readonly operationSets: YamlNode | undefined;
}

/** Reads the registry's rows (decision 1) and checks them against each other: ids, names and hosts are unique. */
export function readProviders(list: Row, context: ProviderContext, problems: RowProblems): readonly ProviderRow[] {
  const sets = Row.from(context.operationSets, 'operation_sets', problems);
  const rows = list.rows('providers', MEMBERS).map((row) => readProvider(row, context, sets));
  const taken = new Map<string, string>();
  for (const { provider } of rows) {
    const names = [provider.id, provider.neutralId ?? '', ...provider.aliases].map((name) => `name ${name.toLowerCase()}`);
    const hosts = [...provider.hosts, ...provider.hostPatterns].map((host) => `host ${host}`);
    for (const thing of new Set([...names, ...hosts])) {
      const owner = taken.get(thing);
      if (owner !== undefined && thing !== 'name ') problems.add(`providers.${provider.id}`, `${thing} is also ${owner}'s`);
      taken.set(thing, provider.id);
    }
  }
  return rows;
}

function readProvider(row: Row, context: ProviderContext, sets: Row | undefined): ProviderRow {
  const id = row.need('id');
  if (!/^[a-z][a-z0-9_]{0,62}$/.test(id) || isReservedConnectorId(id))
    row.problem('id', 'must be lower-case letters, digits and _, and no reserved id');
  const hosts = readHosts(row, 'hosts', (host) => host);
  const customers = readHosts(row, 'customer_host_patterns', (pattern) => (isSuffixPattern(pattern) ? sampleOf(pattern) : ''));
  const hostPatterns = [...readHosts(row, 'host_patterns', sampleOf), ...customers];
  if (hosts.length + hostPatterns.length === 0) row.problem('hosts', 'a provider needs a host or a host pattern');
  const operations = readOperations(row, context, sets);
  const versionHeader = row.row('version_header', ['name', 'fallback']);
  const defaultPath = row.text('default_path');
  const usual = operations.find('POST', (defaultPath ?? '').replace('{model}', 'm'), false).dialect;
  if (defaultPath !== undefined && usual === undefined)
    row.problem('default_path', 'must be a POST path that one of the operations gives a dialect');
  const provider: Provider = {
    id,
    version: row.text('version') ?? context.version,
    neutralId: row.text('neutral_id'),
    aliases: row.texts('aliases'),
    kind: row.need('kind'),
    inProxyRegistry: row.flag('in_proxy_registry', true) && hosts.length > 0,
    hosts,
    hostPatterns,
    customerDomains: customers.map((pattern) => pattern.slice(1)),
    shared: row.flag('shared', false),
    planPaths: row.texts('plan_paths'),
    pathsIgnoreCase: row.flag('paths_ignore_case', false),
    defaultPath,
    defaultPaths: usual ? pathsByType(operations, usual) : NO_PATHS,
    auth: readAuth(row),
    authQueryNames: row.texts('auth_query_names'),
    authSubprotocol: row.text('auth_subprotocol'),
    versionHeader: versionHeader && { name: versionHeader.need('name'), fallback: versionHeader.need('fallback') },
    idempotencyHeader: row.text('idempotency_header'),
    errorShape: usual?.errorShape ?? 'openai',
    takesOauth: row.flag('oauth', false),
    docsUrl: row.text('docs_url'),
    needsCredential: true,
    canStream: true,
    priceLists: row.texts('prices'),
    priceSuppliers: row.text('price_suppliers'),
  };
  return { provider: Object.freeze(provider), operations };
}

const NO_PATHS: ReadonlyMap<string, string> = new Map();

/** Paths of the types that the default path is not for, in its family of wire formats. */
export function pathsByType(operations: OperationTable, usual: Dialect): ReadonlyMap<string, string> {
  const others = ['ai.embed', 'ai.moderate'].flatMap((type) => {
    const path = operations.usualPath(type, usual.errorShape);
    return path === undefined ? [] : [[type, path] as const];
  });
  return new Map(others);
}

/** @param sample a host that the text stands for; empty when it stands for none */
function readHosts(row: Row, name: string, sample: (text: string) => string): readonly string[] {
  const texts = row.texts(name);
  for (const text of texts) {
    const host = sample(text);
    if (host === '' || canonicalHost(host) !== host) row.problem(name, `"${text}" is no ${NAMES_OF_HOSTS[name]} in canonical form`);
  }
  return texts;
}

function readAuth(row: Row): readonly AuthScheme[] {
  const schemes = row.rows('auth', ['header', 'format', 'for']).map((scheme) => {
    const family = oneOf(scheme, 'for', ERROR_SHAPES);
    return { header: scheme.need('header'), format: scheme.need('format'), ...(family === undefined ? {} : { for: family }) };
  });
  if (schemes.length === 0) row.problem('auth', 'needs at least one scheme');
  for (const { header, format } of schemes) {
    if (!/^[a-z0-9-]+$/.test(header) || !format.includes('{key}'))
      row.problem('auth', 'needs a lower-case header name and a format with {key}');
  }
  return schemes;
}

const MODEL_NAMES: readonly ModelNames[] = ['exact', 'caseless', 'collection', 'tagged'];

/** The dialect for answers to a POST that no row names. */
const UNKNOWN = 'unknown';

/** The operations of a row and of the sets that it uses. */
export function readOperations(row: Row, context: ProviderContext, sets: Row | undefined): OperationTable {
  const own = row.rows('operations', OPERATION_MEMBERS);
  const used = row.texts('use').flatMap((name) => {
    if (sets?.has(name) !== true) row.problem('use', `"${name}" is no operation set`);
    return sets?.rows(name, OPERATION_MEMBERS) ?? [];
  });
  const rows = [...own, ...used].flatMap((operation) => readOperation(operation, context.dialects) ?? []);
  const bases = row.texts('bases');
  if (bases.length === 0 && rows.some(({ path }) => path.startsWith('{base}'))) row.problem('bases', 'is needed by a path with {base}');
  return new OperationTable(rows, bases, {
    ignoreCase: row.flag('paths_ignore_case', false),
    modelNames: oneOf(row, 'model_names', MODEL_NAMES) ?? 'exact',
    shared: row.flag('shared', false),
    planPaths: readPlanPaths(row),
    unknownAnswer: context.dialects.get(UNKNOWN),
  });
}

function readPlanPaths(row: Row): readonly string[] {
  const paths = row.texts('plan_paths');
  if (!paths.every((path) => /^(?:\/[^*]*)?\/\*\*$/.test(path))) row.problem('plan_paths', 'must be paths that end with /**');
  return paths;
}
