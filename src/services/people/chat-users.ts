import { randomBytes } from 'node:crypto';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { sameSecret } from '../../base/lib/secret-box.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import { type ChatPerson, type ChatUser, chatUserId } from '../../base/model/chat-user.ts';
import type { Principal } from '../../base/model/principal.ts';
import type { Store } from '../../storage/contract/store.ts';
import { entityRows } from '../../storage/contract/store-pages.ts';
import type { Commit } from '../registers/commit.ts';
import { type Along, Register } from '../registers/register.ts';
import { entityWith } from '../registers/watched-space.ts';
import { type ManagementKeyService, principalOfKey } from './management-keys.ts';

export const CHAT_USERS = 'chat_user';
/** By the same key: what somebody has to show who says that a chat user is he. */
const LINKS = 'chat_link';
const LINK_MS = 10 * 60_000;
const CODE_BYTES = 32;

interface StoredChatUser extends ChatUser {
  /** By which the key is found. */
  readonly key_hash: string;
}

/** Waits to be used once. */
interface ChatLink extends ChatPerson {
  readonly code_hash: string;
  readonly expires_at: string;
}

/** Who presses a button in a chat. `void`: the key that he had bound lets nobody in any more. */
export type ChatHolder =
  | { readonly kind: 'bound'; readonly user: ChatUser; readonly principal: Principal }
  | { readonly kind: 'void'; readonly user: ChatUser }
  | { readonly kind: 'unbound' };

export interface ChatUserOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly keys: Pick<ManagementKeyService, 'nameOf' | 'judgeNamed'>;
}

/**
 * Users of chats who have proven to hold a management key (decision 9.8). Each has said so once, on a page of the
 * gateway, with the key and with a code that only this user was shown; from then on he is that key, as far as that key
 * goes and as long as it is good.
 */
export class ChatUserService {
  readonly #options: ChatUserOptions;
  readonly #users: Register<StoredChatUser>;

  private constructor(options: ChatUserOptions, users: Register<StoredChatUser>) {
    this.#options = options;
    this.#users = users;
  }

  static async open(options: ChatUserOptions): Promise<ChatUserService> {
    const users = await Register.open<StoredChatUser>(options.store, CHAT_USERS, {
      read: entityWith<StoredChatUser>('chat_user_id', 'org_id', 'key_hash'),
      orgOf: (user) => user.org_id,
    });
    return new ChatUserService(options, users);
  }

  /** Of an org, of every org without one, by their ids. */
  list(orgId?: string): readonly ChatUser[] {
    const found = orgId === undefined ? [...this.#users.values()] : this.#users.ofOrg(orgId);
    return found.map(shown).sort((a, b) => (a.chat_user_id < b.chat_user_id ? -1 : 1));
  }

  /** @param orgId undefined: of any org */
  get(id: string, orgId: string | undefined): ChatUser | undefined {
    const user = this.#users.get(id);
    return user === undefined || (orgId !== undefined && user.org_id !== orgId) ? undefined : shown(user);
  }

  /** Who this person of a chat is here. @throws GatewayError `key_lookup_failed` */
  async holderOf(person: ChatPerson): Promise<ChatHolder> {
    const stored = this.#users.get(chatUserId(person));
    if (stored === undefined) return { kind: 'unbound' };
    const verdict = await this.#options.keys.judgeNamed(stored.key_hash);
    const user = shown(stored);
    return verdict.result === 'valid' ? { kind: 'bound', user, principal: principalOfKey(verdict.key) } : { kind: 'void', user };
  }

  /**
   * Makes the code with which this person can be bound, once, within ten minutes; an earlier one counts no longer.
   * @returns the code, whose hash alone is kept
   */
  async invite(person: ChatPerson): Promise<string> {
    const { store, clock } = this.#options;
    const code = randomBytes(CODE_BYTES).toString('base64url');
    const link: ChatLink = { ...person, code_hash: sha256Hex(code), expires_at: timestamp(clock.now() + LINK_MS) };
    await store.commit(undefined, [{ op: 'put', space: LINKS, key: chatUserId(person), value: link }]);
    return code;
  }

  /** Whom a code is for. @throws GatewayError `not_found` for one that does not count */
  async invited(id: string, code: string): Promise<ChatPerson> {
    return (await this.#link(id, code)).person;
  }

  /**
   * Binds whom a code is for to the key that asks; the code is spent with it.
   * @param principal a management key @throws GatewayError `not_found` for a code that does not count, `conflict` for a
   * key that was revoked meanwhile, and for an account that is bound in another org
   */
  async bind(id: string, code: string, principal: Principal & { readonly orgId: string }, commit: Commit): Promise<ChatUser> {
    const { clock, keys } = this.#options;
    const { id: keyId, name = '', orgId } = principal;
    const hash = await keys.nameOf(keyId, orgId);
    if (hash === undefined) throw new GatewayError('conflict', 'This key is there no more.');
    const bound = await this.#users.change(
      id,
      async (before, { effects, expect }: Along) => {
        if (before !== undefined && before.org_id !== orgId)
          throw new GatewayError('conflict', 'This account is bound to a key of another org: it has to be removed there first.');
        const { person, version } = await this.#link(id, code);
        effects.push({ op: 'delete', space: LINKS, key: id });
        expect.push({ space: LINKS, key: id, version });
        const made = { org_id: orgId, key_id: keyId, key_name: name, key_hash: hash, created_at: timestamp(clock.now()) };
        return { chat_user_id: id, ...person, ...made };
      },
      { commit },
    );
    return shown(bound);
  }

  /** @param orgId undefined: of any org @returns false when there is none of this id */
  async remove(id: string, orgId: string | undefined, commit: Commit): Promise<boolean> {
    return this.get(id, orgId) !== undefined && this.#users.remove(id, { commit });
  }

  /** Removes codes that nobody has used in time. @returns how many */
  async removeBefore(epochMs: number): Promise<number> {
    const { store } = this.#options;
    const before = timestamp(epochMs);
    let removed = 0;
    for await (const { key, value } of entityRows(store, LINKS)) {
      if ((value as ChatLink).expires_at >= before) continue;
      await store.commit(undefined, [{ op: 'delete', space: LINKS, key }]);
      removed += 1;
    }
    return removed;
  }

  async #link(id: string, code: string): Promise<{ readonly person: ChatPerson; readonly version: string }> {
    const { store, clock } = this.#options;
    const found = await store.entity(LINKS, id);
    const link = found?.value as ChatLink | undefined;
    const isGood = link !== undefined && sameSecret(sha256Hex(code), link.code_hash) && Date.parse(link.expires_at) > clock.now();
    if (!isGood || found === undefined)
      throw new GatewayError('not_found', 'This link was used before, or its ten minutes are over. Press the button in the chat again.');
    const { code_hash: _hash, expires_at: _end, ...person } = link;
    return { person, version: found.version };
  }
}

function shown({ key_hash: _hash, ...user }: StoredChatUser): ChatUser {
  return user;
}
