import type { Maybe } from '../../base/lib/maybe.ts';
import { MANAGEMENT_KEY_PREFIX, MCP_KEY_PREFIX } from '../../base/lib/own-tokens.ts';
import { type KeyScope, type ManagementKey, type ManagementKeyKind, openedBy } from '../../base/model/keys.ts';
import type { AdminSession, Principal, Scope } from '../../base/model/principal.ts';
import type { Commit } from '../registers/commit.ts';
import { type Forgetting, HashedKeys, type HashedKeysOptions, type HashedKeyVerdict, type NewIssuedKey } from './hashed-keys.ts';

export const MANAGEMENT_KEYS = 'management_key';
const SHOWN_CHARS = 16;
const PREFIXES: Readonly<Record<ManagementKeyKind, string>> = { management: MANAGEMENT_KEY_PREFIX, mcp: MCP_KEY_PREFIX };

export type ManagementKeyVerdict = HashedKeyVerdict<ManagementKey>;

export interface NewManagementKey extends NewIssuedKey {
  readonly kind: ManagementKeyKind;
  readonly scopes: readonly KeyScope[];
  /** The first of the keys that have made it; undefined: the admin token has. */
  readonly madeBy?: string | undefined;
  /** Of approvers. */
  readonly groups?: readonly string[];
  /** For a program that works with the admin token. */
  readonly session?: AdminSession;
}

/** Keys of people and assistants that manage an org (specification, "Authentication" 4). */
export class ManagementKeyService {
  readonly #keys: HashedKeys<ManagementKey>;

  private constructor(keys: HashedKeys<ManagementKey>) {
    this.#keys = keys;
  }

  static async open(options: Pick<HashedKeysOptions, 'store' | 'clock'>): Promise<ManagementKeyService> {
    return new ManagementKeyService(await HashedKeys.open<ManagementKey>({ ...options, space: MANAGEMENT_KEYS, shownChars: SHOWN_CHARS }));
  }

  /** Judges a key of this kind; one of the other kind is as unknown. At once when it is one in use. */
  judge(kind: ManagementKeyKind, presented: string): Maybe<ManagementKeyVerdict> {
    return presented.startsWith(PREFIXES[kind]) ? this.#keys.judge(presented) : { result: 'invalid_key' };
  }

  /** What names a key of an org to {@link judgeNamed}, so that nobody has to have it; undefined: there is none. */
  nameOf(id: string, orgId: string): Promise<string | undefined> {
    return this.#keys.hashOf(id, orgId);
  }

  /** Judges a key that {@link nameOf} has named. @throws GatewayError `key_lookup_failed` */
  judgeNamed(name: string): Maybe<ManagementKeyVerdict> {
    return this.#keys.judgeHash(name);
  }

  /** Makes a key; its plain text is returned this once. */
  async create(
    { kind, scopes, madeBy, groups, session, ...asked }: NewManagementKey,
    commit?: Commit,
  ): Promise<{ plain: string; key: ManagementKey }> {
    const inGroups = groups?.length ? { groups: [...new Set(groups)] } : {};
    const own = { kind, scopes, ...(madeBy && { made_by: madeBy }), ...inGroups, ...(session && { session }) };
    const made = await this.#keys.create(PREFIXES[kind], asked, (key) => ({ ...key, ...own }), commit);
    // Those of programs that were killed before they could revoke them.
    if (session !== undefined) await this.#keys.forgetExpired(asked.orgId, (key) => key.session !== undefined);
    return made;
  }

  /** Keys of an org, of every org without one, that were not revoked; the oldest first. */
  async list(orgId?: string): Promise<readonly ManagementKey[]> {
    return (await this.#keys.list(orgId)).filter(({ revoked_at: at }) => at === undefined);
  }

  /** From the next request on the key lets nobody in. False when the org has no such key, or it was revoked before. */
  async revoke(id: string, orgId: string | undefined, commit?: Commit, forgetting?: Forgetting<ManagementKey>): Promise<boolean> {
    return (await this.#keys.revoke(id, orgId, commit, forgetting))?.isNews === true;
  }
}

/** Who asks by a key that is good. */
export function principalOfKey({
  id,
  kind,
  name,
  org_id: orgId,
  scopes: held,
  session,
  groups,
  made_by: madeBy,
}: ManagementKey): Principal {
  const scopes: readonly Scope[] = ['none', ...(kind === 'mcp' ? (['mcp'] as const) : []), ...openedBy(held)];
  const own = { ...(name === '' ? {} : { name }), ...(session && { session }), ...(groups && { groups }), ...(madeBy && { madeBy }) };
  return { kind: kind === 'mcp' ? 'mcp_key' : 'management_key', id, ...own, orgId, scopes };
}
