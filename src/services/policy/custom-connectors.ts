import type { CatalogueInForce } from '../../base/catalogue/catalogue-in-force.ts';
import { asCustomConnectorId, customConnectorId } from '../../base/catalogue/connector-id.ts';
import type { CustomRow } from '../../base/catalogue/custom-row.ts';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { type ErrorDetail, GatewayError } from '../../base/lib/gateway-error.ts';
import type { EgressAllow } from '../../base/lib/host.ts';
import { uuidv7 } from '../../base/lib/ids.ts';
import type { Logger } from '../../base/lib/log.ts';
import { holdsOwnToken } from '../../base/lib/own-tokens.ts';
import type { CustomConnector } from '../../base/model/custom-connector.ts';
import type { HealthWarning } from '../../base/model/not-ready.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import type { AlsoChanged, Commit } from '../registers/commit.ts';
import { type Along, Register } from '../registers/register.ts';
import { entityWith } from '../registers/watched-space.ts';
import { authMistakes, authOf } from './custom-auth.ts';
import { type CustomUrl, readBaseUrl } from './custom-place.ts';

export const CUSTOM_CONNECTORS = 'custom_connector';
/** By org and host, so that of two who make one for the same host at once one succeeds, whichever node they ask. */
const HOSTS = 'custom_connector_host';

type Own = Omit<CustomConnector, 'id' | 'org_id' | 'created_at' | 'updated_at'>;
/** What a person changes of one; the rest stays. `null` takes the default model away. */
export type CustomConnectorChange = Partial<Omit<Own, 'default_model'>> & { readonly default_model?: string | null };
export type NewCustomConnector = Pick<Own, 'name' | 'base_url' | 'auth_mode'> & CustomConnectorChange;

/** Asked with what is there before it is changed; throws when that is not what its caller has read. */
export type Precondition = (shown: CustomConnector) => void;

export interface CustomConnectorOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly catalogues: CatalogueInForce;
  readonly egressAllow: EgressAllow;
  /** `GW_CONNECTOR_HOSTS_DENY`, and the gateway's own names: no org may claim them (decision 3.8). */
  readonly isDenied: (host: string) => boolean;
  /** Whether a key is stored for a connector. */
  readonly hasCredential: (connectorId: string) => boolean;
}

/**
 * The connectors that orgs make themselves (specification, "Custom connector"; decision 10.11). They are held in
 * memory, also as other writers of the store change them, and with each change the catalogue in force is made anew of
 * those that are switched on: traffic uses them from its next call on.
 */
export class CustomConnectorService {
  readonly #options: CustomConnectorOptions;
  readonly #all: Register<CustomConnector>;

  private constructor(options: CustomConnectorOptions, all: Register<CustomConnector>) {
    this.#options = options;
    this.#all = all;
  }

  static async open(options: CustomConnectorOptions): Promise<CustomConnectorService> {
    let changed = (): void => undefined;
    const all = await Register.open(options.store, CUSTOM_CONNECTORS, {
      read: entityWith<CustomConnector>('id', 'org_id'),
      orgOf: (connector) => connector.org_id,
      changed: () => changed(),
    });
    const service = new CustomConnectorService(options, all);
    changed = () => service.#putInForce();
    changed();
    return service;
  }

  /** In the order in which they were made. */
  list(orgId: string): readonly CustomConnector[] {
    return [...this.#all.ofOrg(orgId)].sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  /** One of this org; undefined when it has none of this id, with or without the prefix of a connector id. */
  get(orgId: string, id: string): CustomConnector | undefined {
    const found = this.#of(id);
    return found?.org_id === orgId ? found : undefined;
  }

  /**
   * The connector id of one that is there, switched on or not; undefined for any other text.
   * @param orgId only of this org; left out: of any
   */
  connectorId(text: string, orgId?: string): string | undefined {
    const found = this.#of(text);
    return found === undefined || (orgId !== undefined && found.org_id !== orgId) ? undefined : customConnectorId(found.id);
  }

  /**
   * Why traffic does not use one that is switched on: settings that were changed since it was made. Undefined: it does.
   */
  notUsed(connector: CustomConnector): string | undefined {
    if (!connector.enabled) return undefined;
    const url = readBaseUrl(connector.base_url, this.#options.egressAllow);
    if (typeof url === 'string') return `base_url ${url}`;
    return this.#options.isDenied(url.host) ? `no org may have a connector at ${url.host} (GW_CONNECTOR_HOSTS_DENY)` : undefined;
  }

  /** For health, which everybody may read: how many there are, and none by name. */
  warnings(): readonly HealthWarning[] {
    let count = 0;
    for (const connector of this.#all.values()) if (this.notUsed(connector) !== undefined) count += 1;
    return count === 0 ? [] : [{ code: 'custom_connector_not_used', message: `${count} ${NOT_USED_HERE}` }];
  }

  /** Whether this is the host of the connector with this id. @param host canonical */
  coversHost(connectorId: string, host: string): boolean {
    const found = this.#of(connectorId);
    return found !== undefined && this.#urlOf(found)?.host === host;
  }

  /** @throws GatewayError `invalid_request` with every mistake; `conflict` for a host that has a connector already */
  async create(orgId: string, { default_model: model, ...given }: NewCustomConnector, commit?: Commit): Promise<CustomConnector> {
    const now = this.#options.clock.now();
    const at = timestamp(now);
    const { url, connector } = this.#checked({
      ...given,
      id: uuidv7(now),
      org_id: orgId,
      dialect: given.dialect ?? 'openai',
      enabled: given.enabled ?? true,
      ...(typeof model === 'string' ? { default_model: model } : {}),
      created_at: at,
      updated_at: at,
    });
    this.#refuseDenied(url.host);
    this.#refuseTaken(orgId, url.host, connector.id);
    const next = (_current: unknown, along: Along): CustomConnector => {
      claim(along, connector, url.host);
      return connector;
    };
    return this.#all.change(connector.id, next, { commit, conflict: changedMeanwhile });
  }

  /**
   * Changes what is given and leaves the rest. A member of another `auth_mode` goes with the mode that it belonged to.
   * @returns undefined when this org has none of this id
   * @throws GatewayError as {@link create}; `conflict` also when another writer changed it at the same moment, or when
   * it has a key and would get another host
   */
  async change(
    orgId: string,
    id: string,
    given: CustomConnectorChange,
    expect: Precondition,
    commit?: Commit,
  ): Promise<CustomConnector | undefined> {
    const next = (before: CustomConnector | undefined, along: Along): CustomConnector | undefined => {
      if (before?.org_id !== orgId) return undefined;
      expect(before);
      const { url, connector } = this.#checked({ ...changed(before, given), updated_at: this.#now() });
      const host = this.#urlOf(before)?.host ?? '';
      // One that was made before its host was denied can still be switched off.
      if (connector.enabled || host !== url.host) this.#refuseDenied(url.host);
      if (host === url.host) return connector;
      this.#refuseTaken(orgId, url.host, before.id);
      // What was stored for one host must not go to another because of a word in a body.
      if (this.#options.hasCredential(customConnectorId(before.id)))
        throw new GatewayError(
          'conflict',
          'It has a stored credential, which is for its host: remove that first, or make another connector.',
        );
      along.effects.push(hostRemoval(orgId, host));
      claim(along, connector, url.host);
      return connector;
    };
    return this.#all.change(bareId(id), next, { commit, conflict: changedMeanwhile });
  }

  /**
   * From the next call on its host has no connector. False when this org has none of this id.
   * @param also what goes with it, asked when it is removed
   */
  async remove(
    orgId: string,
    id: string,
    expect: Precondition,
    commit?: Commit,
    also: (connectorId: string) => readonly AlsoChanged[] = () => [],
  ): Promise<boolean> {
    if (this.get(orgId, id) === undefined) return false;
    return this.#all.remove(bareId(id), { commit, conflict: changedMeanwhile }, (before, along) => {
      expect(before);
      along.effects.push(hostRemoval(orgId, this.#urlOf(before)?.host ?? ''));
      along.also.push(...also(customConnectorId(before.id)));
    });
  }

  #of(id: string): CustomConnector | undefined {
    return this.#all.get(bareId(id));
  }

  #now(): string {
    return timestamp(this.#options.clock.now());
  }

  #urlOf({ base_url: url }: CustomConnector): CustomUrl | undefined {
    const read = readBaseUrl(url, this.#options.egressAllow);
    return typeof read === 'string' ? undefined : read;
  }

  #checked(given: CustomConnector): { readonly url: CustomUrl; readonly connector: CustomConnector } {
    const url = readBaseUrl(given.base_url, this.#options.egressAllow);
    const header = given.auth_header?.toLowerCase();
    const whole: CustomConnector = { ...given, ...(header === undefined ? {} : { auth_header: header }) };
    const details: ErrorDetail[] = [
      ...(typeof url === 'string' ? [{ path: 'base_url', message: url }] : []),
      ...(['base_url', 'default_model'] as const)
        .filter((path) => whole.enabled && holdsOwnToken(whole[path] ?? ''))
        .map((path) => ({ path, message: 'must not hold a key or token of this gateway: it is sent on' })),
      ...authMistakes({ ...whole, base_url: whole.base_url.toLowerCase() }),
    ];
    if (typeof url === 'string' || details.length > 0)
      throw new GatewayError('invalid_request', 'The connector is not valid.', { details });
    return { url, connector: { ...whole, base_url: url.text } };
  }

  #refuseDenied(host: string): void {
    if (!this.#options.isDenied(host)) return;
    const message = `must not be at ${host}: no org may have a connector there (GW_CONNECTOR_HOSTS_DENY)`;
    throw new GatewayError('invalid_request', 'The connector is not valid.', { details: [{ path: 'base_url', message }] });
  }

  /** A host of the registry is the registry's: its row says what its calls mean and cost. */
  #refuseTaken(orgId: string, host: string, id: string): void {
    const row = this.#options.catalogues.shipped().providerForHost(host);
    if (row !== undefined) throw new GatewayError('conflict', `${host} is a host of the connector ${row.id}, which is there already.`);
    const other = this.list(orgId).find((known) => known.id !== id && this.#urlOf(known)?.host === host);
    if (other !== undefined) throw new GatewayError('conflict', `${host} is the host of the connector ${other.id} (${other.name}).`);
  }

  #putInForce(): void {
    const rows: CustomRow[] = [];
    for (const connector of this.#all.values()) {
      if (!connector.enabled) continue;
      const url = this.#urlOf(connector);
      const why = this.notUsed(connector);
      if (url !== undefined && why === undefined) rows.push(rowOf(connector, url));
      else this.#options.log.warn({ connector_id: customConnectorId(connector.id), org_id: connector.org_id, why }, NOT_USED);
    }
    this.#options.catalogues.replaceCustom(rows.sort((a, b) => (a.id < b.id ? -1 : 1)));
  }
}

const NOT_USED_HERE =
  'custom connectors are switched on and not used: no org may have one at their host (GW_CONNECTOR_HOSTS_DENY), or their base_url is not one that this gateway takes (GW_EGRESS_ALLOW); the log names them';
const NOT_USED = 'a custom connector is not used: its base_url is not one that this gateway takes';

function rowOf(connector: CustomConnector, { host, port, tls, path }: CustomUrl): CustomRow {
  const { id, org_id: orgId, dialect, default_model: defaultModel } = connector;
  return { id, orgId, host, port, tls, path, dialect, auth: authOf(connector), defaultModel };
}

/** Another mode takes the name with it that belonged to the one before, unless that is given anew. */
function changed(before: CustomConnector, { default_model: model, ...given }: CustomConnectorChange): CustomConnector {
  const { auth_header: header, auth_query: query, default_model: oldModel, ...kept } = before;
  const staysInMode = given.auth_mode === undefined || given.auth_mode === before.auth_mode;
  const newModel = model === undefined ? oldModel : model;
  return {
    ...kept,
    ...(staysInMode && header !== undefined ? { auth_header: header } : {}),
    ...(staysInMode && query !== undefined ? { auth_query: query } : {}),
    ...(newModel === undefined || newModel === null ? {} : { default_model: newModel }),
    ...given,
  };
}

/** Takes a host for a connector, or the change does not take place. */
function claim({ effects, expect }: Along, { id, org_id: orgId }: CustomConnector, host: string): void {
  const at = { space: HOSTS, key: hostKey(orgId, host) };
  effects.push({ op: 'put', ...at, value: id });
  expect.push({ ...at, version: undefined });
}

function hostRemoval(orgId: string, host: string): Effect {
  return { op: 'delete', space: HOSTS, key: hostKey(orgId, host) };
}

function hostKey(orgId: string, host: string): string {
  return `${orgId}\n${host}`;
}

function bareId(id: string): string {
  return asCustomConnectorId(id).slice(customConnectorId('').length);
}

function changedMeanwhile(): GatewayError {
  return new GatewayError('conflict', 'Somebody else has changed it, or taken its host, at the same moment: read it again.');
}
