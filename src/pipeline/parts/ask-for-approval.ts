import { usdFromPico } from '../../base/lib/money.ts';
import type { FullFor } from '../../base/lib/shares.ts';
import { type Approval, type AskedAction, deciderText } from '../../base/model/approval.ts';
import type { BoundRequest } from '../../decide/policy/approval-standing.ts';
import { recordedPath } from '../../inbound/normalise/path.ts';
import type { ApprovalRequest } from '../../services/review/approvals.ts';
import { actionHashIfAny, boundPlace, isSamePlace } from './action-hash.ts';
import type { BoundAction } from './approving.ts';
import type { Approvals } from './call-services.ts';
import type { LineName } from './line-name.ts';
import type { Parts } from './parts.ts';
import { deny, Refusal } from './refusal.ts';

/** Whose places are taken, to whom it is told. */
const FULL: Readonly<Record<FullFor, string>> = {
  all: 'More requests wait for an approval than are kept; try again later.',
  org: 'As many requests of this org wait for an approval as it may have; somebody has to decide them first.',
  caller: 'As many requests of this caller wait for an approval as he may have; somebody has to decide them first.',
};

/** What is known of a call when a person is asked about it. */
export type AskedCallParts = Pick<Parts, 'arrival' | 'claims' | 'proof' | 'action' | 'judgement' | 'attribution' | 'route'> &
  Partial<Pick<Parts, 'delegated'>>;

const NEEDED = 'approval_required';
/** Members of the params that are listed; a body may have any number. */
const MAX_SIZES = 200;

/** What a call is approved as, now that all of it is settled; undefined for a body that has no canonical form. */
export function boundOf(
  parts: Pick<Parts, 'arrival' | 'claims' | 'action' | 'content' | 'offer' | 'approving' | 'mutation' | 'route'>,
): BoundAction | undefined {
  const { claims, offer, approving, mutation, route } = parts;
  const requestHash = approving.requestHash ?? actionHashIfAny(parts, offer);
  const actionHash = isSamePlace(offer, route) ? requestHash : actionHashIfAny(parts, route);
  if (requestHash === undefined || actionHash === undefined) return undefined;
  const rules = new Map([...approving.rules, ...(mutation.choiceAsks ?? [])].map((rule) => [rule.id, rule]));
  return { requestHash, actionHash, place: boundPlace(route, claims), rules: [...rules.values()] };
}

/** The delegation under which a call is asked for: that of its token, else what its caller names. */
export function askedUnder({
  claims,
  delegated,
}: Pick<Parts, 'claims'> & Partial<Pick<Parts, 'delegated'>>): Pick<Approval, 'delegation_id' | 'principal_id'> {
  const id = delegated?.chain.leaf.delegationId ?? claims.delegationId;
  const principal = delegated?.facts.principal_id;
  return { ...(id === undefined ? {} : { delegation_id: id }), ...(principal === undefined ? {} : { principal_id: principal }) };
}

/** What makes it the same request as another one. */
export function boundRequest(
  parts: Pick<Parts, 'claims' | 'attribution'> & Partial<Pick<Parts, 'delegated'>>,
  { actionHash }: BoundAction,
): BoundRequest {
  return { action_hash: actionHash, attribution: parts.attribution, ...askedUnder(parts) };
}

/** A call of which nobody could say what is approved. */
export function notPossible(): Refusal {
  const reason = `${NEEDED}; this call cannot wait for an approval, because its body has no form that could be bound`;
  return new Refusal({ decision: 'require_approval', status: 403, reason, reasonCodes: [NEEDED, 'approval_not_possible'] });
}

/**
 * Has a call wait for a person: with the request that waits already, or as a new one (specification, "Approval").
 * @param bound with the rules for which nothing was given
 * @param approvals undefined where there are none: then the call is refused
 */
export async function askForApproval(parts: AskedCallParts, bound: BoundAction, approvals: Approvals | undefined): Promise<Refusal> {
  const { line } = parts.arrival;
  const { verdict } = parts.judgement;
  // Where policy has let it pass, by what was given for something else, or for one call that was faster.
  const isVerdict = verdict.decision === 'require_approval';
  const reason = (isVerdict ? (verdict.reason ?? verdict.reason_codes[0]) : bound.rules[0]?.reason) ?? NEEDED;
  const codes = isVerdict ? verdict.reason_codes : [NEEDED];
  if (approvals === undefined) return new Refusal({ decision: 'require_approval', status: 403, reason, reasonCodes: codes });
  const answer = await approvals.ask(requestOf(parts, bound, { reason, codes }));
  if (answer.kind === 'full') return deny('too_many_approvals', FULL[answer.full]);
  const { approval } = answer;
  if (answer.kind === 'rejected') return rejectedBy(approval);
  return new Refusal({
    decision: 'require_approval',
    status: line === 'direct' ? 202 : 403,
    reason,
    reasonCodes: codes.includes(NEEDED) ? codes : [...codes, NEEDED],
    approvalId: approval.approval_id,
    opensApproval: answer.kind === 'opened',
    detail: { path: '', message: whatToDo(approval, line) },
  });
}

/**
 * Where an approver looks, and when it is worth to come again; on the proxied doors this is all that the caller gets
 * (specification, "Transparent proxy mode" 6).
 */
function whatToDo({ status, expires_at: until, record_id: recordId }: Approval, line: LineName): string {
  if (status === 'approved') return 'It has just been approved: send the same request again';
  const find = line === 'direct' ? '' : ` (record ${recordId})`;
  return `It waits for an approval until ${until}${find}: an operator decides it with gw approvals, or at /v1/admin/approvals; then send the same request again`;
}

function rejectedBy({
  approval_id: approvalId,
  status,
  decided_by: by,
  decided_by_note: note,
  decision_reason: why,
  ...rest
}: Approval): Refusal {
  const [code, reason] =
    status === 'denied'
      ? ['approval_denied', `Denied by ${deciderText(by, note)}${why === undefined ? '' : `: ${why}`}`]
      : ['approval_expired', `Nobody decided about this request in time; it expired at ${rest.expires_at}`];
  return new Refusal({ decision: 'deny', status: 403, reason, reasonCodes: [code], approvalId });
}

function requestOf(
  parts: AskedCallParts,
  { actionHash, requestHash, place, rules }: BoundAction,
  { reason, codes }: { readonly reason: string; readonly codes: readonly string[] },
): ApprovalRequest {
  const { arrival, claims, proof, action, attribution, route } = parts;
  const { type, method, params } = action.request.action;
  const { callerId, orgId, workloadId } = claims;
  const asked: AskedAction = {
    type,
    method,
    ...place,
    target_path: recordedPath(place.target_path),
    ...(route.model === undefined ? {} : { model: route.model }),
    stream: route.stream,
    param_sizes: sizesOf(params),
  };
  const cost = route.estimate?.costPico;
  return {
    org_id: orgId,
    workload_id: workloadId,
    ...(callerId === undefined ? {} : { caller_id: callerId }),
    caller_ip: arrival.callerIp,
    ...(proof.apiKey === undefined ? {} : { api_key_id: proof.apiKey.id }),
    ...askedUnder(parts),
    ...(route.credentialId === undefined ? {} : { credential_id: route.credentialId }),
    reason,
    reason_codes: codes,
    rules,
    connection_type: arrival.connectionType,
    attribution,
    action: asked,
    action_hash: actionHash,
    ...(requestHash === actionHash ? {} : { request_hash: requestHash }),
    ...(cost === undefined ? {} : { estimated_cost_usd: usdFromPico(cost) }),
    record_id: arrival.recordId,
    content: () => JSON.stringify(params),
  };
}

/** Names of members may be a caller's own, so they are cut as other texts of a record are. */
function sizesOf(params: Readonly<Record<string, unknown>>): Readonly<Record<string, number>> {
  const listed = Object.entries(params).slice(0, MAX_SIZES);
  return Object.fromEntries(
    listed.map(([name, value]) => [name.slice(0, 256).toWellFormed(), Buffer.byteLength(JSON.stringify(value) ?? '')]),
  );
}
