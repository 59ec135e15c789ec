import { type Clock, systemClock } from '../../base/lib/clock.ts';
import type { KeyScope } from '../../base/model/keys.ts';
import { Unusable } from '../command.ts';
import type { GatewayClient } from '../gateway-client.ts';
import { KEYS_PATH, keyAsked, keyIn, keyPath } from './issued-key.ts';

/** Should nobody come to revoke it, it does not live longer. */
const LIFE_MS = 300_000;

export interface ShortLivedKeyOptions {
  readonly orgId: string;
  readonly scopes: readonly KeyScope[];
  /** Who has it, for the list of keys and the audit trail. */
  readonly holder: string;
  readonly clock?: Clock;
}

/**
 * Does something with a management key that is made for it by the admin token, and revoked afterwards, also when it
 * fails: the token itself opens nothing of the management API (decisions 10.1, 10.14).
 * @throws Unusable, GatewayRefusal when no key is given, or the key cannot be revoked; and what `use` throws
 */
export async function withShortLivedKey<T>(
  admin: GatewayClient,
  { orgId, scopes, holder, clock = systemClock }: ShortLivedKeyOptions,
  use: (key: string) => Promise<T>,
): Promise<T> {
  const made = keyIn(
    await admin.json('POST', KEYS_PATH, keyAsked({ orgId, scopes, holder, program: holder, expiresAt: clock.now() + LIFE_MS })),
  );
  if (made === undefined) throw new Unusable(`what ${admin.origin} answers is no key: is it a gateway?`);
  const revoke = () => admin.text('DELETE', keyPath(made.id));
  let result: T;
  try {
    result = await use(made.key);
  } catch (error) {
    // What went wrong first is what is told; the key ends by itself.
    await revoke().catch(() => undefined);
    throw error;
  }
  await revoke();
  return result;
}
