import { parseTime } from '../base/lib/clock.ts';
import type { ApiKeyEntry } from '../control-plane/proto/messages.ts';
import type { FoundKey, LookedUpKeys } from '../services/people/looked-up-keys.ts';
import type { Channel, ControlPlaneLink, RemoteResource } from './link-ports.ts';

/**
 * The API keys of the org, which are looked up one by one (decision 13.10): what is fetched is that some have changed.
 */
export class RemoteApiKeys implements RemoteResource {
  readonly name = 'api_keys';
  readonly #keys: LookedUpKeys;

  constructor(keys: LookedUpKeys) {
    this.#keys = keys;
  }

  version(): string {
    return this.#keys.version;
  }

  fetch(): Promise<void> {
    return this.#keys.changed();
  }

  erase(): Promise<void> {
    return this.#keys.erase();
  }
}

/** Has keys looked up by this channel. @param orgId of this gateway: no key of another lets anybody in */
export function lookUpKeysBy(
  keys: LookedUpKeys,
  channel: Channel,
  { link, orgId }: { readonly link: ControlPlaneLink; readonly orgId: string },
): void {
  keys.attach({
    get reachable() {
      return link.contact.status === 'connected';
    },
    lookUp: async (hash) => {
      const { key, version } = await channel.call('LookUpApiKey', { key_hash: hash });
      return { key: key === null ? undefined : foundKey(key, orgId), version };
    },
  });
}

/** @throws Error for what cannot be believed: a key without an id, or with a time that is none */
function foundKey(
  { id, name, org_id: of, expires_at: expiresAt, revoked_at: revokedAt }: ApiKeyEntry,
  orgId: string,
): FoundKey | undefined {
  if (of !== orgId) return undefined;
  if (id === '') throw new Error('the control plane has told of an API key without an id');
  for (const time of [expiresAt, revokedAt])
    if (time !== '' && parseTime(time) === undefined) throw new Error(`the API key ${id} has a time that is none`);
  return {
    id,
    org_id: of,
    name,
    ...(expiresAt === '' ? {} : { expires_at: expiresAt }),
    ...(revokedAt === '' ? {} : { revoked_at: revokedAt }),
  };
}
