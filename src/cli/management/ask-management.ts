import type { KeyScope } from '../../base/model/keys.ts';
import { type CliIo, UsageError } from '../command.ts';
import { GatewayClient } from '../gateway-client.ts';
import { settingsOf } from '../settings-of.ts';
import { givenKey, ONE_ORG } from './given-key.ts';
import { ManagementClient } from './management-client.ts';
import { withShortLivedKey } from './short-lived-key.ts';

/** Who asks, and where. */
export interface ManagementAccess {
  readonly url: string | undefined;
  readonly key: string | undefined;
  readonly org: string | undefined;
}

/**
 * Asks the management API with the key that was given, else with one that lives as long as the question.
 * @param scopes that the question needs
 * @throws UsageError, Unusable, GatewayRefusal
 */
export async function askManagement<T>(
  { url, key, org }: ManagementAccess,
  scopes: readonly KeyScope[],
  io: CliIo,
  ask: (client: ManagementClient) => Promise<T>,
): Promise<T> {
  const own = givenKey(key, io);
  if (own !== undefined && org !== undefined) throw new UsageError(ONE_ORG);
  if (own !== undefined) return ask(new ManagementClient(GatewayClient.keyPlace(io, url), own));
  const admin = await GatewayClient.open(url, io);
  const orgId = org ?? settingsOf(io, { url }).orgId ?? 'default';
  return withShortLivedKey(admin, { orgId, scopes, holder: 'gw' }, (made) =>
    ask(new ManagementClient(GatewayClient.managementPlace(io, admin.origin), made)),
  );
}
