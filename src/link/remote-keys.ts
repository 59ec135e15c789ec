import type { KeyObject } from 'node:crypto';
import { isJsonObject } from '../base/json/json-object.ts';
import type { KeyWindow } from '../ledger/key-window.ts';
import { type ListedKey, readKeys } from '../ledger/ledger-answers.ts';
import type { LedgerKeys } from '../ledger/merkle-root.ts';
import type { Store } from '../storage/contract/store.ts';
import type { Channel, RemoteResource } from './link-ports.ts';

/** The public keys of the control plane. */
export const REMOTE_KEYS = 'remote_keys';
const KEY = 'keys';
const USES = ['bundle', 'ledger'] as const satisfies readonly ListedKey['use'][];

type KeyStore = Pick<Store, 'get' | 'commit'>;
type ByUse = Readonly<Record<ListedKey['use'], LedgerKeys>>;

/** As the store keeps them. */
interface StoredKeys {
  readonly version: string;
  readonly keys: readonly unknown[];
  /** The CAs of the control plane, DER in base64; absent: of before they were kept. */
  readonly ca_certificates?: readonly string[];
}

/** The public keys of the control plane: what bundles and roots are believed by (decision 13.9). */
export class RemoteKeys implements RemoteResource {
  readonly name = 'keys';
  readonly #store: KeyStore;
  #version: string;
  #keys: ByUse;
  /** DER. */
  #cas: readonly Uint8Array[];
  #trust: (cas: readonly Uint8Array[]) => Promise<void> = () => Promise.resolve();

  private constructor(store: KeyStore, { version, keys, ca_certificates: cas = [] }: StoredKeys) {
    this.#store = store;
    this.#version = version;
    this.#keys = byUse(keys);
    this.#cas = cas.map((one) => Buffer.from(one, 'base64'));
  }

  /** With those that were fetched last. @throws LedgerError when what is stored cannot be read */
  static async open(store: KeyStore): Promise<RemoteKeys> {
    const found = await store.get(REMOTE_KEYS, KEY);
    const isThere = isJsonObject(found) && typeof found['version'] === 'string' && Array.isArray(found['keys']);
    if (!isThere) return new RemoteKeys(store, { version: '', keys: [] });
    const cas = Array.isArray(found['ca_certificates']) ? found['ca_certificates'].filter((one) => typeof one === 'string') : [];
    return new RemoteKeys(store, { version: String(found['version']), keys: found['keys'] as unknown[], ca_certificates: cas });
  }

  /** Told of the CAs of the control plane whenever they are fetched, DER; what it throws, a fetch does. */
  trustBy(trust: (cas: readonly Uint8Array[]) => Promise<void>): void {
    this.#trust = trust;
  }

  /** The CA that signs certificates of nodes, as was fetched last, DER; undefined: it is not known. */
  get signingCa(): Uint8Array | undefined {
    return this.#cas[0];
  }

  version(): string {
    return this.#version;
  }

  /** Undefined: there is no such key of this use. */
  find(use: ListedKey['use'], kid: string): KeyObject | undefined {
    return this.#keys[use].find(kid);
  }

  /** When it signs. */
  windowOf(use: ListedKey['use'], kid: string): KeyWindow {
    return this.#keys[use].windowOf(kid);
  }

  /** @throws ProtocolError; LedgerError for keys that cannot be read. Those that were there stay. */
  async fetch(channel: Pick<Channel, 'call'>): Promise<void> {
    const { version, keys: given, ca_certificates: cas } = await channel.call('FetchKeys', {});
    const keys = given.map(({ kid, alg, use, public_key: bytes, not_before: from, not_after: until }) => ({
      kid,
      alg,
      use,
      public_key: Buffer.from(bytes).toString('base64'),
      ...(from === '' ? {} : { not_before: from }),
      ...(until === '' ? {} : { not_after: until }),
    }));
    const read = byUse(keys);
    await this.#trust(cas);
    const stored: StoredKeys = { version, keys, ca_certificates: cas.map((one) => Buffer.from(one).toString('base64')) };
    await this.#store.commit(undefined, [{ op: 'put', space: REMOTE_KEYS, key: KEY, value: stored }]);
    this.#version = version;
    this.#keys = read;
    this.#cas = cas;
  }
}

function byUse(keys: readonly unknown[]): ByUse {
  const [bundle, ledger] = USES.map((use) => readKeys(keys, use));
  if (bundle === undefined || ledger === undefined) throw new TypeError('a use of keys is missing');
  return { bundle, ledger };
}
