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
}

/** The public keys of the control plane: what bundles and roots are believed by (decision 13.9). */
export class RemoteKeys implements RemoteResource {
  readonly name = 'keys';
  readonly #store: KeyStore;
  #version: string;
  #keys: ByUse;
  #trust: (cas: readonly Uint8Array[]) => Promise<void> = () => Promise.resolve();

  private constructor(store: KeyStore, { version, keys }: StoredKeys) {
    this.#store = store;
    this.#version = version;
    this.#keys = byUse(keys);
  }

  /** With those that were fetched last. @throws LedgerError when what is stored cannot be read */
  static async open(store: KeyStore): Promise<RemoteKeys> {
    const found = await store.get(REMOTE_KEYS, KEY);
    const isThere = isJsonObject(found) && typeof found['version'] === 'string' && Array.isArray(found['keys']);
    return new RemoteKeys(
      store,
      isThere ? { version: String(found['version']), keys: found['keys'] as unknown[] } : { version: '', keys: [] },
    );
  }

  /** Told of the CAs of the control plane whenever they are fetched, DER; what it throws, a fetch does. */
  trustBy(trust: (cas: readonly Uint8Array[]) => Promise<void>): void {
    this.#trust = trust;
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
    const stored: StoredKeys = { version, keys };
    await this.#store.commit(undefined, [{ op: 'put', space: REMOTE_KEYS, key: KEY, value: stored }]);
    this.#version = version;
    this.#keys = read;
  }
}

function byUse(keys: readonly unknown[]): ByUse {
  const [bundle, ledger] = USES.map((use) => readKeys(keys, use));
  if (bundle === undefined || ledger === undefined) throw new TypeError('a use of keys is missing');
  return { bundle, ledger };
}
