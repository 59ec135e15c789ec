import type { Effect, Store } from '../storage/contract/store.ts';
import type { RemoteName } from './link-ports.ts';

/** By what they are versions of. */
export const FETCHED_VERSIONS = 'remote_version';

interface StoredVersion {
  /** Whose version it is: another control plane, or another org, has others. */
  readonly from: string;
  readonly version: string;
}

/**
 * The versions of what was last taken from the control plane. Each is stored in the commit of what it is the version
 * of.
 */
export class FetchedVersions {
  readonly #from: string;
  readonly #versions = new Map<string, string>();

  private constructor(from: string) {
    this.#from = from;
  }

  /** @param from names the control plane and the org */
  static async open(store: Pick<Store, 'list'>, from: string): Promise<FetchedVersions> {
    const fetched = new FetchedVersions(from);
    for (const { key, value } of await store.list(FETCHED_VERSIONS)) {
      const { from: of, version } = value as StoredVersion;
      if (of === from) fetched.#versions.set(key, version);
    }
    return fetched;
  }

  /** Empty: nothing was ever taken. */
  get(name: RemoteName): string {
    return this.#versions.get(name) ?? '';
  }

  /** What stores a version; once that is committed, {@link took} is told. An empty one: nothing is there any more. */
  effect(name: RemoteName, version: string): Effect {
    return { op: 'put', space: FETCHED_VERSIONS, key: name, value: { from: this.#from, version } satisfies StoredVersion };
  }

  took(name: RemoteName, version: string): void {
    this.#versions.set(name, version);
  }
}
