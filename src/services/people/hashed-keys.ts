import { randomBytes } from 'node:crypto';
import type { KeyLookup } from '../../base/events/events.ts';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { Lru } from '../../base/lib/lru.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import { uuidv7 } from '../../base/lib/uuidv7.ts';
import { CONTROL_BOUNDS, ENTITY_BOUNDS } from '../../base/model/org-bounds.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import { entityRows } from '../../storage/contract/store-pages.ts';
import { type Commit, commitAlone } from '../registers/commit.ts';

/** Keys in use that are found without the store. */
const MAX_KNOWN = CONTROL_BOUNDS.keysInUse.all;
const SECRET_BYTES = 32;

/** What is kept of a key, whatever it opens. The key itself is kept nowhere. */
export interface IssuedKey {
  readonly id: string;
  readonly org_id: string;
  readonly name: string;
  /** Its first characters, to recognise it by. */
  readonly key_prefix: string;
  readonly created_at: string;
  /** Absent: never. */
  readonly expires_at?: string;
  readonly revoked_at?: string;
}

/** What somebody has shown: a key that is good, or why it is not (specification, "Authentication" 3). */
export type HashedKeyVerdict<K> =
  | { readonly result: 'valid'; readonly key: K }
  | { readonly result: 'invalid_key' }
  | { readonly result: 'revoked' | 'expired'; readonly key: K };

export interface NewIssuedKey {
  readonly orgId: string;
  readonly name: string;
  /** Epoch milliseconds; undefined: never. */
  readonly expiresAtMs: number | undefined;
}

/** How a key is stored that is not kept once it is revoked; undefined: it is kept, for the list of those that were. */
export type Forgetting<K> = (key: K) => Commit | undefined | Promise<Commit | undefined>;

export interface HashedKeysOptions {
  readonly store: Store;
  readonly clock: Clock;
  /** Where they are kept, by the SHA-256 of the key, lower-case hex. */
  readonly space: string;
  /** Characters of `key_prefix`, with the prefix of the kind. */
  readonly shownChars: number;
  readonly lookedUp?: (how: KeyLookup) => void;
}

/**
 * Keys of which the hash alone is kept (specification, "Authentication" 2 and 4). One is looked up by its hash, so that the time of it tells nothing about any key; what is
 * in use is held in memory, and what is changed by whichever writer of the store is forgotten here.
 */
export class HashedKeys<K extends IssuedKey> {
  readonly #options: HashedKeysOptions;
  readonly #known = new Lru<string, K>({ max: MAX_KNOWN });
  /** Hashes of the keys that there are, by org: a list of one org reads its own alone. */
  readonly #hashes = new Map<string, Set<string>>();
  readonly #orgs = new Map<string, string>();
  /** Goes up with each change: what was read before one is not kept. */
  #changes = 0;

  private constructor(options: HashedKeysOptions) {
    this.#options = options;
  }

  static async open<K extends IssuedKey>(options: HashedKeysOptions): Promise<HashedKeys<K>> {
    const keys = new HashedKeys<K>(options);
    await options.store.watch(options.space, async (event) => {
      keys.#forget(event.lost === true ? undefined : event.key);
      if (event.lost === true) await keys.#learnAll();
      else keys.#learn(event.key, event.value as K | undefined);
    });
    await keys.#learnAll();
    return keys;
  }

  /** Judges a key; at once when it is one in use. @throws GatewayError `key_lookup_failed` when the store cannot be read */
  judge(presented: string): HashedKeyVerdict<K> | Promise<HashedKeyVerdict<K>> {
    const hash = sha256Hex(presented);
    const known = this.#known.get(hash);
    if (known === undefined) return this.#readThrough(hash);
    this.#options.lookedUp?.('hit');
    return this.#verdict(known);
  }

  async #readThrough(hash: string): Promise<HashedKeyVerdict<K>> {
    const { store, space, lookedUp } = this.#options;
    const changes = this.#changes;
    const key = (await store.get(space, hash).catch(notLookedUp)) as K | undefined;
    lookedUp?.(key === undefined ? 'miss' : 'fallback');
    if (key === undefined) return { result: 'invalid_key' };
    if (changes === this.#changes) this.#known.set(hash, key);
    return this.#verdict(key);
  }

  #verdict(key: K): HashedKeyVerdict<K> {
    if (key.revoked_at !== undefined) return { result: 'revoked', key };
    const expired = key.expires_at !== undefined && Date.parse(key.expires_at) <= this.#options.clock.now();
    return { result: expired ? 'expired' : 'valid', key };
  }

  /**
   * Makes a key; its plain text is returned this once.
   * @param prefix of its kind
   * @param complete adds what keys of this kind have beside
   */
  async create(
    prefix: string,
    { orgId, name, expiresAtMs }: NewIssuedKey,
    complete: (key: IssuedKey) => K,
    commit: Commit = commitAlone(this.#options.store),
  ): Promise<{ plain: string; key: K }> {
    const { clock, space, shownChars } = this.#options;
    const now = clock.now();
    const plain = prefix + randomBytes(SECRET_BYTES).toString('base64url');
    const key = complete({
      id: uuidv7(now),
      org_id: orgId,
      name,
      key_prefix: plain.slice(0, shownChars),
      created_at: timestamp(now),
      ...(expiresAtMs === undefined ? {} : { expires_at: timestamp(expiresAtMs) }),
    });
    const hash = sha256Hex(plain);
    await commit(key.id, [{ op: 'put', space, key: hash, value: key }]);
    this.#learn(hash, key);
    return { plain, key };
  }

  /** All keys of an org, of every org without one; the oldest first. Revoked ones stay in the list. */
  async list(orgId?: string): Promise<readonly K[]> {
    const found: K[] = [];
    for await (const { value } of this.#all(orgId)) found.push(value);
    return found.sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  /**
   * From the next request on the key lets nobody in; the second time nothing changes. Of revoked ones an org keeps some to be listed, the newest.
   * @param orgId whose key it must be; undefined: anyone's
   * @param forgetting for keys that are not kept
   * @returns the key, and whether this is the first time; undefined when there is none of this id
   */
  async revoke(
    id: string,
    orgId?: string,
    commit: Commit = commitAlone(this.#options.store),
    forgetting?: Forgetting<K>,
  ): Promise<{ readonly key: K; readonly isNews: boolean } | undefined> {
    const { clock, space } = this.#options;
    const all: { readonly key: string; readonly value: K }[] = [];
    for await (const one of this.#all(orgId)) all.push(one);
    const found = all.find(({ value }) => value.id === id && (orgId === undefined || value.org_id === orgId));
    if (found === undefined) return undefined;
    const { key: hash, value } = found;
    if (value.revoked_at !== undefined) return { key: value, isNews: false };
    const forget = await forgetting?.(value);
    if (forget !== undefined) {
      await forget(id, [{ op: 'delete', space, key: hash }]);
      this.#forget(hash);
      this.#learn(hash, undefined);
      return { key: value, isNews: true };
    }
    const revoked = { ...value, revoked_at: timestamp(clock.now()) };
    const before = all.filter((one) => one.value.org_id === value.org_id && one.value.revoked_at !== undefined);
    before.sort((a, b) => (a.value.id < b.value.id ? -1 : 1));
    const forgotten = before.slice(0, Math.max(0, before.length + 1 - ENTITY_BOUNDS.revokedKeys.org)).map((one) => one.key);
    await commit(id, [{ op: 'put', space, key: hash, value: revoked }, ...forgotten.map((key): Effect => ({ op: 'delete', space, key }))]);
    for (const key of [hash, ...forgotten]) this.#forget(key);
    for (const key of forgotten) this.#learn(key, undefined);
    return { key: revoked, isNews: true };
  }

  /** Removes keys of an org whose time is over. @param isMeant which of them */
  async forgetExpired(orgId: string, isMeant: (key: K) => boolean): Promise<void> {
    const { store, space, clock } = this.#options;
    const over = timestamp(clock.now());
    for await (const { key: hash, value } of this.#all(orgId)) {
      if (!isMeant(value) || value.expires_at === undefined || value.expires_at > over) continue;
      await store.commit(undefined, [{ op: 'delete', space, key: hash }]);
      this.#forget(hash);
      this.#learn(hash, undefined);
    }
  }

  #learn(hash: string, key: K | undefined): void {
    const before = this.#orgs.get(hash);
    if (before === key?.org_id) return;
    if (before !== undefined) this.#hashes.get(before)?.delete(hash);
    if (key === undefined) {
      this.#orgs.delete(hash);
      return;
    }
    this.#orgs.set(hash, key.org_id);
    const hashes = this.#hashes.get(key.org_id);
    if (hashes === undefined) this.#hashes.set(key.org_id, new Set([hash]));
    else hashes.add(hash);
  }

  async #learnAll(): Promise<void> {
    const gone = new Set(this.#orgs.keys());
    for await (const { key, value } of this.#all()) {
      gone.delete(key);
      this.#learn(key, value);
    }
    for (const hash of gone) this.#learn(hash, undefined);
  }

  /** @param orgId only those of this org */
  async *#all(orgId?: string): AsyncGenerator<{ readonly key: string; readonly value: K }> {
    const { store, space } = this.#options;
    if (orgId !== undefined) {
      for (const key of [...(this.#hashes.get(orgId) ?? [])]) {
        const value = (await store.get(space, key)) as K | undefined;
        if (value !== undefined) yield { key, value };
      }
      return;
    }
    for await (const { key, value } of entityRows(store, space)) yield { key, value: value as K };
  }

  #forget(hash: string | undefined): void {
    this.#changes += 1;
    if (hash === undefined) this.#known.clear();
    else this.#known.delete(hash);
  }
}

/** Whether a key counts that cannot be looked up is not known to anybody: it is neither let in nor called unknown. @throws GatewayError `key_lookup_failed` */
export function notLookedUp(cause?: unknown): never {
  throw new GatewayError('key_lookup_failed', 'The key cannot be looked up at the moment; try again.', { cause });
}
