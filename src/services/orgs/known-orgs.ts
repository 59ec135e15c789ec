import type { Store } from '../../storage/contract/store.ts';
import { entityRows } from '../../storage/contract/store-pages.ts';
import { orgOfEntity, SPACES_OF_ORGS } from './entity-org.ts';

/**
 * The orgs for which people have laid down something (a workload, a key, a limit, a credential and its kin), by
 * whichever writer of the store, and the gateway's own. An org that has nothing any more stays known until the next
 * start. Names that callers make up are none of them.
 */
export class KnownOrgs {
  readonly #orgs: Set<string>;

  private constructor(orgs: Set<string>) {
    this.#orgs = orgs;
  }

  /** @param own the gateway's own org @throws Error when the store cannot be read */
  static async open(store: Store, own: string): Promise<KnownOrgs> {
    const orgs = new Set(['default', own]);
    const learn = (space: string, key: string, value: unknown): void => {
      const org = value === undefined ? undefined : orgOfEntity(space, key, value);
      if (org !== undefined) orgs.add(org);
    };
    const readAll = async (space: string): Promise<void> => {
      for await (const { key, value } of entityRows(store, space)) learn(space, key, value);
    };
    for (const space of SPACES_OF_ORGS) {
      await store.watch(space, async (event) => {
        if (event.lost === true) await readAll(space);
        else learn(space, event.key, event.value);
      });
      await readAll(space);
    }
    return new KnownOrgs(orgs);
  }

  has(orgId: string): boolean {
    return this.#orgs.has(orgId);
  }
}
