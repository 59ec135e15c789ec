import type { Stop, StopScope } from '../../base/model/stop.ts';
import { type CliIo, UsageError } from '../command.ts';
import { GatewayClient } from '../gateway-client.ts';
import { givenKey, ONE_ORG } from '../management/given-key.ts';

/** What makes a stop. */
export interface AskedStop {
  readonly scope: StopScope;
  readonly reason: string;
  readonly until?: string;
  readonly confirm: string;
}

/** Stops of a running gateway, whoever asks. */
export interface StopsAccess {
  make(stop: AskedStop): Promise<Stop>;
  end(which: { readonly stop_id: string } | { readonly scope: StopScope }): Promise<readonly Stop[]>;
  /** The newest first. */
  list(org: string | undefined): Promise<readonly Stop[]>;
}

/**
 * With a management key the stops of its org, with the admin token those of all.
 * @throws UsageError, Unusable
 */
export async function openStops(
  { url, key }: { readonly url?: string | undefined; readonly key?: string | undefined },
  io: CliIo,
): Promise<StopsAccess> {
  const given = givenKey(key, io);
  if (given !== undefined) return byKey(given, url, io);
  const gateway = await GatewayClient.open(url, io);
  return {
    make: async (stop) => (await gateway.json('POST', '/v1/admin/stop', stop)) as Stop,
    end: async (which) => ((await gateway.json('POST', '/v1/admin/resume', which)) as { readonly resumed: readonly Stop[] }).resumed,
    list: async (org) => {
      const query = org === undefined ? '' : `?org_id=${encodeURIComponent(org)}`;
      return ((await gateway.json('GET', `/v1/admin/stops${query}`)) as { readonly stops: readonly Stop[] }).stops;
    },
  };
}

async function byKey(key: string, url: string | undefined, io: CliIo): Promise<StopsAccess> {
  // Loaded here: the small commands do not wait for the operations.
  const [{ STOP_OPERATIONS }, { entryOf }, { listByKey }, { ManagementClient }] = await Promise.all([
    import('../../operations/stop-operations.ts'),
    import('../../operations/operation.ts'),
    import('../management/list-by-key.ts'),
    import('../management/management-client.ts'),
  ]);
  const client = new ManagementClient(GatewayClient.keyPlace(io, url), key);
  const ask = async (id: string, args: object): Promise<unknown> =>
    JSON.parse(await client.text(entryOf(STOP_OPERATIONS, id), { ...args })) as unknown;
  return {
    make: async (stop) => (await ask('mgmt.stop', { ...stop, scope: ofKey(stop.scope) })) as Stop,
    end: async (which) => {
      const asked = 'scope' in which ? { scope: ofKey(which.scope) } : which;
      return ((await ask('mgmt.resume', asked)) as { readonly resumed: readonly Stop[] }).resumed;
    },
    list: async (org) => {
      if (org !== undefined) throw new UsageError(ONE_ORG);
      const all: Stop[] = [];
      for await (const stop of listByKey(client, entryOf(STOP_OPERATIONS, 'mgmt.stops.list'), {}, Number.POSITIVE_INFINITY))
        all.push(stop as Stop);
      return all;
    },
  };
}

/** @throws UsageError for an org beside a key */
function ofKey(scope: StopScope): StopScope {
  if (scope.org !== undefined) throw new UsageError(ONE_ORG);
  return scope;
}
