import type { Store } from '../storage/contract/store.ts';
import { orgOfEntity, SPACES_OF_ORGS } from './entity-org.ts';

const PAGE = 1_000;

/**
 * The orgs for which people have laid down something (a workload, a key, a limit, a credential and its kin), by whichever writer of the store, and the gateway's own. An
 * org that has nothing any more stays known until the next start. Names that callers make up are none of them.
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
      for (let after: string | undefined; ; ) {
        const page = await store.list(space, { limit: PAGE, ...(after === undefined ? {} : { after }) });
        for (const { key, value } of page) learn(space, key, value);
        after = page.at(-1)?.key;
        if (page.length < PAGE) return;
      }
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
