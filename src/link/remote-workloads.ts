import { isJsonObject } from '../base/json/json-object.ts';
import type { Workload } from '../base/model/workload.ts';
import type { WorkloadService } from '../services/people/workloads.ts';
import { commitAlone } from '../services/registers/commit.ts';
import type { Store } from '../storage/contract/store.ts';
import { allPages, checkedEntries, entryJson } from './all-pages.ts';
import type { FetchedVersions } from './fetched-versions.ts';
import type { Channel, RemoteResource } from './link-ports.ts';
import { requireOrg } from './require-org.ts';

const NAME = 'workloads';

export interface RemoteWorkloadsOptions {
  readonly store: Pick<Store, 'commit'>;
  readonly orgId: string;
  readonly versions: FetchedVersions;
  readonly workloads: Pick<WorkloadService, 'replaceAll'>;
  /** By the rules of the admin API. @throws GatewayError */
  readonly parse: (body: unknown) => Workload;
}

/** The workloads of the org, as its control plane has them (decision 13.10). Their tokens are the gateway's own. */
export class RemoteWorkloads implements RemoteResource {
  readonly name = NAME;
  readonly #options: RemoteWorkloadsOptions;

  constructor(options: RemoteWorkloadsOptions) {
    this.#options = options;
  }

  version(): string {
    return this.#options.versions.get(NAME);
  }

  async fetch(channel: Channel): Promise<void> {
    const { store, orgId, versions, workloads, parse } = this.#options;
    const { version, entries } = await allPages(NAME, async (cursor) => {
      const page = await channel.call('FetchWorkloads', { cursor });
      return { version: page.version, entries: page.workloads, next: page.next_cursor };
    });
    const all = checkedEntries(
      'workload',
      entries.map((text) => entryJson('workload', text)),
      {
        idOf: (body) => (isJsonObject(body) ? body['workload_id'] : undefined),
        check: (body): Workload => ({ ...parse(requireOrg(body, orgId)), org_id: orgId }),
        keyOf: ({ workload_id: id }) => id,
      },
    );
    const commit = commitAlone(store);
    await workloads.replaceAll(all, (object, effects) => commit(object, [...effects, versions.effect(NAME, version)]));
    versions.took(NAME, version);
  }
}
