import { randomBytes } from 'node:crypto';
import type { KeyLookup } from '../../base/events/events.ts';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { uuidv7 } from '../../base/lib/ids.ts';
import { Lru } from '../../base/lib/lru.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import { CONTROL_BOUNDS, ENTITY_BOUNDS } from '../../base/model/org-bounds.ts';
import type { Store } from '../../storage/contract/store.ts';
import { entityRows } from '../../storage/contract/store-pages.ts';
import type { Commit } from '../registers/commit.ts';
import { type Along, REMOVED, Register } from '../registers/register.ts';
import { entityWith } from '../registers/watched-space.ts';

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

type KeyOfOrg = Pick<IssuedKey, 'org_id'>;

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
 * Keys of which the hash alone is kept (specification, "Authentication" 2 and 4). One is looked up by its hash, so that
 * the time of it tells nothing about any key; what is in use is held in memory, and what is changed by whichever writer
 * of the store is forgotten here.
 */
export class HashedKeys<K extends IssuedKey> {
  readonly #options: HashedKeysOptions;
  /** By their hashes, with nothing but their orgs: there may be many, and those in use are known whole. */
  readonly #keys: Register<KeyOfOrg, K>;
  readonly #known: Lru<string, K>;

  private constructor(options: HashedKeysOptions, keys: Register<KeyOfOrg, K>, known: Lru<string, K>) {
    this.#options = options;
    this.#keys = keys;
    this.#known = known;
  }

  static async open<K extends IssuedKey>(options: HashedKeysOptions): Promise<HashedKeys<K>> {
    const known = new Lru<string, K>({ max: MAX_KNOWN });
    const keys = await Register.openSealed<KeyOfOrg, K>(options.store, options.space, {
      stored: entityWith<K>('id', 'org_id'),
      opened: ({ org_id: org }) => ({ org_id: org }),
      orgOf: ({ org_id: org }) => org,
      changed: (hash) => known.delete(hash),
    });
    return new HashedKeys(options, keys, known);
  }

  /**
   * Judges a key; at once when it is one in use.
   * @throws GatewayError `key_lookup_failed` when the store cannot be read
   */
  judge(presented: string): HashedKeyVerdict<K> | Promise<HashedKeyVerdict<K>> {
    const hash = sha256Hex(presented);
    const known = this.#known.get(hash);
    if (known === undefined) return this.#readThrough(hash);
    this.#options.lookedUp?.('hit');
    return this.#verdict(known);
  }

  async #readThrough(hash: string): Promise<HashedKeyVerdict<K>> {
    const { store, space, lookedUp } = this.#options;
    const held = this.#keys.get(hash);
    const key = (await store.get(space, hash).catch(notLookedUp)) as K | undefined;
    lookedUp?.(key === undefined ? 'miss' : 'fallback');
    if (key === undefined) return { result: 'invalid_key' };
    // What was read before a change is not kept.
    if (held === this.#keys.get(hash)) this.#known.set(hash, key);
    return this.#verdict(key);
  }

  #verdict(key: K): HashedKeyVerdict<K> {
    if (key.revoked_at !== undefined) return { result: 'revoked', key };
    const expired = key.expires_at !== undefined && Date.parse(key.expires_at) <= this.#options.clock.now();
    return { result: expired ? 'expired' : 'valid', key };
  }

  /**
   * Judges a key of which the hash is known, as if it were shown.
   * @throws GatewayError as {@link judge}
   */
  judgeHash(hash: string): HashedKeyVerdict<K> | Promise<HashedKeyVerdict<K>> {
    const known = this.#known.get(hash);
    return known === undefined ? this.#readThrough(hash) : this.#verdict(known);
  }

  /** The hash of the key of an org with this id; undefined: there is none. */
  async hashOf(id: string, orgId: string): Promise<string | undefined> {
    for await (const { key: hash, value } of this.#all(orgId)) if (value.id === id) return hash;
    return undefined;
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
    commit?: Commit,
  ): Promise<{ plain: string; key: K }> {
    const { clock, shownChars } = this.#options;
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
    await this.#keys.change(sha256Hex(plain), () => key, { commit, object: key.id });
    return { plain, key };
  }

  /** All keys of an org, of every org without one; the oldest first. Revoked ones stay in the list. */
  async list(orgId?: string): Promise<readonly K[]> {
    const found: K[] = [];
    for await (const { value } of this.#all(orgId)) found.push(value);
    return found.sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  /**
   * From the next request on the key lets nobody in; the second time nothing changes. Of revoked ones an org keeps some
   * to be listed, the newest.
   * @param orgId whose key it must be; undefined: anyone's
   * @param forgetting for keys that are not kept
   * @returns the key, and whether this is the first time; undefined when there is none of this id
   */
  async revoke(
    id: string,
    orgId?: string,
    commit?: Commit,
    forgetting?: Forgetting<K>,
  ): Promise<{ readonly key: K; readonly isNews: boolean } | undefined> {
    const all: { readonly key: string; readonly value: K }[] = [];
    for await (const one of this.#all(orgId)) all.push(one);
    const found = all.find(({ value }) => value.id === id && (orgId === undefined || value.org_id === orgId));
    if (found === undefined) return undefined;
    const { key: hash, value } = found;
    if (value.revoked_at !== undefined) return { key: value, isNews: false };
    const forget = await forgetting?.(value);
    if (forget !== undefined) return { key: value, isNews: await this.#keys.remove(hash, { commit: forget, object: id }) };
    const before = all.filter((one) => one.value.org_id === value.org_id && one.value.revoked_at !== undefined);
    before.sort((a, b) => (a.value.id < b.value.id ? -1 : 1));
    const forgotten = before.slice(0, Math.max(0, before.length + 1 - ENTITY_BOUNDS.revokedKeys.org)).map((one) => one.key);
    let isNews = false;
    const revoke = (current: K | undefined, { effects }: Along): K | undefined => {
      isNews = current?.revoked_at === undefined;
      if (current === undefined || !isNews) return undefined;
      effects.push(...forgotten.map((key) => this.#keys.effect(key, REMOVED)));
      return { ...current, revoked_at: timestamp(this.#options.clock.now()) };
    };
    const revoked = await this.#keys.change(hash, revoke, { commit, object: id });
    await Promise.all(forgotten.map((key) => this.#keys.refresh(key)));
    return { key: revoked ?? value, isNews };
  }

  /** Removes keys of an org whose time is over. @param isMeant which of them */
  async forgetExpired(orgId: string, isMeant: (key: K) => boolean): Promise<void> {
    const over = timestamp(this.#options.clock.now());
    for await (const { key: hash, value } of this.#all(orgId)) {
      if (!isMeant(value) || value.expires_at === undefined || value.expires_at > over) continue;
      await this.#keys.remove(hash);
    }
  }

  /** @param orgId only those of this org */
  async *#all(orgId?: string): AsyncGenerator<{ readonly key: string; readonly value: K }> {
    const { store, space } = this.#options;
    if (orgId !== undefined) {
      for (const key of this.#keys.keysOfOrg(orgId)) {
        const value = (await store.get(space, key)) as K | undefined;
        if (value !== undefined) yield { key, value };
      }
      return;
    }
    for await (const { key, value } of entityRows(store, space)) yield { key, value: value as K };
  }
}

/**
 * Whether a key counts that cannot be looked up is not known to anybody: it is neither let in nor called unknown.
 * @throws GatewayError `key_lookup_failed`
 */
export function notLookedUp(cause?: unknown): never {
  throw new GatewayError('key_lookup_failed', 'The key cannot be looked up at the moment; try again.', { cause });
}
