import type { ShippedCatalogue } from './catalogue.ts';
import { asCustomConnectorId } from './connector-id.ts';
import type { ConnectorTemplate } from './connector-templates.ts';
import { addressOf, type CustomRow, customOperation, customProvider } from './custom-row.ts';
import type { AiDomain, Catalogue, Operation, Price, Provider } from './types.ts';

interface Made {
  readonly provider: Provider;
  readonly template: ConnectorTemplate;
  /** For the price list. */
  readonly address: string;
}

/**
 * The registry with the connectors that orgs have made (specification, "Custom connector"). As it stands it knows those
 * of all orgs, for what is asked before an org is known: whether a host is one that is opened and governed. Whatever
 * belongs to one call asks {@link forOrg}, which knows that org's alone.
 */
export function withCustomRows(shipped: ShippedCatalogue, rows: readonly CustomRow[]): Catalogue {
  if (rows.length === 0) return shipped;
  const byOrg = new Map<string, Made[]>();
  for (const row of rows) {
    const template = shipped.template(row.dialect);
    if (template === undefined) continue;
    const own = byOrg.get(row.orgId) ?? [];
    byOrg.set(row.orgId, own);
    const provider = customProvider(row, template);
    own.push({ provider, template, address: addressOf(provider) });
  }
  const views = new Map(Array.from(byOrg, ([orgId, made]): [string, Catalogue] => [orgId, new CustomCatalogue(shipped, made, undefined)]));
  return new CustomCatalogue(shipped, [...byOrg.values()].flat(), views);
}

class CustomCatalogue implements Catalogue {
  readonly hasCustom = true;
  readonly providers: readonly Provider[];
  readonly #shipped: ShippedCatalogue;
  readonly #views: ReadonlyMap<string, Catalogue> | undefined;
  readonly #byId = new Map<string, Made>();
  readonly #byHost = new Map<string, Provider>();

  /** @param views by org; undefined: this is one of them */
  constructor(shipped: ShippedCatalogue, made: readonly Made[], views: ReadonlyMap<string, Catalogue> | undefined) {
    this.#shipped = shipped;
    this.#views = views;
    this.providers = Object.freeze([...shipped.providers, ...made.map(({ provider }) => provider)]);
    for (const one of made) {
      this.#byId.set(one.provider.id, one);
      const [host = ''] = one.provider.hosts;
      if (!this.#byHost.has(host)) this.#byHost.set(host, one.provider);
    }
  }

  forOrg(orgId: string): Catalogue {
    return this.#views === undefined ? this : (this.#views.get(orgId) ?? this.#shipped);
  }

  provider(idOrAlias: string): Provider | undefined {
    return this.#shipped.provider(idOrAlias) ?? this.#byId.get(asCustomConnectorId(idOrAlias))?.provider;
  }

  providerForHost(host: string): Provider | undefined {
    return this.#shipped.providerForHost(host) ?? this.#byHost.get(host);
  }

  operation(provider: Provider, method: string, path: string, upgrade = false): Operation {
    if (provider.custom === undefined) return this.#shipped.operation(provider, method, path, upgrade);
    return customOperation(provider, this.#byId.get(provider.id)?.template, method, path, upgrade);
  }

  isCall(provider: Provider, method: string, path: string): boolean {
    return this.#shipped.isCall(provider, method, path);
  }

  dialect(id: string): ReturnType<Catalogue['dialect']> {
    return this.#shipped.dialect(id);
  }

  get domains(): Catalogue['domains'] {
    return this.#shipped.domains;
  }

  domain(host: string): AiDomain | undefined {
    return this.#shipped.domain(host);
  }

  get lookalikes(): Catalogue['lookalikes'] {
    return this.#shipped.lookalikes;
  }

  prices(at: number): ReturnType<Catalogue['prices']> {
    return this.#shipped.prices(at);
  }

  price(providerId: string, model: string | undefined, at?: number): Price {
    const own = this.#byId.get(providerId);
    return own === undefined ? this.#shipped.price(providerId, model, at) : this.#shipped.priceAtAddress(own.address, model, at);
  }
}
