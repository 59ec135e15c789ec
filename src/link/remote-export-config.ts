import { isJsonObject } from '../base/json/json-object.ts';
import { commitAlone } from '../services/registers/commit.ts';
import type { GivenDestination } from '../services/sending/exports/export-destinations.ts';
import type { ExportService } from '../services/sending/exports/export-service.ts';
import type { Store } from '../storage/contract/store.ts';
import { allPages, checkedEntries, entryJson } from './all-pages.ts';
import type { FetchedVersions } from './fetched-versions.ts';
import type { Channel, RemoteResource } from './link-ports.ts';
import { requireOrg } from './require-org.ts';

const NAME = 'export_config';

export interface RemoteExportConfigOptions {
  readonly store: Pick<Store, 'commit'>;
  readonly orgId: string;
  readonly nodeId: string;
  readonly versions: FetchedVersions;
  readonly exports: Pick<ExportService, 'check' | 'replaceAll'>;
  /**
   * By the rules of the management API, but for the config, which the service judges.
   * @throws GatewayError; no message repeats a secret
   */
  readonly parse: (body: unknown) => GivenDestination;
}

/**
 * Where the events of the org go from this node, as its control plane has it (specification, "Export destination";
 * decision 13.10).
 */
export class RemoteExportConfig implements RemoteResource {
  readonly name = NAME;
  readonly #options: RemoteExportConfigOptions;

  constructor(options: RemoteExportConfigOptions) {
    this.#options = options;
  }

  version(): string {
    return this.#options.versions.get(NAME);
  }

  async fetch(channel: Channel): Promise<void> {
    const { store, orgId, nodeId, versions, exports } = this.#options;
    let inherits = true;
    const { version, entries } = await allPages('export destinations', async (cursor) => {
      const page = await channel.call('FetchExportConfig', { cursor });
      inherits = page.inherit_org_defaults;
      return { version: page.version, entries: page.destinations, next: page.next_cursor };
    });
    const all = checkedEntries(
      'export destination',
      entries.map((text) => entryJson('export destination', text)),
      {
        idOf: (body) => (isJsonObject(body) ? body['id'] : undefined),
        check: (body) => this.#given(body),
        keyOf: ({ id }) => id,
      },
    );
    const destinations = all.filter(({ node_id: of }) => of === undefined || of === nodeId);
    const commit = commitAlone(store);
    await exports.replaceAll(orgId, { destinations, inherits }, (object, effects) =>
      commit(object, [...effects, versions.effect(NAME, version)]),
    );
    versions.took(NAME, version);
  }

  #given(body: unknown): GivenDestination {
    const { orgId, parse, exports } = this.#options;
    const given = parse(requireOrg(body, orgId));
    exports.check(given);
    return given;
  }
}
