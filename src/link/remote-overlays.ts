import { type KeyObject, verify } from 'node:crypto';
import { canonicalJson } from '../base/json/jcs.ts';
import { parseTime } from '../base/lib/clock.ts';
import { sha256Hex } from '../base/lib/sha256.ts';
import { decodeUtf8 } from '../base/lib/text.ts';
import type { SignedOverlay } from '../control-plane/proto/messages.ts';
import type { OrgOverlay } from '../services/policy/org-overlays.ts';
import type { PolicyService } from '../services/policy/policies.ts';
import { commitAlone } from '../services/registers/commit.ts';
import type { Store } from '../storage/contract/store.ts';
import type { FetchedVersions } from './fetched-versions.ts';
import type { Channel, RemoteResource } from './link-ports.ts';
import type { RemoteKeys } from './remote-keys.ts';

const NAME = 'overlays';
const SIGNED_OVERLAY = 'gw.signed_overlay.v1';

export interface RemoteOverlaysOptions {
  readonly store: Pick<Store, 'commit'>;
  readonly orgId: string;
  readonly versions: FetchedVersions;
  readonly policies: Pick<PolicyService, 'replaceOverlays'>;
  readonly keys: RemoteKeys;
}

/**
 * What the org lays over its bundle, as its control plane has it (decision 13.12): taken as a whole when each is signed
 * with a key for bundles. One that does not load here denies the requests of the org, as one that was put here would.
 */
export class RemoteOverlays implements RemoteResource {
  readonly name = NAME;
  readonly #options: RemoteOverlaysOptions;

  constructor(options: RemoteOverlaysOptions) {
    this.#options = options;
  }

  version(): string {
    return this.#options.versions.get(NAME);
  }

  async fetch(channel: Channel): Promise<void> {
    const { store, orgId, versions, policies, keys } = this.#options;
    const { version, overlays } = await channel.call('FetchOverlays', {});
    if (overlays.some(({ kid }) => keys.find('bundle', kid) === undefined)) await keys.fetch(channel);
    const read = overlays.map((one) => this.#read(one, keys.find('bundle', one.kid)));
    const commit = commitAlone(store);
    await policies.replaceOverlays(orgId, read, (object, effects, expect) =>
      commit(object, [...effects, versions.effect(NAME, version)], expect),
    );
    versions.took(NAME, version);
  }

  /** @throws Error that says which one is not taken */
  #read({ level, node_id: nodeId, bundle_yaml: bytes, put_at: putAt, signature }: SignedOverlay, key: KeyObject | undefined): OrgOverlay {
    const { orgId } = this.#options;
    const refused = (why: string): Error => new Error(`an overlay of the level ${JSON.stringify(level)} is not taken: ${why}`);
    if (key === undefined) throw refused('it is signed with a key that the control plane does not list for bundles');
    const signed = { schema: SIGNED_OVERLAY, org_id: orgId, level, node_id: nodeId, put_at: putAt, sha256: sha256Hex(bytes) };
    if (!verify(undefined, Buffer.from(canonicalJson(signed)), key, signature)) throw refused('its signature does not hold');
    const text = decodeUtf8(bytes);
    const at = parseTime(putAt);
    if (typeof text !== 'string' || at === undefined || (level !== 'org' && level !== 'node')) throw refused('it is no overlay');
    return { org_id: orgId, level, ...(level === 'node' ? { node_id: nodeId } : {}), bundle_yaml: text, put_at: at };
  }
}
