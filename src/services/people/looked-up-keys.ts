import { isDeepStrictEqual } from 'node:util';
import type { KeyLookup } from '../../base/events/events.ts';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { networkOf } from '../../base/lib/ip.ts';
import type { Logger } from '../../base/lib/log.ts';
import { Lru } from '../../base/lib/lru.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import { Shares } from '../../base/lib/shares.ts';
import type { ApiKey } from '../../base/model/keys.ts';
import { STRANGER_BOUNDS } from '../../base/model/traffic-bounds.ts';
import type { Store } from '../../storage/contract/store.ts';
import { REMOVED, Register } from '../registers/register.ts';
import { entityWith } from '../registers/watched-space.ts';
import { type HashedKeyVerdict, notLookedUp } from './hashed-keys.ts';

/** By the SHA-256 of the key, lower-case hex. */
export const LOOKED_UP_KEYS = 'remote_api_key';
const SHOWN_CHARS = 12;
/** Keys that are kept; of more, those go that were not looked up for longest. */
const MAX_KEPT = STRANGER_BOUNDS.keptKeys.all;
/** So long a key counts without another look while there is contact. */
const FRESH_MS = 300_000;
/** After a look that failed the copy counts for so long. */
const AGAIN_MS = 10_000;
/** A key that nobody knows is not asked for again for so long. */
const UNKNOWN_MS = 10_000;
const MAX_UNKNOWN = STRANGER_BOUNDS.unknownKeys.all;
/** A request waits so long for a look at its key. */
const LOOK_MS = 3_000;
/** Looks under way at keys that are kept: they wait for no stranger. */
const MAX_RENEWING = STRANGER_BOUNDS.renewedLookups.all;
const LONG_AGO = Number.NEGATIVE_INFINITY;
/** Of keys that are looked up again because some of the org's have changed. */
const AT_ONCE = 8;

/** What is known of a key where it was made. */
export interface FoundKey {
  readonly id: string;
  readonly org_id: string;
  readonly name: string;
  readonly expires_at?: string;
  readonly revoked_at?: string;
}

/** Where keys are looked up. */
export interface KeySource {
  /** False: nobody answers there now, and who has a copy need not wait for that. */
  readonly reachable: boolean;
  /**
   * @param hash SHA-256 of a key
   * @returns the key, undefined when there is none, and the version of all keys of the org
   * @throws Error when nobody answers, or not what can be believed
   */
  lookUp(hash: Uint8Array): Promise<{ readonly key: FoundKey | undefined; readonly version: string }>;
}

export interface LookedUpKeysOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  /** Names the control plane and the org: keys of another are not looked at. */
  readonly from: string;
  readonly lookedUp: (how: KeyLookup) => void;
}

interface StoredKey {
  readonly from: string;
  readonly key: ApiKey;
}

const withKey = entityWith<StoredKey>('from');
const apiKey = entityWith<ApiKey>('id', 'org_id');

function storedKey(value: unknown): StoredKey | undefined {
  const found = withKey(value);
  return found !== undefined && apiKey(found.key) !== undefined ? found : undefined;
}

interface Kept {
  readonly key: ApiKey;
  /** Monotonic milliseconds. */
  readonly freshUntil: number;
}

/**
 * API keys that a control plane makes (specification, "Authentication" 2; decision 13.10). A key is looked up there by
 * its hash; what was found is kept, by its hash, also over a restart, so that who was let in once is let in while
 * nobody answers. A key that is not kept and cannot be looked up lets nobody in, and is not called unknown: 503. Places
 * for looks at keys that were never shown here are shared by addresses, so that nobody with made-up keys takes all of
 * them; keys that are kept have places of their own.
 */
export class LookedUpKeys {
  readonly #options: LookedUpKeysOptions;
  /** Those that were looked up last stand last. */
  readonly #kept = new Map<string, Kept>();
  #stored: Register<StoredKey> | undefined;
  readonly #unknown: Lru<string, true>;
  readonly #asking = new Map<string, Promise<HashedKeyVerdict<ApiKey>>>();
  readonly #strangers = new Shares(STRANGER_BOUNDS.lookups.all);
  #renewing = 0;
  #source: KeySource | undefined;
  #version = '';
  /** The last look failed, and that was told. */
  #failing = false;

  private constructor(options: LookedUpKeysOptions) {
    this.#options = options;
    this.#unknown = new Lru({ max: MAX_UNKNOWN, ttl: { ms: UNKNOWN_MS, clock: options.clock } });
  }

  static async open(options: LookedUpKeysOptions): Promise<LookedUpKeys> {
    const keys = new LookedUpKeys(options);
    keys.#stored = await Register.open(options.store, LOOKED_UP_KEYS, {
      read: storedKey,
      changed: (hash, stored) => keys.#hear(hash, stored),
    });
    return keys;
  }

  /** What was found by whichever writer of the store is kept here, too. */
  #hear(hash: string, stored: StoredKey | undefined): void {
    if (stored === undefined) this.#kept.delete(hash);
    else if (stored.from === this.#options.from && !isDeepStrictEqual(stored.key, this.#kept.get(hash)?.key)) {
      this.#unknown.delete(hash);
      this.#kept.set(hash, { key: stored.key, freshUntil: LONG_AGO });
    }
  }

  /** Of the org's keys, as all that are kept were looked up at; empty: none was yet. */
  get version(): string {
    return this.#version;
  }

  /** From now on keys are looked up there. */
  attach(source: KeySource): void {
    this.#source = source;
  }

  /** Those that were shown here, revoked ones included; the oldest id first. */
  list(orgId?: string): readonly ApiKey[] {
    const keys = [...this.#kept.values()].map(({ key }) => key);
    return keys.filter((key) => orgId === undefined || key.org_id === orgId).sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  /**
   * Judges a key; at once when it is one that counts without another look.
   * @param from address of the caller
   * @throws GatewayError `key_lookup_failed` for one that is not kept, when it cannot be looked up
   */
  judge(presented: string, from = ''): HashedKeyVerdict<ApiKey> | Promise<HashedKeyVerdict<ApiKey>> {
    const { clock, lookedUp } = this.#options;
    const hash = sha256Hex(presented);
    const kept = this.#kept.get(hash);
    if (kept !== undefined && (kept.freshUntil > clock.monotonic() || this.#source?.reachable !== true)) {
      lookedUp('hit');
      return this.#verdict(kept.key);
    }
    if (kept === undefined && this.#unknown.has(hash)) {
      lookedUp('miss');
      return UNKNOWN;
    }
    return this.#asked(hash, presented.slice(0, SHOWN_CHARS), kept === undefined ? networkOf(from) : undefined);
  }

  /**
   * Some keys of the org are others than they were: what is known of none is forgotten, and the kept ones are looked up
   * again.
   * @throws Error when that fails for one
   */
  async changed(): Promise<void> {
    const source = this.#source;
    if (source === undefined) throw new Error('there is no control plane to look API keys up at');
    const before = this.#version;
    this.#version = '';
    this.#doubtAll();
    const left = [...this.#kept];
    const next = async (): Promise<void> => {
      for (let one = left.pop(); one !== undefined; one = left.pop()) await this.#learn(source, one[0], one[1].key.key_prefix);
    };
    try {
      await Promise.all(Array.from({ length: AT_ONCE }, next));
    } catch (error) {
      this.#version = before;
      throw error;
    }
  }

  /** No key that is kept lets anybody in any more. */
  async erase(): Promise<void> {
    this.#kept.clear();
    this.#version = '';
    // As they are stored, so that what could not be deleted once is deleted the next time.
    const { from } = this.#options;
    const gone = [...(this.#stored?.entries() ?? [])].filter(([, stored]) => stored.from === from);
    if (gone.length > 0) await this.#stored?.changeAll(new Map(gone.map(([hash]) => [hash, REMOVED] as const)));
  }

  #doubtAll(): void {
    this.#unknown.clear();
    for (const [hash, { key }] of this.#kept) this.#kept.set(hash, { key, freshUntil: LONG_AGO });
  }

  /** One look at a time for one key. @param from whose place it takes; undefined for one that is kept */
  #asked(hash: string, prefix: string, from: string | undefined): Promise<HashedKeyVerdict<ApiKey>> {
    const asked = this.#asking.get(hash);
    if (asked !== undefined) return asked;
    const isFull = from === undefined ? this.#renewing >= MAX_RENEWING : this.#strangers.full(from) !== undefined;
    const source = this.#source;
    if (source === undefined || isFull) return Promise.resolve(hash).then((one) => this.#unasked(one));
    if (from === undefined) this.#renewing += 1;
    else this.#strangers.take(from);
    const asking = this.#ask(source, hash, prefix).finally(() => {
      this.#asking.delete(hash);
      if (from === undefined) this.#renewing -= 1;
      else this.#strangers.give(from);
    });
    this.#asking.set(hash, asking);
    return asking;
  }

  async #ask(source: KeySource, hash: string, prefix: string): Promise<HashedKeyVerdict<ApiKey>> {
    const { lookedUp } = this.#options;
    try {
      const key = await this.#inTime(this.#learn(source, hash, prefix));
      this.#failing = false;
      lookedUp(key === undefined ? 'miss' : 'fallback');
      return key === undefined ? UNKNOWN : this.#verdict(key);
    } catch (error) {
      if (!this.#failing)
        this.#options.log.warn(
          { err: error },
          'an API key could not be looked up; until that is possible again those that were not shown here before are answered 503',
        );
      this.#failing = true;
      return this.#unasked(hash, error);
    }
  }

  /** What comes later is learnt all the same. @throws Error when it takes too long */
  #inTime<T>(look: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const cancel = this.#options.clock.after(LOOK_MS, () => reject(new Error(`no answer in ${LOOK_MS / 1_000} s`)));
      look.then(resolve, reject).finally(cancel);
    });
  }

  /** By the copy alone. @throws GatewayError `key_lookup_failed` where there is none */
  #unasked(hash: string, cause?: unknown): HashedKeyVerdict<ApiKey> {
    const { clock, lookedUp } = this.#options;
    const kept = this.#kept.get(hash);
    lookedUp(kept === undefined ? 'miss' : 'hit');
    if (kept === undefined) return notLookedUp(cause);
    this.#kept.set(hash, { key: kept.key, freshUntil: clock.monotonic() + AGAIN_MS });
    return this.#verdict(kept.key);
  }

  /** @throws Error when it cannot be looked up, or what was found cannot be stored */
  async #learn(source: KeySource, hash: string, prefix: string): Promise<ApiKey | undefined> {
    const { clock, from } = this.#options;
    const { key: found, version } = await source.lookUp(Buffer.from(hash, 'hex'));
    // Keys have changed of which nobody has told yet: none that was looked up before counts without another look. The
    // version stays until all had one.
    if (this.#version === '') this.#version = version;
    else if (version !== this.#version) this.#doubtAll();
    const before = this.#kept.get(hash)?.key;
    if (found === undefined) {
      if (before !== undefined) await this.#stored?.remove(hash);
      this.#kept.delete(hash);
      this.#unknown.set(hash, true);
      return undefined;
    }
    const key: ApiKey = { ...found, key_prefix: prefix, created_at: before?.created_at ?? timestamp(clock.now()) };
    const oldest = before === undefined && this.#kept.size >= MAX_KEPT ? this.#kept.keys().next().value : undefined;
    if (!isDeepStrictEqual(key, before))
      await this.#stored?.changeAll(
        new Map<string, StoredKey | typeof REMOVED>([[hash, { from, key }], ...(oldest === undefined ? [] : [[oldest, REMOVED] as const])]),
      );
    if (oldest !== undefined) this.#kept.delete(oldest);
    this.#kept.delete(hash);
    this.#kept.set(hash, { key, freshUntil: clock.monotonic() + FRESH_MS });
    return key;
  }

  #verdict(key: ApiKey): HashedKeyVerdict<ApiKey> {
    if (key.revoked_at !== undefined) return { result: 'revoked', key };
    const isOver = key.expires_at !== undefined && Date.parse(key.expires_at) <= this.#options.clock.now();
    return { result: isOver ? 'expired' : 'valid', key };
  }
}

const UNKNOWN: HashedKeyVerdict<ApiKey> = { result: 'invalid_key' };
