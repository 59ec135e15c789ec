import { type Approval, type ApprovalStatus, deciderText } from '../../../base/model/approval.ts';
import { onApproval, stillMissing } from '../../../decide/policy/approval-standing.ts';
import { type AlertCard, type AlertFact, type CardText, own, said } from '../../../outbound/destinations/alert-card.ts';
import { facts, type GatewayPlace, ownIfAny, type Said } from './card-parts.ts';

type Ended = Exclude<ApprovalStatus, 'pending'>;

const TITLES: Readonly<Record<Ended, string>> = { approved: 'Approved', denied: 'Denied', expired: 'Expired', withdrawn: 'Withdrawn' };
const TONES: Readonly<Record<ApprovalStatus, AlertCard['tone']>> = {
  pending: 'warning',
  approved: 'info',
  denied: 'critical',
  expired: 'warning',
  withdrawn: 'warning',
};

/** What an approver needs to see while it waits, and afterwards what became of it, with nothing left to press. */
export function approvalSaid(approval: Approval, place: GatewayPlace): Said {
  const { status, approval_id: id } = approval;
  const page = place.pages === undefined ? undefined : `${place.pages}/approvals/${id}`;
  const about = { title: titleOf(approval), tone: TONES[status], text: textOf(approval), thread: id };
  if (status !== 'pending')
    return { ...about, facts: [...matter(approval), ...ids(approval)], ...(page && { link: { title: 'Look at it', url: page } }) };
  const yes = yesOf(approval);
  const values = place.buttonsFor?.(id);
  return {
    ...about,
    facts: [
      ...matter(approval),
      ...facts(
        ['on_approval', ownIfAny(yes)],
        ['asked', ownIfAny(approval.needs?.map(({ required, group }) => `${required} of ${group ?? 'those who may decide'}`).join(', '))],
        ['reason', approval.reason],
        ['rules', approval.rule_ids.join(', ')],
        ['expires_at', own(approval.expires_at)],
      ),
      ...ids(approval),
    ],
    ...(page && { link: { title: 'Look at it and decide', url: page } }),
    ...(values === undefined || yes === undefined ? {} : { buttons: { ...values, yes } }),
    command: [
      `gw approvals approve ${id}`,
      `gw approvals deny ${id}`,
      `curl -X POST -H "Authorization: Bearer $GW_MGMT_KEY" ${place.url}/mgmt/v1/approvals/${id}/approve`,
    ].join('\n'),
  };
}

/** What a yes does: a message stands there also when the call waits no longer on its connection. */
function yesOf(approval: Approval): string | undefined {
  const { held, ...unheld } = approval;
  const now = Date.parse(approval.created_at);
  const yes = onApproval(approval, now);
  return held === undefined || yes === undefined ? yes : `${yes}, and after ${held.until} ${onApproval(unheld, now)}`;
}

/** What became of it, in a message of its own behind the one that asked. */
export function approvalFollowUp(approval: Approval): Said {
  const { status, approval_id: id } = approval;
  return {
    title: titleOf(approval),
    tone: TONES[status],
    text: textOf(approval),
    facts: facts(['workload_id', approval.workload_id], ['approval_id', id]),
    thread: id,
  };
}

/** What tells two moments of one approval apart, for whoever has told of one of them. */
export function stateOf({ status, decisions = [] }: Approval): string {
  return status === 'pending' ? `pending ${decisions.length}` : status;
}

/** A host that has a connector: nobody makes one up with a call. */
function hostOf({ action }: Approval): CardText {
  return own(action.target_origin ?? action.target_host);
}

function titleOf(approval: Approval): CardText {
  const { status, action, decisions = [] } = approval;
  const what = said`${own(action.type)} to ${hostOf(approval)}`;
  if (status !== 'pending') return said`${own(TITLES[status])}: ${what}`;
  const so = decisions.length === 0 ? '' : ` (${decisions.length} of ${decisions.length + stillMissing(approval)})`;
  return said`Approval needed${own(so)}: ${what}`;
}

function textOf(approval: Approval): CardText {
  const { status, workload_id: workload, reason, held } = approval;
  if (status !== 'pending') return said`The request of the workload ${workload} ${endOf(approval)}`;
  const until = held === undefined ? '' : ` now, on its open connection until ${held.until}, and then`;
  return said`A request of the workload ${workload} waits${own(until)} until ${own(approval.expires_at)} for somebody to approve or deny it: ${reason}${sayingsOf(approval)}`;
}

function sayingsOf({ decisions = [] }: Approval): CardText {
  return decisions.flatMap((one) => {
    const who = deciderText(one.decided_by, one.decided_by_note, one.decided_by_principal);
    return said` – ${own(one.status)} by ${who} at ${own(one.decided_at)}`;
  });
}

/** As the rest of a sentence. */
function endOf(approval: Approval): CardText {
  const { status, decided_by: by, decided_by_note: note, decided_by_principal: principal, decision_reason: why } = approval;
  if (status === 'expired' && by !== null)
    return said`has expired at ${own(approval.expires_at)}: ${deciderText(by, note, principal)} had approved it, and it was not sent again in time.`;
  if (status === 'expired') return own(`has expired at ${approval.expires_at}: nobody has decided it.`);
  if (status === 'withdrawn') return own(`was withdrawn at ${approval.withdrawn_at ?? ''}, because its caller left.`);
  const because = why === undefined ? own('.') : said`: ${why}`;
  return said`was ${own(status)} by ${deciderText(by, note, principal)} at ${own(approval.decided_at ?? '')}${because}`;
}

function matter(approval: Approval): readonly AlertFact[] {
  const { action } = approval;
  return facts(
    ['workload_id', approval.workload_id],
    ['caller_id', approval.caller_id],
    ['caller_ip', ownIfAny(approval.caller_ip)],
    ['project_id', approval.attribution.project_id],
    ['delegation_id', approval.delegation_id],
    ['principal_id', approval.principal_id],
    ['action', own(action.type)],
    ['connector_id', action.connector_id],
    ['target', said`${action.method} ${hostOf(approval)}${action.target_path}`],
    ['model', action.model],
    ['credential_id', approval.credential_id],
    ['estimated_cost_usd', ownIfAny(approval.estimated_cost_usd)],
  );
}

function ids({ org_id: org, approval_id: id, record_id: record }: Approval): readonly AlertFact[] {
  return facts(['org_id', org], ['approval_id', id], ['record_id', record]);
}
