import type { ExportedEvent } from '../event-envelope.ts';
import { caller, given, type Named, type OcsfObject, type OcsfPart, OTHER_ACTIVITY, object, SEVERITY, source, text } from './ocsf-frame.ts';

/** What the last word of an operation does to what it is about. */
const VERBS: Readonly<Record<string, Named>> = {
  create: [1, 'Create'],
  issue_token: [1, 'Create'],
  token: [1, 'Create'],
  // The admin token by a program: nothing is changed.
  use: [2, 'Read'],
  sign_in: [1, 'Create'],
  sign_out: [4, 'Delete'],
  put: [3, 'Update'],
  update: [3, 'Update'],
  patch: [3, 'Update'],
  change: [3, 'Update'],
  configure: [3, 'Update'],
  assign: [3, 'Update'],
  switch: [3, 'Update'],
  reload: [3, 'Update'],
  fetch: [3, 'Update'],
  approve: [3, 'Update'],
  bind: [3, 'Update'],
  accept: [3, 'Update'],
  deny: [3, 'Update'],
  decide: [3, 'Update'],
  override: [3, 'Update'],
  end_override: [3, 'Update'],
  restore: [3, 'Update'],
  rotate: [1, 'Create'],
  cancel: [4, 'Delete'],
  finish: [4, 'Delete'],
  remove: [4, 'Delete'],
  forget: [4, 'Delete'],
  revoke: [4, 'Delete'],
  remove_token: [4, 'Delete'],
  release: [4, 'Delete'],
  reset: [4, 'Delete'],
  clear: [4, 'Delete'],
  enable: [8, 'Enable'],
  disable: [9, 'Disable'],
  suspend: [12, 'Suspend'],
  stop: [12, 'Suspend'],
  reactivate: [13, 'Resume'],
  resume: [13, 'Resume'],
};

interface Decided {
  readonly activity: Named;
  readonly action: Named;
  readonly disposition: Named;
}

/** Statuses of an approval. */
const STATUSES: Readonly<Record<string, Decided>> = {
  pending: { activity: [1, 'Create'], action: [2, 'Denied'], disposition: [14, 'Delayed'] },
  approved: { activity: [3, 'Update'], action: [1, 'Allowed'], disposition: [8, 'Approved'] },
  denied: { activity: [3, 'Update'], action: [2, 'Denied'], disposition: [25, 'Rejected'] },
  expired: { activity: [3, 'Update'], action: [2, 'Denied'], disposition: [25, 'Rejected'] },
  withdrawn: { activity: [4, 'Delete'], action: [2, 'Denied'], disposition: [25, 'Rejected'] },
};
const UNKNOWN: Decided = { activity: [0, 'Unknown'], action: [0, 'Unknown'], disposition: [0, 'Unknown'] };

const DONE = { status_id: 1, status: 'Success' };

/** An entry of the audit trail, as Entity Management (class 3004): who has changed what. */
export function auditPart(event: ExportedEvent): OcsfPart {
  const { payload } = event.envelope;
  const operation = text(payload, 'operation') ?? 'unknown';
  const words = operation.split('.').filter((word) => word !== 'mgmt');
  const verb = words.at(-1) ?? operation;
  const type = words.slice(0, -1).join('.') || operation;
  const of = text(payload, 'object');
  const principal = object(payload, 'principal');
  const who = text(principal, 'id') ?? 'unknown';
  const name = text(principal, 'name') ?? text(principal, 'user') ?? who;
  const from = text(payload, 'from');
  return {
    class: 'entityManagement',
    activity: VERBS[verb] ?? [OTHER_ACTIVITY, verb],
    severity: SEVERITY.informational,
    message: `${who}: ${operation}${of === undefined ? '' : ` ${of}`}`,
    attributes: given({
      ...DONE,
      actor: { user: { uid: who, name, type_id: 99, type: text(principal, 'kind') ?? 'Other' } },
      src_endpoint: from === undefined ? undefined : { ip: from },
      entity: { uid: of ?? type, name: of ?? type, type },
    }),
  };
}

/**
 * An approval, as Entity Management with what was decided: made by its caller, changed by whoever decides or by time.
 */
export function approvalPart(event: ExportedEvent): OcsfPart {
  const { payload } = event.envelope;
  const status = text(payload, 'status') ?? 'unknown';
  const { activity, action, disposition } = STATUSES[status] ?? UNKNOWN;
  const decider = text(payload, 'decided_by');
  const of = text(payload, 'approval_id') ?? 'unknown';
  const actor: OcsfObject = decider === undefined ? caller(event) : { user: { uid: decider, name: decider, type_id: 0, type: 'Unknown' } };
  return {
    class: 'entityManagement',
    activity,
    severity: SEVERITY.informational,
    message: `Approval ${of} of workload ${event.envelope.workload_id}: ${status}`,
    profiles: ['security_control'],
    correlation: text(payload, 'record_id'),
    attributes: given({
      ...DONE,
      status_detail: text(payload, 'decision_reason') ?? text(payload, 'reason'),
      action_id: action[0],
      action: action[1],
      disposition_id: disposition[0],
      disposition: disposition[1],
      actor,
      src_endpoint: decider === undefined ? source(event) : undefined,
      entity: { uid: of, name: of, type: 'approval' },
    }),
  };
}
