import { isJsonObject } from '../base/json/json-object.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import type { CredentialEntry } from '../control-plane/proto/messages.ts';
import type { CredentialChange, CredentialService, GivenCredential } from '../services/people/credentials.ts';
import type { PolicyService } from '../services/policy/policies.ts';
import { commitAlone } from '../services/registers/commit.ts';
import type { Effect, Store } from '../storage/contract/store.ts';
import { allPages, checkedEntries, entryJson } from './all-pages.ts';
import type { FetchedVersions } from './fetched-versions.ts';
import type { Channel, RemoteResource } from './link-ports.ts';
import { requireOrg } from './require-org.ts';

const NAME = 'credentials';

export interface RemoteCredentialsOptions {
  readonly store: Pick<Store, 'commit'>;
  readonly orgId: string;
  readonly nodeId: string;
  readonly versions: FetchedVersions;
  readonly credentials: Pick<CredentialService, 'checkGiven' | 'replaceAll'>;
  readonly policies: Pick<PolicyService, 'changeAutoRules'>;
  /** By the rules of the admin API. @throws GatewayError; no message repeats a secret */
  readonly parse: (body: unknown) => CredentialChange;
}

/**
 * The credentials that the control plane gives to this node: those of the whole org, and those that are assigned to it
 * (specification, "Credential"; decision 13.10). With them, in the same commit, come and go the rules that allow their
 * providers. Their secrets are sealed at rest.
 */
export class RemoteCredentials implements RemoteResource {
  readonly name = NAME;
  readonly #options: RemoteCredentialsOptions;

  constructor(options: RemoteCredentialsOptions) {
    this.#options = options;
  }

  version(): string {
    return this.#options.versions.get(NAME);
  }

  async fetch(channel: Channel): Promise<void> {
    const { orgId, credentials, policies } = this.#options;
    const { version, entries } = await allPages(NAME, async (cursor) => {
      const page = await channel.call('FetchCredentials', { cursor });
      return { version: page.version, entries: page.credentials, next: page.next_cursor };
    });
    const all = checkedEntries(
      'credential',
      entries.map(({ credential, ...rest }: CredentialEntry) => ({ body: entryJson('credential', credential), ...rest })),
      {
        idOf: ({ body }) => (isJsonObject(body) ? body['credential_id'] : undefined),
        check: ({ body, secret, node_ids: nodeIds }) => this.#given(body, secret, nodeIds),
        keyOf: ({ credential_id: id }) => id,
      },
    );
    const allowed = all.map(({ connector_id: id }) => id);
    await credentials.replaceAll(all, (_object, effects) =>
      policies.changeAutoRules(orgId, allowed, (rules) => this.#commit([...effects, ...rules], version)),
    );
    this.#options.versions.took(NAME, version);
  }

  /** Secrets go. The rules stay: without them a layer that lets through what they name would let through everything. */
  async erase(): Promise<void> {
    await this.#options.credentials.replaceAll([], (_object, effects) => this.#commit(effects, ''));
    this.#options.versions.took(NAME, '');
  }

  #commit(effects: readonly Effect[], version: string): Promise<void> {
    const { store, versions } = this.#options;
    return commitAlone(store)(undefined, [...effects, versions.effect(NAME, version)]);
  }

  #given(body: unknown, secret: string, nodeIds: readonly string[]): GivenCredential {
    const { orgId, nodeId, parse, credentials } = this.#options;
    const owned = requireOrg(body, orgId);
    const whole = isJsonObject(owned) ? { ...owned, org_id: orgId, ...(secret === '' ? {} : { secret_ref: secret }) } : owned;
    const change = parse(whole);
    credentials.checkGiven(change);
    if (change.type === 'export_auth')
      throw new GatewayError('invalid_request', 'The credential is not for gateways.', {
        details: [{ path: 'type', message: 'is export_auth, and such are never given to gateways' }],
      });
    // What is given to this node was assigned to it; the others are shown, so that who changes the list of nodes does
    // not take it from them.
    return change.distribution === 'node_scoped' ? { ...change, node_ids: [...new Set([...nodeIds, nodeId])].sort() } : change;
  }
}
