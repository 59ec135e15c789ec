import type { Events } from '../../base/events/bus.ts';
import type { KeyLookup } from '../../base/events/events.ts';
import type { Clock } from '../../base/lib/clock.ts';
import { API_KEY_PREFIX } from '../../base/lib/own-tokens.ts';
import type { ApiKey } from '../../base/model/keys.ts';
import type { Store } from '../../storage/contract/store.ts';
import type { Commit } from '../registers/commit.ts';
import { HashedKeys, type HashedKeyVerdict, type NewIssuedKey } from './hashed-keys.ts';
import { LookedUpKeys, type LookedUpKeysOptions } from './looked-up-keys.ts';

export const API_KEYS = 'api_key';
const SHOWN_CHARS = 12;

export type ApiKeyVerdict = HashedKeyVerdict<ApiKey>;

export interface ApiKeyOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly events: Events;
  /** Where a control plane makes the keys. */
  readonly remote?: Pick<LookedUpKeysOptions, 'from' | 'log'> | undefined;
}

/** API keys of applications (specification, "Authentication" 2; decision 9.5). */
export class ApiKeyService {
  readonly #keys: HashedKeys<ApiKey>;
  /** Keys of a control plane: where there is one, those that are stored here open nothing. */
  readonly remote: LookedUpKeys | undefined;

  private constructor(keys: HashedKeys<ApiKey>, remote: LookedUpKeys | undefined) {
    this.#keys = keys;
    this.remote = remote;
  }

  static async open({ events, remote, ...options }: ApiKeyOptions): Promise<ApiKeyService> {
    const lookedUp = (how: KeyLookup) => events.emit('apiKeyLookup', how);
    const keys = await HashedKeys.open<ApiKey>({ ...options, space: API_KEYS, shownChars: SHOWN_CHARS, lookedUp });
    return new ApiKeyService(keys, remote && (await LookedUpKeys.open({ ...options, ...remote, lookedUp })));
  }

  /**
   * Judges a key; at once when it is one in use.
   * @param from address of the caller
   * @throws GatewayError `key_lookup_failed`
   */
  judge(presented: string, from = ''): ApiKeyVerdict | Promise<ApiKeyVerdict> {
    return this.remote === undefined ? this.#keys.judge(presented) : this.remote.judge(presented, from);
  }

  /** Makes a key; its plain text is returned this once. */
  create(asked: NewIssuedKey, commit?: Commit): Promise<{ plain: string; key: ApiKey }> {
    return this.#keys.create(API_KEY_PREFIX, asked, (key) => key, commit);
  }

  /**
   * All keys of an org, of every org without one; the oldest first. Revoked ones stay in the list. Of those of a
   * control plane: those that were shown here.
   */
  async list(orgId?: string): Promise<readonly ApiKey[]> {
    return this.remote?.list(orgId) ?? this.#keys.list(orgId);
  }

  /**
   * From the next request on the key lets nobody in. Undefined when there is none of this id; the second time nothing
   * changes.
   */
  async revoke(id: string, commit?: Commit): Promise<ApiKey | undefined> {
    return (await this.#keys.revoke(id, undefined, commit))?.key;
  }
}
