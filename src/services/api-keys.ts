import { randomBytes } from 'node:crypto';
import type { Events } from '../base/events/bus.ts';
import { type Clock, timestamp } from '../base/lib/clock.ts';
import { Lru } from '../base/lib/lru.ts';
import { sha256Hex } from '../base/lib/sha256.ts';
import { uuidv7 } from '../base/lib/uuidv7.ts';
import type { ApiKey } from '../base/model/api-key.ts';
import type { Store } from '../storage/contract/store.ts';
import { type Commit, commitAlone } from './commit.ts';

export const API_KEY_PREFIX = 'gwk_';

/** By SHA-256 of the key, lower-case hex. */
const SPACE = 'api_key';
/** Keys in use that are found without the store. */
const MAX_KNOWN = 10_000;
const SHOWN_PREFIX = 12;
const PAGE = 500;

/** What somebody has shown: a key that is good, or why it is not (specification, "Authentication" 3). */
export type KeyVerdict =
  | { readonly result: 'valid'; readonly key: ApiKey }
  | { readonly result: 'invalid_key' }
  | { readonly result: 'revoked' | 'expired'; readonly key: ApiKey };

export interface NewKey {
  readonly orgId: string;
  readonly name: string;
  /** Epoch milliseconds; undefined: never. */
  readonly expiresAtMs: number | undefined;
}

/**
 * API keys (specification, "Authentication" 2, decision 9.5). A key is looked up by its hash, so that the time of it tells nothing about any key; what is in use is held
 * in memory, and what is changed by whichever writer of the store is forgotten here.
 */
export class ApiKeyService {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #events: Events;
  readonly #known = new Lru<string, ApiKey>({ max: MAX_KNOWN });
  /** Goes up with each change: what was read before one is not kept. */
  #changes = 0;

  private constructor(store: Store, clock: Clock, events: Events) {
    this.#store = store;
    this.#clock = clock;
    this.#events = events;
  }

  static async open(options: { store: Store; clock: Clock; events: Events }): Promise<ApiKeyService> {
    const service = new ApiKeyService(options.store, options.clock, options.events);
    await options.store.watch(SPACE, (event) => service.#forget(event.lost === true ? undefined : event.key));
    return service;
  }

  /** Judges a key; at once when it is one in use. */
  judge(presented: string): KeyVerdict | Promise<KeyVerdict> {
    const hash = sha256Hex(presented);
    const known = this.#known.get(hash);
    if (known === undefined) return this.#readThrough(hash);
    this.#events.emit('apiKeyLookup', 'hit');
    return this.#verdict(known);
  }

  async #readThrough(hash: string): Promise<KeyVerdict> {
    const changes = this.#changes;
    const key = (await this.#store.get(SPACE, hash)) as ApiKey | undefined;
    this.#events.emit('apiKeyLookup', key === undefined ? 'miss' : 'fallback');
    if (key === undefined) return { result: 'invalid_key' };
    if (changes === this.#changes) this.#known.set(hash, key);
    return this.#verdict(key);
  }

  #verdict(key: ApiKey): KeyVerdict {
    if (key.revoked_at !== undefined) return { result: 'revoked', key };
    const expired = key.expires_at !== undefined && Date.parse(key.expires_at) <= this.#clock.now();
    return { result: expired ? 'expired' : 'valid', key };
  }

  /** Makes a key; its plain text is returned this once. */
  async create({ orgId, name, expiresAtMs }: NewKey, commit: Commit = commitAlone(this.#store)): Promise<{ plain: string; key: ApiKey }> {
    const now = this.#clock.now();
    const plain = API_KEY_PREFIX + randomBytes(32).toString('base64url');
    const key: ApiKey = {
      id: uuidv7(now),
      org_id: orgId,
      name,
      key_prefix: plain.slice(0, SHOWN_PREFIX),
      created_at: timestamp(now),
      ...(expiresAtMs === undefined ? {} : { expires_at: timestamp(expiresAtMs) }),
    };
    await commit(key.id, [{ op: 'put', space: SPACE, key: sha256Hex(plain), value: key }]);
    return { plain, key };
  }

  /** All keys of an org, of every org without one; the oldest first. Revoked ones stay in the list. */
  async list(orgId?: string): Promise<readonly ApiKey[]> {
    const found: ApiKey[] = [];
    for await (const { value } of this.#all()) if (orgId === undefined || value.org_id === orgId) found.push(value);
    return found.sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  /** From the next request on the key lets nobody in. Undefined when there is none of this id; the second time nothing changes. */
  async revoke(id: string, commit: Commit = commitAlone(this.#store)): Promise<ApiKey | undefined> {
    for await (const { key: hash, value } of this.#all()) {
      if (value.id !== id) continue;
      if (value.revoked_at !== undefined) return value;
      const revoked = { ...value, revoked_at: timestamp(this.#clock.now()) };
      await commit(id, [{ op: 'put', space: SPACE, key: hash, value: revoked }]);
      this.#forget(hash);
      return revoked;
    }
    return undefined;
  }

  async *#all(): AsyncGenerator<{ readonly key: string; readonly value: ApiKey }> {
    let after: string | undefined;
    do {
      const page = await this.#store.list(SPACE, { limit: PAGE, ...(after === undefined ? {} : { after }) });
      for (const { key, value } of page) yield { key, value: value as ApiKey };
      after = page.length < PAGE ? undefined : page.at(-1)?.key;
    } while (after !== undefined);
  }

  #forget(hash: string | undefined): void {
    this.#changes += 1;
    if (hash === undefined) this.#known.clear();
    else this.#known.delete(hash);
  }
}
