import type { Clock } from '../../base/lib/clock.ts';
import { parseTime } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { API_KEY_PREFIX } from '../../base/lib/own-tokens.ts';
import type { ApiKey } from '../../base/model/keys.ts';
import { HashedKeys } from '../../services/people/hashed-keys.ts';
import type { Commit } from '../../services/registers/commit.ts';
import type { Store } from '../../storage/contract/store.ts';
import { SPACE } from './control-plane-spaces.ts';
import type { OrgVersions } from './org-versions.ts';

const SHOWN_CHARS = 12;

/** API keys of orgs, by their hashes; gateways ask for one when somebody shows it to them. */
export class OrgApiKeys {
  readonly #store: Store;
  readonly #keys: HashedKeys<ApiKey>;
  readonly #versions: OrgVersions;

  private constructor(store: Store, keys: HashedKeys<ApiKey>, versions: OrgVersions) {
    this.#store = store;
    this.#keys = keys;
    this.#versions = versions;
  }

  static async open(store: Store, clock: Clock, versions: OrgVersions): Promise<OrgApiKeys> {
    const keys = await HashedKeys.open<ApiKey>({ store, clock, space: SPACE.apiKeys, shownChars: SHOWN_CHARS });
    return new OrgApiKeys(store, keys, versions);
  }

  /** @throws GatewayError `invalid_request` for a time that is none */
  create(orgId: string, asked: { name: string; expires_at?: string }, commit: Commit): Promise<{ key: ApiKey; plain: string }> {
    const expiresAtMs = asked.expires_at === undefined ? undefined : parseTime(asked.expires_at);
    if (asked.expires_at !== undefined && expiresAtMs === undefined)
      throw new GatewayError('invalid_request', 'The key is not valid.', {
        details: [{ path: 'expires_at', message: 'must be an RFC 3339 time' }],
      });
    return this.#keys.create(API_KEY_PREFIX, { orgId, name: asked.name, expiresAtMs }, (key) => key, this.#raising(orgId, commit));
  }

  list(orgId: string): Promise<readonly ApiKey[]> {
    return this.#keys.list(orgId);
  }

  /** The second time nothing changes. @throws GatewayError `not_found` */
  async revoke(orgId: string, id: string, commit: Commit): Promise<ApiKey> {
    const revoked = await this.#keys.revoke(id, orgId, this.#raising(orgId, commit));
    if (revoked === undefined) throw new GatewayError('not_found', `There is no API key ${id}.`);
    return revoked.key;
  }

  /** What is known of a key of this org. @param hash SHA-256 of the key, lower-case hex */
  async find(orgId: string, hash: string): Promise<ApiKey | undefined> {
    const key = (await this.#store.get(SPACE.apiKeys, hash)) as ApiKey | undefined;
    return key?.org_id === orgId ? key : undefined;
  }

  #raising(orgId: string, commit: Commit): Commit {
    return this.#versions.raising(orgId, ['api_keys'], commit);
  }
}
