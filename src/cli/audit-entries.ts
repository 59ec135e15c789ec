import { type CliIo, UsageError } from './command.ts';
import { GatewayClient } from './gateway-client.ts';
import { eachItem } from './list-items.ts';
import { givenKey, ONE_ORG } from './management/given-key.ts';

/** Which entries; undefined: all. */
export interface AuditQuery {
  readonly principal: string | undefined;
  readonly operation: string | undefined;
  readonly object: string | undefined;
  readonly from: string | undefined;
  readonly to: string | undefined;
}

export interface AuditPlace {
  readonly url: string | undefined;
  readonly key: string | undefined;
  readonly org: string | undefined;
}

/** Entries of a running gateway, the newest first: with a management key those of its org, with the admin token those of all. @throws UsageError, Unusable, GatewayRefusal */
export async function* auditEntries({ url, key, org }: AuditPlace, query: AuditQuery, most: number, io: CliIo): AsyncGenerator<unknown> {
  const own = givenKey(key, io);
  const given = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined);
  if (own === undefined) {
    const asked = new URLSearchParams(org === undefined ? given : [...given, ['org_id', org]]);
    yield* eachItem(await GatewayClient.open(url, io), '/v1/admin/audit', asked, most);
    return;
  }
  if (org !== undefined) throw new UsageError(ONE_ORG);
  // Loaded here: the small commands do not wait for the operations.
  const [{ AUDIT_OPERATIONS }, { entryOf }, { listByKey }, { ManagementClient }] = await Promise.all([
    import('../operations/audit-operations.ts'),
    import('../operations/operation.ts'),
    import('./management/list-by-key.ts'),
    import('./management/management-client.ts'),
  ]);
  yield* listByKey(
    new ManagementClient(GatewayClient.keyPlace(io, url), own),
    entryOf(AUDIT_OPERATIONS, 'mgmt.audit.list'),
    Object.fromEntries(given),
    most,
  );
}
