/*
 * What the gateway knows about the outside world, as data: providers and the wire formats they speak, what a path of
 * theirs means, prices, names of AI services. It is read once at start into one immutable snapshot. Here live the
 * tables' readers and look-ups; nothing here decides anything about a request or knows credentials, and no branch names
 * a provider: what differs between them is a column.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { messageOf } from '../lib/gateway-error.ts';
import { packageRoot } from '../lib/package-root.ts';
import { sha256Hex } from '../lib/sha256.ts';
import { type ParsedYaml, parseYaml } from '../lib/yaml.ts';
import { type ConnectorTemplate, type ConnectorTemplates, readConnectorTemplates } from './connector-templates.ts';
import { AiDomains, HostGlobs, isSuffixPattern } from './host-globs.ts';
import { Lookalikes } from './lookalikes.ts';
import { HTTP_REQUEST, type OperationTable } from './operations.ts';
import type { PriceList } from './price-list/price-list.ts';
import { loadPrices, type PriceTexts } from './prices/load-prices.ts';
import { readOperatorRates } from './prices/operator-rates.ts';
import type { PriceExplanation } from './prices/price-explanation.ts';
import type { PriceGrounds, PriceTable } from './prices/price-table.ts';
import { readPlaceSets } from './read-call-places.ts';
import { readDialects } from './read-dialects.ts';
import { readProviders } from './read-providers.ts';
import { CatalogueError, Row, RowProblems } from './row-reader.ts';
import type { AiDomain, Catalogue, Dialect, ListedPrice, Operation, Price, Provider } from './types.ts';

const SCHEMA = 'gw.provider_catalogue.v1';
const DATA_FOLDER = 'src/base/catalogue/data';
const BUILT_TREE = 'build/catalogue/providers.json';

/** The tables as they were read, before anybody has laid something over them. */
export interface ShippedCatalogue extends Catalogue {
  /** What a connector that an org makes may speak. */
  template(dialect: string): ConnectorTemplate | undefined;
  /** The price list in force. */
  readonly priceList: PriceList;
  /** What prices names beside it: what another list is compared with. */
  readonly priceGrounds: PriceGrounds;
  /** The same with another price list: everything else is shared, nothing is read again (decision 6.16). */
  withPriceList(list: PriceList): ShippedCatalogue;
  /** As `price`, of a provider that has no row, by the address of its API. */
  priceAtAddress(address: string, model: string | undefined, at?: number): Price;
  /** Why `price` is what it is; for people and tests, not for the path of a request. */
  explainPrice(providerId: string, model: string, at?: number): PriceExplanation;
  explainPriceAtAddress(address: string, model: string, at?: number): PriceExplanation;
  /**
   * Whether the shipped tables spell out a model of a provider, so that its name says nothing about the people who use
   * it.
   */
  spellsOutModel(providerId: string, model: string): boolean;
}

/** Texts of the data files; each one that is not given is read from the package. */
export interface CatalogueSources extends PriceTexts {
  readonly providers?: string;
  readonly domains?: string;
}

export interface CatalogueOptions {
  /** A file of rates that are laid over the shipped ones (`GW_PRICING_FILE`). */
  readonly pricingFile?: string;
  readonly sources?: CatalogueSources;
}

/**
 * Reads, checks and indexes all tables. Synchronous: it runs once, before anything listens.
 * @throws CatalogueError with every mistake, when a table does not hold what it must
 */
export function loadCatalogue(options: CatalogueOptions = {}): ShippedCatalogue {
  const all: RowProblems[] = [];
  const open = (name: string, given: string | undefined): [string, RowProblems] => {
    const problems = new RowProblems(name);
    all.push(problems);
    return [given ?? shipped(name), problems];
  };
  const registry = readRegistry(...open('providers.yaml', options.sources?.providers));
  const shippedPrices = loadPrices(registry.providers, options.sources ?? {}, open);
  const domains = AiDomains.parse(...open('ai-domains.csv', options.sources?.domains));
  const snapshot = new Snapshot(registry, shippedPrices, domains);
  const found =
    options.pricingFile === undefined
      ? snapshot
      : withOperatorRates(snapshot, ...open(options.pricingFile, readOperatorFile(options.pricingFile)));
  const details = all.flatMap((problems) => problems.list);
  if (details.length > 0) throw new CatalogueError(details);
  return found;
}

function withOperatorRates(snapshot: Snapshot, text: string, problems: RowProblems): Snapshot {
  return snapshot.with((prices) => prices.withOverrides(readOperatorRates(text, (name) => snapshot.provider(name)?.id, problems)));
}

function shipped(name: string): string {
  return readFileSync(join(packageRoot(), DATA_FOLDER, name), 'utf8');
}

/**
 * The tree that the build made of this very text; undefined where there is none. Half a second of every start would go
 * into reading the YAML.
 */
function builtTree(text: string): ParsedYaml | undefined {
  try {
    const built = JSON.parse(readFileSync(join(packageRoot(), BUILT_TREE), 'utf8')) as {
      readonly sha256: string;
      readonly parsed: ParsedYaml;
    };
    return built.sha256 === sha256Hex(text) ? built.parsed : undefined;
  } catch {
    return undefined;
  }
}

function readOperatorFile(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const message = `cannot be read: ${messageOf(error)}`;
    throw new CatalogueError([{ path: '', file: path, message }], { cause: error });
  }
}

interface Registry {
  readonly providers: readonly Provider[];
  readonly operations: ReadonlyMap<string, OperationTable>;
  readonly dialects: ReadonlyMap<string, Dialect>;
  readonly templates: ConnectorTemplates;
  readonly lookalikes: Lookalikes;
}

const FILE_MEMBERS = [
  'schema',
  'version',
  'named_models',
  'asked_units',
  'asked_terms',
  'dialects',
  'operation_sets',
  'custom_connectors',
  'lookalikes',
  'providers',
];

function readRegistry(text: string, problems: RowProblems): Registry {
  const { root, errors } = builtTree(text) ?? parseYaml(text, problems.file);
  for (const error of errors) problems.add(error.path, error.message, { line: error.line ?? 1, column: error.column ?? 1 });
  const file = Row.from(root, 'catalogue', problems, FILE_MEMBERS);
  if (errors.length > 0 || file === undefined)
    return { providers: [], operations: new Map(), dialects: new Map(), templates: new Map(), lookalikes: new Lookalikes() };
  if (file.need('schema') !== SCHEMA) file.problem('schema', `must be ${SCHEMA}`);
  const dialects = readDialects(file.value('dialects'), readPlaceSets(file, problems), problems);
  const context = { version: file.need('version'), dialects, operationSets: file.value('operation_sets') };
  const rows = readProviders(file, context, problems);
  return {
    providers: Object.freeze(rows.map((row) => row.provider)),
    operations: new Map(rows.map((row) => [row.provider.id, row.operations])),
    dialects,
    templates: readConnectorTemplates(file, context, problems),
    lookalikes: Lookalikes.read(file.row('lookalikes', ['hosts', 'calls']), {
      isProvider: (id) => rows.some(({ provider }) => provider.id === id),
      isDialect: (id) => dialects.has(id),
    }),
  };
}

class Snapshot implements ShippedCatalogue {
  readonly hasCustom = false;
  readonly providers: readonly Provider[];
  readonly #registry: Registry;
  readonly #prices: PriceTable;
  readonly #shippedPrices: PriceTable;
  readonly #domains: AiDomains;
  readonly #byName = new Map<string, Provider>();
  readonly #byHost = new Map<string, Provider>();
  readonly #bySuffix = new Map<string, Provider>();
  readonly #byGlob = new HostGlobs<Provider>();

  constructor(registry: Registry, prices: PriceTable, domains: AiDomains, shippedPrices = prices) {
    this.providers = registry.providers;
    this.#registry = registry;
    this.#prices = prices;
    this.#shippedPrices = shippedPrices;
    this.#domains = domains;
    for (const provider of registry.providers) {
      for (const name of [provider.id, ...(provider.neutralId ? [provider.neutralId] : []), ...provider.aliases])
        this.#byName.set(name.toLowerCase(), provider);
      for (const host of provider.hosts) this.#byHost.set(host, provider);
      for (const pattern of provider.hostPatterns) {
        if (isSuffixPattern(pattern)) this.#bySuffix.set(pattern.slice(2), provider);
        else this.#byGlob.add(pattern, provider);
      }
    }
  }

  forOrg(): Catalogue {
    return this;
  }

  template(dialect: string): ConnectorTemplate | undefined {
    return this.#registry.templates.get(dialect);
  }

  provider(idOrAlias: string): Provider | undefined {
    return this.#byName.get(idOrAlias) ?? this.#byName.get(idOrAlias.toLowerCase());
  }

  /**
   * A pattern with a leading star covers every depth below it: a host of a provider that is missed would not be
   * governed.
   */
  providerForHost(host: string): Provider | undefined {
    const own = this.#byHost.get(host) ?? this.#byGlob.find(host);
    if (own !== undefined) return own;
    for (let dot = host.indexOf('.'); dot !== -1; dot = host.indexOf('.', dot + 1)) {
      const found = this.#bySuffix.get(host.slice(dot + 1));
      if (found !== undefined) return found;
    }
    return undefined;
  }

  operation(provider: Provider, method: string, path: string, upgrade = false): Operation {
    return this.#registry.operations.get(provider.id)?.find(method, path, upgrade) ?? HTTP_REQUEST;
  }

  isCall(provider: Provider, method: string, path: string): boolean {
    return !provider.shared || this.#registry.operations.get(provider.id)?.isCall(method, path) !== false;
  }

  dialect(id: string): Dialect | undefined {
    return this.#registry.dialects.get(id);
  }

  get domains(): Catalogue['domains'] {
    return this.#domains.all;
  }

  domain(host: string): AiDomain | undefined {
    return this.#domains.find(host);
  }

  get lookalikes(): Lookalikes {
    return this.#registry.lookalikes;
  }

  prices(at: number): readonly ListedPrice[] {
    return this.#prices.prices(at);
  }

  price(providerId: string, model: string | undefined, at = Number.POSITIVE_INFINITY): Price {
    return this.#prices.find(providerId, model, at);
  }

  /** The same with other prices. */
  with(change: (prices: PriceTable) => PriceTable): Snapshot {
    return new Snapshot(this.#registry, change(this.#prices), this.#domains, this.#shippedPrices);
  }

  get priceList(): PriceList {
    return this.#prices.list;
  }

  get priceGrounds(): PriceGrounds {
    return this.#prices.grounds;
  }

  withPriceList(list: PriceList): ShippedCatalogue {
    return this.with((prices) => prices.withList(list));
  }

  priceAtAddress(address: string, model: string | undefined, at = Number.POSITIVE_INFINITY): Price {
    return this.#prices.findAt(address, model, at);
  }

  explainPrice(providerId: string, model: string, at = Number.POSITIVE_INFINITY): PriceExplanation {
    return this.#prices.explain(providerId, model, at);
  }

  explainPriceAtAddress(address: string, model: string, at = Number.POSITIVE_INFINITY): PriceExplanation {
    return this.#prices.explainAt(address, model, at);
  }

  spellsOutModel(providerId: string, model: string): boolean {
    return this.#shippedPrices.spellsOut(providerId, model);
  }
}
