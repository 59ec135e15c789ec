import type { JsonObject } from '../base/json/json-object.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import type { Principal } from '../base/model/principal.ts';
import type { RemoteWrite } from '../link/handed-on-writes.ts';
import type { Asking } from '../services/orgs/audit-trail.ts';
import type { ToldChanges } from '../services/registers/commit.ts';
import type { OperationServices } from './services.ts';

/** What of this gateway a write at the control plane changes, for the entry of the audit trail here. */
export interface Watched {
  /** What kind of thing it is, as the store names it. */
  readonly entity: string;
  /** Undefined: several. */
  readonly object: string | undefined;
  /** As it is shown; undefined: there is none. No secret. */
  readonly show: () => unknown;
  /** What that does not show. */
  readonly told?: ToldChanges;
}

/**
 * Has the control plane store what was written here, and notes in the audit trail here what has become of it (decision
 * 13.12).
 * @returns what is there now, of each entry that was not removed
 * @throws GatewayError as the control plane answers; `managed_remotely` where it takes no writes,
 * `control_plane_unreachable`
 */
export type HandOn = (write: RemoteWrite, watched: Watched) => Promise<readonly JsonObject[]>;

export function handOnFor(asking: Asking, { remoteWrites, audit, orgs }: OperationServices): HandOn {
  return async (write, { entity, object, show, told }) => {
    if (remoteWrites === undefined) throw ownedElsewhere();
    const before = show();
    const results = await remoteWrites.write(asking, write);
    // What is for other nodes alone is not shown here.
    const after = show() ?? results[0];
    await audit.noteHandedOn(asking, { orgId: orgs.orgId ?? 'default', object, entity, before, after, told });
    return results;
  };
}

export function ownedElsewhere(): GatewayError {
  return new GatewayError('managed_remotely', 'The control plane of this gateway owns this: change it there.');
}

/**
 * The org of this gateway, which is all that is its control plane's.
 * @throws GatewayError `invalid_request` for a body that names another
 */
export function ownOrg(given: string | undefined, { orgs: { orgId } }: OperationServices, what: string): string {
  const own = orgId ?? 'default';
  if (given === undefined || given === own) return own;
  throw new GatewayError('invalid_request', `${what} has 1 bad member(s).`, {
    details: [{ path: 'org_id', message: `must be ${own}, the org of this gateway` }],
  });
}

/** What a caller asks for by `If-None-Match: *` or `If-Match`. */
export function onlyOf(headers: Readonly<Record<string, string | undefined>>): RemoteWrite['only'] {
  if (headers['if-none-match'] === '*') return 'create';
  return headers['if-match'] === undefined ? undefined : 'update';
}

/**
 * A control plane gives and takes for the org of this gateway alone. Keys of other orgs are left where it served those
 * before it had one.
 * @throws GatewayError `insufficient_scope` for who is of another org
 */
export function requireOwnPrincipal({ orgId }: Pick<Principal, 'orgId'>, { orgs }: Pick<OperationServices, 'orgs'>): void {
  const own = orgs.orgId ?? 'default';
  if (orgId === undefined || orgId === own) return;
  throw new GatewayError(
    'insufficient_scope',
    `This key is of the org ${orgId}; the control plane of this gateway takes writes for ${own} alone.`,
  );
}

/** How what is handed on can fail beside the errors of its own. */
export const HANDED_ON = ['control_plane_unreachable'] as const;
