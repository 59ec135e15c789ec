<<<<<<< HEAD
=======
import { MANAGEMENT_KEY_VARIABLE } from '../../base/config/command-variables.ts';
import { shellVariable } from '../../base/config/environment.ts';
>>>>>>> mcp
import type { KeyScope } from '../../base/model/management-key.ts';
import type { CliIo } from '../command.ts';
import { GatewayClient, parseGatewayUrl } from '../gateway-client.ts';
import { settingsOf } from '../settings-of.ts';
import { givenKey } from './given-key.ts';
import { ManagementClient } from './management-client.ts';
import { withShortLivedKey } from './short-lived-key.ts';

/** Who asks, and where. */
export interface ManagementAccess {
  readonly url: string | undefined;
  readonly key: string | undefined;
  readonly org: string | undefined;
}

<<<<<<< HEAD
=======
/** The management key that a command was given, or that stands in its environment; undefined: the admin token makes one. @throws UsageError for what is no such key */
export function givenKey(key: string | undefined, io: CliIo): string | undefined {
  const given = key ?? shellVariable(MANAGEMENT_KEY_VARIABLE, io.env);
  if (given !== undefined && !given.startsWith('mgk_'))
    throw new UsageError(`${key === undefined ? MANAGEMENT_KEY_VARIABLE : '--key'} takes a management key, which begins with mgk_`);
  return given;
}

>>>>>>> mcp
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
  if (own !== undefined)
    return ask(new ManagementClient(url === undefined ? GatewayClient.managementPlace(io) : parseGatewayUrl(url), own));
  const admin = await GatewayClient.open(url, io);
  const orgId = org ?? settingsOf(io).orgId ?? 'default';
  return withShortLivedKey(admin, { orgId, scopes, holder: 'gw' }, (made) =>
    ask(new ManagementClient(GatewayClient.managementPlace(io, admin.origin), made)),
  );
}
