import { isDeepStrictEqual } from 'node:util';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Logger } from '../../base/lib/log.ts';
import { Lru } from '../../base/lib/lru.ts';
import { SealError, type Sealed, type SecretBox } from '../../base/lib/secret-box.ts';
import type { Credential } from '../../base/model/keys.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import { type AlsoChanged, type Commit, commitInParts } from '../registers/commit.ts';
import { type CredentialName, credentialKey, secretContext } from '../registers/org-key.ts';
import { type Along, REMOVED, Register } from '../registers/register.ts';
import {
  ENV,
  invalid,
  isAlias,
  type OpenedCredential,
  requireSame,
  requireScoped,
  type ShownCredential,
  type StoredCredential,
  saysSecret,
  shown,
  sourceOf,
  storedCredential,
} from './stored-credential.ts';

/** What can stand in a header (RFC 9110 §5.5) without spaces around it. */
const KEY = /^[\u0021-\u007e](?:[\u0020-\u007e]*[\u0021-\u007e])?$/;
/** Entities of this space hold a credential and, sealed, its secret. */
export const CREDENTIALS = 'credential';
/** Lists by org and connector that are kept ready; orgs may be named by callers. */
const LISTS = 1_000;

/**
 * What is written to a credential. An update with a `secret_ref` replaces it; one without keeps the secret, and with it
 * every member that is left out.
 */
export type CredentialChange = Omit<Credential, 'created_at' | 'updated_at' | 'node_ids' | 'type' | 'distribution'> & {
  readonly type?: Credential['type'];
  readonly distribution?: Credential['distribution'];
  /** The secret itself, or `env:NAME`. */
  readonly secret_ref?: string;
};

/** A credential as somebody who owns all of them gives it, whatever was there before. */
export type GivenCredential = CredentialChange & Pick<Credential, 'node_ids'>;

export interface CredentialServiceOptions {
  readonly store: Store;
  readonly box: SecretBox;
  readonly clock: Clock;
  readonly log: Logger;
  readonly nodeId: string;
  /** Looks an environment variable up. */
  readonly environment: (name: string) => string | undefined;
}

/** Whether a text can be the key of a call. */
export function isKeyText(text: string): boolean {
  return KEY.test(text);
}

/**
 * Stored credentials (specification, "Credential"; decisions 6.6, 6.9, 8.11). Secrets are sealed at rest and open in
 * memory only; nothing returns them but
 * {@link secretOf}, which the path of a call asks. Each org has ids of its own: what another calls its credentials is
 * neither in its way nor told to it.
 */
export class CredentialService {
  readonly #options: CredentialServiceOptions;
  readonly #entries: Register<OpenedCredential, StoredCredential>;
  readonly #lists: Lru<string, readonly Credential[]>;

  private constructor(
    options: CredentialServiceOptions,
    entries: Register<OpenedCredential, StoredCredential>,
    lists: Lru<string, readonly Credential[]>,
  ) {
    this.#options = options;
    this.#entries = entries;
    this.#lists = lists;
  }

  static async open(options: CredentialServiceOptions): Promise<CredentialService> {
    const { store } = options;
    const moves: Effect[][] = [];
    for (const { key, value } of await store.list(CREDENTIALS)) {
      const found = storedCredential(value);
      const next = found === undefined ? key : credentialKey(found.credential);
      const at = { space: CREDENTIALS, key };
      // Before, all orgs shared one space of ids.
      if (next !== key)
        moves.push([
          { op: 'put', ...at, key: next, value },
          { op: 'delete', ...at },
        ]);
    }
    await commitInParts(store, moves);
    const lists = new Lru<string, readonly Credential[]>({ max: LISTS });
    const entries = await Register.openSealed<OpenedCredential, StoredCredential>(store, CREDENTIALS, {
      stored: storedCredential,
      opened: (stored) => ({ ...stored, secret: secretOf(stored, options) }),
      changed: () => lists.clear(),
    });
    return new CredentialService(options, entries, lists);
  }

  /** In the order of their ids. */
  list(): readonly ShownCredential[] {
    return [...this.#entries.values()].map(shown).sort((a, b) => (a.credential_id < b.credential_id ? -1 : 1));
  }

  /** What an org may name: its own, and those of every org whose id it does not have itself. */
  usableBy(orgId: string): readonly ShownCredential[] {
    return this.list().filter(
      (one) => this.#of(orgId, one.credential_id)?.credential === this.#entries.get(credentialKey(one))?.credential,
    );
  }

  /** What an org means by an id: its own, else one that is there for every org. */
  get(orgId: string, credentialId: string): ShownCredential | undefined {
    const entry = this.#of(orgId, credentialId);
    return entry && shown(entry);
  }

  #of(orgId: string, credentialId: string): OpenedCredential | undefined {
    return this.#entries.get(credentialKey({ org_id: orgId, credential_id: credentialId })) ?? this.#entries.get(credentialId);
  }

  /**
   * The one that an admin means: of the org that he names, or one that is there for every org, else the only one of
   * this id.
   * @throws GatewayError `conflict` where several orgs have one and none is named
   */
  named(credentialId: string, orgId: string | undefined): ShownCredential | undefined {
    const entry = this.#named(credentialId, orgId);
    return entry && shown(entry);
  }

  #named(credentialId: string, orgId: string | undefined): OpenedCredential | undefined {
    if (orgId !== undefined) return this.#entries.get(credentialKey({ org_id: orgId, credential_id: credentialId }));
    const shared = this.#entries.get(credentialId);
    if (shared !== undefined) return shared;
    const all = [...this.#entries.values()].filter(({ credential }) => credential.credential_id === credentialId);
    if (all.length > 1)
      throw new GatewayError('conflict', `${all.length} orgs have a credential ${credentialId}: say by org_id which is meant.`);
    return all[0];
  }

  /** True when the id is one that this org may name. */
  isStored(orgId: string, credentialId: string): boolean {
    return this.#of(orgId, credentialId)?.credential.type === 'ai_provider';
  }

  /**
   * Aliases of an org for a connector that have a secret and are on this node, in the order of their ids. The same list
   * until something changes.
   */
  usable(orgId: string, connectorId: string): readonly Credential[] {
    if (this.#entries.size === 0) return NONE;
    const key = `${connectorId}\n${orgId}`;
    const known = this.#lists.get(key);
    if (known) return known;
    const found = [...this.#entries.values()].filter((entry) => isAlias(entry) && this.#isFor(entry.credential, orgId, connectorId));
    const list = found.map(({ credential }) => credential).sort((a, b) => (a.credential_id < b.credential_id ? -1 : 1));
    this.#lists.set(key, list);
    return list;
  }

  /** True when any org has a usable credential for the connector. */
  covers(connectorId: string): boolean {
    for (const entry of this.#entries.values()) {
      const { connector_id: of, type } = entry.credential;
      if (isAlias(entry) && of === connectorId && type === 'ai_provider') return true;
    }
    return false;
  }

  /** For the header of a forwarded call of this org and nothing else: of an alias. */
  secretOf(orgId: string, credentialId: string): string | undefined {
    const entry = this.#of(orgId, credentialId);
    return entry !== undefined && isAlias(entry) ? entry.secret : undefined;
  }

  /**
   * Creates or updates one.
   * @throws GatewayError `invalid_request` for an alias without a secret or a variable that is not set,
   * `INVALID_ARGUMENT` for a changed distribution (decision 8.11)
   */
  async put(change: CredentialChange, commit?: Commit): Promise<ShownCredential> {
    const { org_id: orgId = this.#before(change)?.credential.org_id, credential_id: id } = change;
    return this.#write(orgId === undefined ? { credential_id: id } : { org_id: orgId, credential_id: id }, () => change, commit);
  }

  /**
   * Creates or updates one, from the state that `next` has seen.
   * @param next gives the change, from what is shown of the one that the org means by this id; asked again when another
   * writer was first
   * @throws GatewayError as {@link put}, what `next` throws
   */
  change(
    name: CredentialName & { readonly org_id: string },
    next: (current: ShownCredential | undefined) => CredentialChange,
    commit: Commit,
  ): Promise<ShownCredential> {
    return this.#write(name, () => next(this.get(name.org_id, name.credential_id)), commit);
  }

  async #write(name: CredentialName, next: () => CredentialChange, commit: Commit | undefined): Promise<ShownCredential> {
    const key = credentialKey(name);
    const gone = this.#goneBy(name);
    const write = async (_current: StoredCredential | undefined, { effects }: Along): Promise<StoredCredential> => {
      await this.#entries.refresh(key);
      if (gone !== undefined) effects.push(this.#entries.effect(gone, REMOVED));
      return this.#changed(next());
    };
    const value = await this.#entries.change(key, write, { commit, object: name.credential_id });
    if (gone !== undefined) await this.#entries.refresh(gone);
    return shown(value);
  }

  /** The key of one that was there for every org and is of one org with this change: it goes with what it was. */
  #goneBy({ org_id: orgId, credential_id: id }: CredentialName): string | undefined {
    if (orgId === undefined || this.#entries.has(credentialKey({ org_id: orgId, credential_id: id }))) return undefined;
    return this.#entries.has(id) ? id : undefined;
  }

  /** Creates or updates several in one write, all of them or none. @throws as {@link put} */
  async putAll(changes: readonly CredentialChange[], commit?: Commit): Promise<void> {
    const values = changes.map((change) => this.#changed(change));
    const writes = values.flatMap((value): readonly (readonly [string, StoredCredential | typeof REMOVED])[] => {
      const gone = this.#goneBy(value.credential);
      return [[credentialKey(value.credential), value], ...(gone === undefined ? [] : [[gone, REMOVED] as const])];
    });
    if (writes.length > 0) await this.#entries.changeAll(new Map(writes), { commit });
  }

  /**
   * These are all credentials from now on, of every org, in one commit; one that is as it was stays untouched.
   * @param commit is given what is to be stored, and stores it with whatever belongs to it
   * @throws GatewayError `invalid_request` for an alias without a secret
   */
  async replaceAll(given: readonly GivenCredential[], commit?: Commit): Promise<void> {
    const changes = new Map<string, StoredCredential | typeof REMOVED>();
    for (const key of this.#entries.keys()) changes.set(key, REMOVED);
    for (const one of given) {
      const value = this.#given(one);
      const key = credentialKey(value.credential);
      if (value === this.#entries.get(key)) changes.delete(key);
      else changes.set(key, value);
    }
    await this.#entries.changeAll(changes, { commit });
  }

  /** @throws GatewayError `invalid_request` for one that {@link replaceAll} would not take */
  checkGiven({ mode, secret_ref: secretRef }: GivenCredential): void {
    if (mode === 'alias' && secretRef === undefined) throw invalid('secret_ref', 'is needed for an alias: the secret, or env:NAME');
  }

  /** The entry itself when it is as it was. */
  #given(given: GivenCredential): StoredCredential {
    const { secret_ref: secretRef, ...rest } = given;
    const id = rest.credential_id;
    this.checkGiven(given);
    const before = this.#entries.get(credentialKey(rest));
    const now = timestamp(this.#options.clock.now());
    const credential: Credential = {
      ...rest,
      type: rest.type ?? 'ai_provider',
      distribution: rest.distribution ?? 'org_wide',
      created_at: before?.credential.created_at ?? now,
      updated_at: before?.credential.updated_at ?? now,
    };
    if (before !== undefined && isDeepStrictEqual(credential, before.credential) && saysSecret(before, secretRef)) return before;
    return { credential: { ...credential, updated_at: now }, ...(secretRef === undefined ? {} : this.#sourceFrom(id, secretRef)) };
  }

  /**
   * Changes nothing.
   * @param isForHere false: it is for the gateways of a control plane, any of which may have the variable that it names
   * (decision 13.10)
   * @throws as {@link put} would
   */
  check(change: CredentialChange, isForHere = true): void {
    this.#changed(change, isForHere);
  }

  #changed(change: CredentialChange, isForHere = true): StoredCredential {
    const { secret_ref: secretRef, ...rest } = change;
    const before = this.#before(change);
    if (before && change.distribution !== undefined) requireSame(before.credential, change.distribution);
    if (before && change.connector_id !== before.credential.connector_id && secretRef === undefined) {
      throw invalid('secret_ref', 'is needed when the connector changes: a secret goes to its own connector only');
    }
    if (secretRef !== undefined && isForHere) this.#requireSet(secretRef);
    const secret = secretRef === undefined ? sourceOf(before) : this.#sourceFrom(change.credential_id, secretRef);
    if (change.mode === 'alias' && secret.env === undefined && secret.sealed === undefined) {
      throw invalid('secret_ref', 'is needed for an alias: the secret, or env:NAME');
    }
    const now = timestamp(this.#options.clock.now());
    // What a secret that stays is bound to (its org, its hosts) must not fall away because somebody left it out.
    const credential: Credential = {
      ...(secretRef === undefined ? before?.credential : {}),
      ...rest,
      type: change.type ?? before?.credential.type ?? 'ai_provider',
      distribution: change.distribution ?? before?.credential.distribution ?? 'org_wide',
      ...(before?.credential.node_ids ? { node_ids: before.credential.node_ids } : {}),
      created_at: before?.credential.created_at ?? now,
      updated_at: now,
    };
    return { credential, ...secret };
  }

  /** What a change is made of: who names no org, and gives no other secret, means the one that is there. */
  #before({ org_id: orgId, credential_id: id, secret_ref: secretRef }: CredentialChange): OpenedCredential | undefined {
    if (orgId !== undefined) return this.#of(orgId, id);
    return secretRef === undefined ? this.#named(id, undefined) : this.#entries.get(id);
  }

  /**
   * Assigns nodes to a `node_scoped` credential. Undefined when it is unknown.
   * @throws GatewayError `INVALID_ARGUMENT` for an `org_wide` one
   */
  async assign(of: CredentialName, nodeIds: readonly string[], commit?: Commit): Promise<ShownCredential | undefined> {
    const next = (before: StoredCredential | undefined): StoredCredential | undefined => {
      if (before === undefined) return undefined;
      requireScoped(before.credential);
      return this.#amended(before, { node_ids: nodeIds });
    };
    const value = await this.#entries.change(credentialKey(of), next, { commit, object: of.credential_id });
    return value && shown(value);
  }

  /**
   * Changes what can be changed of one that stays: its name, and its nodes. What is undefined stays.
   * @throws GatewayError `not_found`; `INVALID_ARGUMENT` for nodes of an `org_wide` one
   */
  async amend(
    of: CredentialName,
    { name, node_ids: nodes }: { readonly [K in 'name' | 'node_ids']?: Credential[K] | undefined },
    commit?: Commit,
  ): Promise<ShownCredential> {
    const next = (before: StoredCredential | undefined): StoredCredential => {
      if (before === undefined) throw new GatewayError('not_found', `There is no credential ${of.credential_id}.`);
      if (nodes !== undefined) requireScoped(before.credential);
      return this.#amended(before, { ...(name === undefined ? {} : { name }), ...(nodes === undefined ? {} : { node_ids: nodes }) });
    };
    return shown(await this.#entries.change(credentialKey(of), next, { commit, object: of.credential_id }));
  }

  #amended(before: StoredCredential, change: Partial<Pick<Credential, 'name' | 'node_ids'>>): StoredCredential {
    return { credential: { ...before.credential, ...change, updated_at: timestamp(this.#options.clock.now()) }, ...sourceOf(before) };
  }

  /** Those that are for this connector, of whichever org. */
  namesFor(connectorId: string): readonly CredentialName[] {
    return [...this.#entries.values()].flatMap(({ credential }) => (credential.connector_id === connectorId ? [credential] : []));
  }

  /** What takes these away, secrets included; {@link refresh} brings it in once it is stored. */
  removalOf(names: readonly CredentialName[]): readonly AlsoChanged[] {
    return names.map((name) => ({
      operation: 'credentials.remove',
      object: name.credential_id,
      effects: [this.#entries.effect(credentialKey(name), REMOVED)],
    }));
  }

  /** Brings in what was stored of these. */
  async refresh(names: readonly CredentialName[]): Promise<void> {
    await Promise.all(names.map((name) => this.#entries.refresh(credentialKey(name))));
  }

  /** False when there is none. */
  remove(name: CredentialName, commit?: Commit): Promise<boolean> {
    return this.#entries.remove(credentialKey(name), { commit, object: name.credential_id });
  }

  #isFor(credential: Credential, orgId: string, connectorId: string): boolean {
    if (credential.connector_id !== connectorId || credential.type !== 'ai_provider') return false;
    if (this.#of(orgId, credential.credential_id)?.credential !== credential) return false;
    return credential.distribution === 'org_wide' || credential.node_ids?.includes(this.#options.nodeId) === true;
  }

  #sourceFrom(credentialId: string, secretRef: string): { env?: string; sealed?: Sealed } {
    if (secretRef.startsWith(ENV)) return { env: secretRef.slice(ENV.length) };
    return { sealed: this.#options.box.seal(secretRef, secretContext(credentialId)) };
  }

  /**
   * A variable that is named is there now, or the name is a mistake (decision 6.6).
   * @throws GatewayError `invalid_request` that names it, never its value
   */
  #requireSet(secretRef: string): void {
    if (!secretRef.startsWith(ENV)) return;
    const value = this.#options.environment(secretRef.slice(ENV.length));
    if (value === undefined) throw invalid('secret_ref', `names ${secretRef}, and this gateway has no such environment variable`);
    if (!isKeyText(value)) throw invalid('secret_ref', `names ${secretRef}, whose value cannot stand in a header`);
  }
}

/** The secret of a credential; undefined: it has none, or it cannot be read. */
function secretOf({ credential, env, sealed }: StoredCredential, { environment, box, log }: CredentialServiceOptions): string | undefined {
  const about = { credential_id: credential.credential_id };
  if (env !== undefined) {
    const value = environment(env);
    if (value === undefined) log.warn({ ...about, variable: env }, 'the environment variable that holds a credential is not set');
    return value;
  }
  if (sealed === undefined) return undefined;
  try {
    return box.open(sealed, secretContext(credential.credential_id)).toString();
  } catch (error) {
    if (!(error instanceof SealError)) throw error;
    log.error({ ...about, err: error }, 'a stored credential cannot be opened; was GW_SECRETS_KEY changed?');
    return undefined;
  }
}

const NONE: readonly Credential[] = [];
