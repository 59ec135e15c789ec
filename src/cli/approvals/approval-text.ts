import { type Approval, deciderText } from '../../base/model/approval.ts';
import type { ShownApproval } from '../../services/review/approvals.ts';
import { cellText, namedLines } from '../terminal-text.ts';

/** One line of a list. */
export function approvalLine({
  approval_id: id,
  created_at: at,
  status,
  action,
  estimated_cost_usd: cost,
  reason,
  ...asked
}: Approval): string {
  const what = `${action.method} ${action.target_origin ?? action.target_host}${action.model === undefined ? '' : ` ${action.model}`}`;
  const cells = [
    id,
    at,
    asked.held === undefined ? status : `${status}, waits now`,
    `${asked.workload_id}${whoOf(asked)}`,
    what,
    ...(cost === undefined ? [] : [`${cost} USD`]),
    reason,
  ];
  return `${cells.map(cellText).join('  ')}\n`;
}

/** Everything that an approver needs. @param now epoch milliseconds */
export function approvalText(approval: ShownApproval & { readonly action: { readonly params?: unknown } }, now: number): string {
  const { action, decided_by: by, decided_at: at } = approval;
  const rows: readonly (readonly [name: string, value: string | undefined])[] = [
    ['approval', approval.approval_id],
    ['status', approval.status],
    ['asked by', `${approval.org_id}/${approval.workload_id}${whoOf(approval)}`],
    ['address', approval.caller_ip],
    ['api key', approval.api_key_id],
    ['project', approval.attribution.project_id],
    ['delegation', approval.delegation_id],
    ['principal', approval.principal_id],
    ['asked at', approval.created_at],
    untilOf(approval),
    ['waiting now', heldText(approval, now)],
    ['asked are', needsText(approval)],
    ['said so far', saidText(approval)],
    ['if approved', approval.on_approval],
    ['for', `${action.method} ${action.target_origin ?? action.target_host}${action.target_path}`],
    ['connector', action.connector_id],
    ['credential', approval.credential_id],
    ['action', `${action.type}${action.stream ? ', streaming' : ''}`],
    ['model', action.model],
    ['may cost', approval.estimated_cost_usd === undefined ? undefined : `$${approval.estimated_cost_usd}`],
    ['asked by rule', approval.rule_ids.join(', ')],
    ['reason', approval.reason],
    ['params', sizesOf(action.param_sizes)],
    ['record', approval.record_id],
    ['action hash', approval.action_hash],
    [
      'decided',
      by === null
        ? undefined
        : `by ${deciderText(by, approval.decided_by_note, approval.decided_by_principal)} at ${String(at)}${approval.decision_reason === undefined ? '' : `: ${approval.decision_reason}`}`,
    ],
    ['used', approval.executed_at === undefined ? undefined : `at ${approval.executed_at}, record ${String(approval.executed_record_id)}`],
    ['content', action.params === undefined ? undefined : JSON.stringify(action.params)],
  ];
  return namedLines(rows);
}

/** How long it waits, or can be used; of what was used or denied no time counts any more. */
function untilOf({ status, expires_at: at, executed_at: used }: ShownApproval): readonly [name: string, value: string | undefined] {
  if (status === 'pending') return ['waits until', at];
  if (status === 'approved') return ['usable until', used === undefined ? at : undefined];
  return ['waited until', status === 'expired' ? at : undefined];
}

/** Calls that wait on their open connections, and for how long. */
function heldText({ held }: ShownApproval, now: number): string | undefined {
  if (held === undefined) return undefined;
  const left = Math.max(0, Math.ceil((Date.parse(held.until) - now) / 1000));
  return `${held.calls} call${held.calls === 1 ? '' : 's'} on open connections, ${left} s left`;
}

function needsText({ needs }: ShownApproval): string | undefined {
  return needs
    ?.map(({ required, group }) => `${required} of ${group === undefined ? 'those who may decide' : `the group ${group}`}`)
    .join(', ');
}

function saidText({ decisions }: ShownApproval): string | undefined {
  const said = decisions?.map(
    ({ status, decided_by: by, decided_by_note: note, decided_by_principal: principal, decided_at: at, reason }) => {
      return `${status} by ${deciderText(by, note, principal)} at ${at}${reason === undefined ? '' : `: ${reason}`}`;
    },
  );
  return said?.join('; ');
}

function whoOf({ caller_id: caller }: Pick<Approval, 'caller_id'>): string {
  return caller === undefined ? '' : ` (${caller})`;
}

function sizesOf(sizes: Readonly<Record<string, number>>): string {
  return Object.entries(sizes)
    .map(([name, size]) => `${name} ${size} bytes`)
    .join(', ');
}
