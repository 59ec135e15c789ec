import { isJsonObject } from '../base/json/json-object.ts';
import type { Logger } from '../base/lib/log.ts';
import type { AddonService } from '../services/policy/addons.ts';
import type { Store } from '../storage/contract/store.ts';
import type { Channel, RemoteResource } from './link-ports.ts';

/** By org: the version of its add-ons. */
export const REMOTE_ADDONS = 'remote_addons';

export interface RemoteAddonsOptions {
  readonly store: Store;
  readonly log: Logger;
  readonly addons: AddonService;
  /** Of this gateway. */
  readonly orgId: string;
}

/**
 * What the org has switched at its control plane (decision 13.9): it stands where an org of a free gateway has its own
 * switches, with the version in the same commit.
 */
export class RemoteAddons implements RemoteResource {
  readonly name = 'addons';
  readonly #options: RemoteAddonsOptions;
  #version: string;

  private constructor(options: RemoteAddonsOptions, version: string) {
    this.#options = options;
    this.#version = version;
  }

  static async open(options: RemoteAddonsOptions): Promise<RemoteAddons> {
    const found = await options.store.get(REMOTE_ADDONS, options.orgId);
    return new RemoteAddons(options, isJsonObject(found) && typeof found['version'] === 'string' ? found['version'] : '');
  }

  version(): string {
    return this.#version;
  }

  /** @throws ProtocolError; GatewayError for rules that do not load with these, then nothing has changed */
  async fetch(channel: Channel): Promise<void> {
    const { store, log, addons, orgId } = this.#options;
    const { version, addons: entries } = await channel.call('FetchAddons', {});
    const states = entries.map(({ id, enabled }) => ({ addon_id: id, enabled }));
    const unknown = await addons.replace(orgId, states, (_object, effects, expect) =>
      store.commit(undefined, [...effects, { op: 'put', space: REMOTE_ADDONS, key: orgId, value: { version } }], expect),
    );
    this.#version = version;
    if (unknown.length > 0)
      log.warn({ addons: unknown.slice(0, 16) }, 'the control plane switches add-ons that this version does not have');
  }
}
