import { randomBytes } from 'node:crypto';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { uuidv7 } from '../../base/lib/ids.ts';
import type { Logger } from '../../base/lib/log.ts';
import { type Maybe, when } from '../../base/lib/maybe.ts';
import { MANAGEMENT_KEY_PREFIX } from '../../base/lib/own-tokens.ts';
import { type SecretBox, sameSecret } from '../../base/lib/secret-box.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import { shorten } from '../../base/lib/text.ts';
import type { ConsoleSession, ShownSession } from '../../base/model/console-session.ts';
import type { ManagementKey } from '../../base/model/keys.ts';
import { CONTROL_BOUNDS } from '../../base/model/org-bounds.ts';
import type { Principal, Scope } from '../../base/model/principal.ts';
import type { Store } from '../../storage/contract/store.ts';
import { entityRows } from '../../storage/contract/store-pages.ts';
import type { Commit } from '../registers/commit.ts';
import { type Along, REMOVED, Register } from '../registers/register.ts';
import { entityWith } from '../registers/watched-space.ts';
import { type ManagementKeyService, principalOfKey } from './management-keys.ts';

export const CONSOLE_SESSIONS = 'console_session';
/** By the hash of its code: what lets one browser in, once. */
const LINKS = 'console_link';
const LINK_MS = 120_000;
const SECRET_BYTES = 32;
const MOST_BROWSER = 200;
/** That a session is used is stored so often at most. */
const SEEN_MS = 60_000;
const MOST_OF_ORG = CONTROL_BOUNDS.consoleSessions.org;
/** As which the admin token is named in the sealed box. */
const ADMIN_CONTEXT = 'console admin token';

/** What proves that who signed in may still: a session ends with it. */
type Ground =
  | { readonly kind: 'admin'; readonly admin_fingerprint: string }
  | { readonly kind: 'management_key'; readonly key_id: string; readonly org_id: string; readonly key_hash: string };

type StoredSession = ConsoleSession & Ground;

/** Waits to be used once. */
type StoredLink = Ground & { readonly expires_at: string };

/** Where somebody signs in. */
export interface SigningIn {
  /** Address, without port. */
  readonly address: string;
  /** `User-Agent`. */
  readonly browser: string | undefined;
}

/** Who has signed in: as he asks for what is of every org, or of none. */
export interface SignedInPerson {
  readonly session: ConsoleSession;
  readonly principal: Principal;
}

export interface Begun extends SignedInPerson {
  /** Of the cookie; kept nowhere. */
  readonly value: string;
}

/** How something is stored in the name of who has just signed in. */
export type CommitAs = (principal: Principal) => Commit;

export interface ConsoleSessionOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly keys: Pick<ManagementKeyService, 'judge' | 'judgeNamed' | 'nameOf'>;
  readonly adminToken: string;
  readonly box: Pick<SecretBox, 'fingerprints'>;
  /** Milliseconds: since it was used, and since it began. */
  readonly idleMs: number;
  readonly maxMs: number;
}

/**
 * Sessions of browsers at the console (decision 10.19). One is found by the hash of what its cookie holds, in memory,
 * at every node of the store. It ends with what it was begun with: a management key is judged anew at each use, and the
 * admin token has a fingerprint here, which another token has not.
 */
export class ConsoleSessions {
  readonly #options: ConsoleSessionOptions;
  /** By the hash of the cookie's value. */
  readonly #sessions: Register<StoredSession>;
  /** Of the admin token, by each of the gateway's keys; new sessions have the first. */
  readonly #fingerprints: readonly [string, ...string[]];
  /** Sessions of which it is being stored that they are used. */
  readonly #touched = new Set<string>();

  private constructor(options: ConsoleSessionOptions, sessions: Register<StoredSession>) {
    this.#options = options;
    this.#sessions = sessions;
    this.#fingerprints = options.box.fingerprints(options.adminToken, ADMIN_CONTEXT);
  }

  static async open(options: ConsoleSessionOptions): Promise<ConsoleSessions> {
    const sessions = await Register.open<StoredSession>(options.store, CONSOLE_SESSIONS, {
      read: entityWith<StoredSession>('id', 'kind', 'made_at', 'last_seen_at', 'expires_at'),
      orgOf: (session) => session.org_id,
    });
    return new ConsoleSessions(options, sessions);
  }

  /**
   * Signs in whoever shows the admin token or a management key.
   * @returns undefined for any other secret @throws GatewayError `key_lookup_failed`; as `Store.commit`
   */
  async signIn(secret: string, where: SigningIn, commitAs: CommitAs): Promise<Begun | undefined> {
    const ground = await this.#groundOf(secret);
    return ground && this.#begin(ground, where, commitAs);
  }

  /**
   * Makes the code with which whoever asks can sign in once, in a browser, within two minutes.
   * @param principal the admin token, or a management key
   * @returns undefined: of nobody who can sign in
   */
  async invite(principal: Principal, commit: Commit): Promise<{ readonly code: string; readonly expiresAt: string } | undefined> {
    const { clock } = this.#options;
    const ground = await this.#groundOfPrincipal(principal);
    if (ground === undefined) return undefined;
    const code = newSecret();
    const link: StoredLink = { ...ground, expires_at: timestamp(clock.now() + LINK_MS) };
    await commit(undefined, [{ op: 'put', space: LINKS, key: sha256Hex(code), value: link }]);
    return { code, expiresAt: link.expires_at };
  }

  /**
   * Signs in whoever has a code, which is spent with it, whichever node it is shown to.
   * @returns undefined: it does not count
   */
  async redeem(code: string, where: SigningIn, commitAs: CommitAs): Promise<Begun | undefined> {
    const { store, clock } = this.#options;
    const key = sha256Hex(code);
    const found = await store.entity(LINKS, key);
    const link = found?.value as StoredLink | undefined;
    if (found === undefined || link === undefined || Date.parse(link.expires_at) <= clock.now()) return undefined;
    const { expires_at: _end, ...ground } = link;
    try {
      return await this.#begin(ground, where, commitAs, ({ effects, expect }) => {
        effects.push({ op: 'delete', space: LINKS, key });
        expect.push({ space: LINKS, key, version: found.version });
      });
    } catch (error) {
      if (error instanceof SpentLink) return undefined;
      throw error;
    }
  }

  /**
   * Who has signed in with this cookie; at once where the key is one in use. That it is used is stored once a minute.
   * @returns undefined: nobody, or he is no longer @throws GatewayError `key_lookup_failed`
   */
  personOf(value: string): Maybe<SignedInPerson | undefined> {
    const hash = sha256Hex(value);
    const session = this.#sessions.get(hash);
    if (session === undefined) return undefined;
    return when(this.#judged(session), (person) => {
      if (person !== undefined) this.#touch(hash, session);
      else if (this.#isGone(session)) this.#beside(hash, () => this.#sessions.remove(hash));
      return person;
    });
  }

  /** Those that are good, of an org, or all without one; the one that began last first. */
  async list(orgId?: string): Promise<readonly ShownSession[]> {
    const all = orgId === undefined ? [...this.#sessions.values()] : this.#sessions.ofOrg(orgId);
    const shown: ShownSession[] = [];
    for (const session of all) {
      const person = await this.#judged(session);
      if (person !== undefined) shown.push(this.shown(person));
    }
    return shown.sort((a, b) => (a.id < b.id ? 1 : -1));
  }

  /** One of this id that is good, as people see it. */
  async show(id: string): Promise<ShownSession | undefined> {
    for (const session of this.#sessions.values()) {
      const person = session.id === id ? await this.#judged(session) : undefined;
      if (person !== undefined) return this.shown(person);
    }
    return undefined;
  }

  /** One as people see it. */
  shown({ session, principal: { name, scopes } }: SignedInPerson): ShownSession {
    const { idleMs } = this.#options;
    const idleEnd = Math.min(Date.parse(session.last_seen_at) + idleMs, Date.parse(session.expires_at));
    const opened = session.kind === 'admin' ? [...scopes, ...OF_ORGS] : scopes;
    const own = { scopes: opened.filter((scope) => scope !== 'none' && scope !== 'session'), idle_expires_at: timestamp(idleEnd) };
    return { ...session, ...(name === undefined ? {} : { name }), ...own };
  }

  /** Ends one. @param orgId whose it must be; undefined: anyone's @returns false when there is none of this id */
  async end(id: string, orgId: string | undefined, commit: Commit): Promise<boolean> {
    for (const [hash, session] of this.#sessions.entries()) {
      if (session.id === id && (orgId === undefined || session.org_id === orgId))
        return this.#sessions.remove(hash, { commit, object: id });
    }
    return false;
  }

  /** Removes sessions that are over, and codes that nobody has used in time. @returns how many */
  async removeEnded(): Promise<number> {
    const { store, clock } = this.#options;
    let removed = 0;
    for (const [hash, session] of [...this.#sessions.entries()]) {
      if ((await this.#judged(session)) !== undefined || !this.#isGone(session)) continue;
      if (await this.#sessions.remove(hash)) removed += 1;
    }
    for await (const { key, value } of entityRows(store, LINKS)) {
      if (Date.parse((value as StoredLink).expires_at) > clock.now()) continue;
      await store.commit(undefined, [{ op: 'delete', space: LINKS, key }]);
      removed += 1;
    }
    return removed;
  }

  async #begin(ground: Ground, where: SigningIn, commitAs: CommitAs, also?: (along: Along) => void): Promise<Begun | undefined> {
    const { clock, maxMs } = this.#options;
    const now = clock.now();
    const session: StoredSession = {
      ...ground,
      id: uuidv7(now),
      made_at: timestamp(now),
      last_seen_at: timestamp(now),
      expires_at: timestamp(now + maxMs),
      address: where.address,
      ...(where.browser === undefined || where.browser === '' ? {} : { browser: shorten(where.browser.toWellFormed(), MOST_BROWSER) }),
    };
    const person = await this.#judged(session);
    if (person === undefined) return undefined;
    const value = newSecret();
    const dropped = this.#idlest(session.org_id);
    await this.#sessions.change(
      sha256Hex(value),
      (_none, along) => {
        also?.(along);
        along.effects.push(...dropped.map((hash) => this.#sessions.effect(hash, REMOVED)));
        return session;
      },
      { commit: commitAs(person.principal), object: session.id, ...(also && { conflict: () => new SpentLink() }) },
    );
    await Promise.all(dropped.map((hash) => this.#sessions.refresh(hash)));
    return { ...person, value };
  }

  /** Those that give way to a further one of an org: which nobody has used for longest. */
  #idlest(orgId: string | undefined): readonly string[] {
    const hashes = this.#sessions.keysOfOrg(orgId);
    if (hashes.length < MOST_OF_ORG) return [];
    const seen = (hash: string): string => this.#sessions.get(hash)?.last_seen_at ?? '';
    return hashes.toSorted((a, b) => (seen(a) < seen(b) ? -1 : 1)).slice(0, hashes.length + 1 - MOST_OF_ORG);
  }

  #isOver({ expires_at: end, last_seen_at: seen }: StoredSession): boolean {
    const { clock, idleMs } = this.#options;
    const now = clock.now();
    return Date.parse(end) <= now || Date.parse(seen) + idleMs <= now;
  }

  /**
   * Whether one that is not good here is good nowhere: another node of the store may have another admin token, and the
   * session be of that.
   */
  #isGone(stored: StoredSession): boolean {
    return stored.kind === 'management_key' || this.#isOver(stored);
  }

  /** Who it is; undefined: the session is over. */
  #judged(stored: StoredSession): Maybe<SignedInPerson | undefined> {
    const { keys } = this.#options;
    if (this.#isOver(stored)) return undefined;
    const session = withoutGround(stored);
    if (stored.kind === 'admin') {
      const isSame = this.#fingerprints.includes(stored.admin_fingerprint);
      return isSame ? { session, principal: { ...ADMIN, id: stored.id } } : undefined;
    }
    return when(keys.judgeNamed(stored.key_hash), (verdict) =>
      verdict.result === 'valid' ? { session, principal: principalOfSession(stored.id, verdict.key) } : undefined,
    );
  }

  async #groundOf(secret: string): Promise<Ground | undefined> {
    const { adminToken, keys } = this.#options;
    if (!secret.startsWith(MANAGEMENT_KEY_PREFIX)) return sameSecret(secret, adminToken) ? this.#adminGround() : undefined;
    const verdict = await keys.judge('management', secret);
    return verdict.result === 'valid' ? keyGround(verdict.key.id, verdict.key.org_id, sha256Hex(secret)) : undefined;
  }

  async #groundOfPrincipal({ kind, id, orgId }: Principal): Promise<Ground | undefined> {
    if (kind === 'admin') return this.#adminGround();
    if (kind !== 'management_key' || orgId === undefined) return undefined;
    const hash = await this.#options.keys.nameOf(id, orgId);
    return hash === undefined ? undefined : keyGround(id, orgId, hash);
  }

  #adminGround(): Ground {
    return { kind: 'admin', admin_fingerprint: this.#fingerprints[0] };
  }

  #touch(hash: string, { last_seen_at: seen }: StoredSession): void {
    const now = this.#options.clock.now();
    if (now - Date.parse(seen) < SEEN_MS) return;
    this.#beside(hash, () => this.#sessions.change(hash, (current) => current && { ...current, last_seen_at: timestamp(now) }));
  }

  /** Stores something of a session that nobody waits for, one thing at a time. */
  #beside(hash: string, change: () => Promise<unknown>): void {
    if (this.#touched.has(hash)) return;
    this.#touched.add(hash);
    change()
      .catch((error: unknown) => this.#options.log.debug({ err: error }, 'the use of a console session is not stored'))
      .finally(() => this.#touched.delete(hash));
  }
}

/** Somebody else was first. */
class SpentLink extends GatewayError {
  constructor() {
    super('conflict', 'This link was used already.');
  }
}

/** What the admin token may ask about one org, by a session. */
export const OF_ORGS: readonly Scope[] = ['read', 'write', 'review', 'decide'];

/** The admin token, whoever has signed in with it: that is all that is known of him. */
const ADMIN: Omit<Principal, 'id'> = { kind: 'session', session: { program: 'console' }, scopes: ['none', 'session', 'admin', 'org'] };

/** Who has signed in with a key is one person with it and with all that it has made. */
function principalOfSession(id: string, key: ManagementKey): Principal {
  const { scopes, madeBy, ...of } = principalOfKey(key);
  const person = of.session === undefined ? { madeBy: madeBy ?? key.id } : {};
  return { ...of, ...person, kind: 'session', id, userId: key.id, scopes: ['session', ...scopes] };
}

function keyGround(id: string, orgId: string, hash: string): Ground {
  return { kind: 'management_key', key_id: id, org_id: orgId, key_hash: hash };
}

function withoutGround(stored: StoredSession): ConsoleSession {
  if (stored.kind === 'admin') {
    const { admin_fingerprint: _fingerprint, ...session } = stored;
    return session;
  }
  const { key_hash: _hash, ...session } = stored;
  return session;
}

function newSecret(): string {
  return randomBytes(SECRET_BYTES).toString('base64url');
}
