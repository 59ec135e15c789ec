import { hostname } from 'node:os';
import { isJsonObject } from '../../base/json/json-object.ts';
import { type Clock, systemClock, timestamp } from '../../base/lib/clock.ts';
import type { KeyScope } from '../../base/model/management-key.ts';
import { Unusable } from '../command.ts';
import type { GatewayClient } from '../gateway-client.ts';

/** Should nobody come to revoke it, it does not live longer. */
const LIFE_MS = 300_000;
const PATH = '/v1/admin/mgmt-keys';

export interface ShortLivedKeyOptions {
  readonly orgId: string;
  readonly scopes: readonly KeyScope[];
  /** Who has it, for the list of keys and the audit trail. */
  readonly holder: string;
  readonly clock?: Clock;
}

/**
 * Does something with a management key that is made for it by the admin token, and revoked afterwards, also when it fails: the token itself opens nothing
 * of the management API (decisions 10.1, 10.14).
 * @throws Unusable, GatewayRefusal when no key is given, or the key cannot be revoked; and what `use` throws
 */
export async function withShortLivedKey<T>(
  admin: GatewayClient,
  { orgId, scopes, holder, clock = systemClock }: ShortLivedKeyOptions,
  use: (key: string) => Promise<T>,
): Promise<T> {
  const made = await admin.json('POST', PATH, {
    org_id: orgId,
    name: `${holder} on ${hostname()}`,
    kind: 'management',
    scopes,
    expires_at: timestamp(clock.now() + LIFE_MS),
  });
  const { id, key } = isJsonObject(made) ? made : {};
  if (typeof id !== 'string' || typeof key !== 'string') throw new Unusable(`what ${admin.origin} answers is no key: is it a gateway?`);
  const revoke = () => admin.text('DELETE', `${PATH}/${encodeURIComponent(id)}`);
  let result: T;
  try {
    result = await use(key);
  } catch (error) {
    // What went wrong first is what is told; the key ends by itself.
    await revoke().catch(() => undefined);
    throw error;
  }
  await revoke();
  return result;
}
