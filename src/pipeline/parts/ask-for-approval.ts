import { usdFromPico } from '../../base/lib/money.ts';
import type { FullFor } from '../../base/lib/shares.ts';
import { type Approval, type AskedAction, deciderText } from '../../base/model/approval.ts';
import type { ArrivalHead } from '../../base/model/arrival.ts';
import { ASK_AGAIN_SECONDS, nextStep } from '../../base/model/next-step.ts';
import type { BoundRequest } from '../../decide/policy/approval-standing.ts';
import { recordedPath } from '../../inbound/normalise/path.ts';
import type { ApprovalAnswer, ApprovalRequest } from '../../services/review/approvals.ts';
import { actionHashIfAny, boundPlace, isSamePlace } from './action-hash.ts';
import type { BoundAction } from './approving.ts';
import type { Approvals, Pipeline } from './call-services.ts';
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
const HOST = /^[\w.:[\]-]{1,300}$/;
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

/** Of what a person is asked, as far as policy says it. */
interface Said {
  readonly reason: string;
  readonly codes: readonly string[];
}

function saidOf({ judgement: { verdict } }: AskedCallParts, { rules }: BoundAction): Said {
  // Where policy has let it pass, by what was given for something else, or for one call that was faster.
  const isVerdict = verdict.decision === 'require_approval';
  const reason = (isVerdict ? (verdict.reason ?? verdict.reason_codes[0]) : rules[0]?.reason) ?? NEEDED;
  return { reason, codes: isVerdict ? verdict.reason_codes : [NEEDED] };
}

/** Where there are no approvals the call is refused. */
export function notAsked(parts: AskedCallParts, bound: BoundAction): Refusal {
  const { reason, codes } = saidOf(parts, bound);
  return new Refusal({ decision: 'require_approval', status: 403, reason, reasonCodes: codes });
}

/**
 * Has a person asked about a call: with the request that waits already, or as a new one (specification, "Approval").
 * @param bound with the rules for which nothing was given
 * @param heldUntil until when the call is to wait on its open connection, epoch milliseconds
 */
export function askPersons(parts: AskedCallParts, bound: BoundAction, approvals: Approvals, heldUntil?: number): Promise<ApprovalAnswer> {
  return approvals.ask(requestOf(parts, bound, saidOf(parts, bound)), heldUntil);
}

/** How a call is answered of which a person was asked. */
export interface AskedHow {
  readonly answer: ApprovalAnswer;
  /** Where callers reach this gateway. */
  readonly place: string;
  /** The call has waited, and its time is over. */
  readonly hasWaited: boolean;
  /** It has opened an approval, which names its record. */
  readonly hasOpened: boolean;
}

/** The answer to a call that waits for a person, or that one has refused. */
export function askedRefusal(parts: AskedCallParts, bound: BoundAction, { answer, place, hasWaited, hasOpened }: AskedHow): Refusal {
  const { line, head } = parts.arrival;
  if (answer.kind === 'full') return deny('too_many_approvals', FULL[answer.full]);
  const { approval } = answer;
  if (answer.kind === 'rejected') return rejectedBy(approval);
  const { reason, codes } = saidOf(parts, bound);
  const origin = head.door === 'origin' ? originOf(head) : undefined;
  return new Refusal({
    decision: 'require_approval',
    status: line === 'direct' ? 202 : 403,
    reason,
    reasonCodes: codes.includes(NEEDED) ? codes : [...codes, NEEDED],
    approvalId: approval.approval_id,
    opensApproval: hasOpened || answer.kind === 'opened',
    retryAfterSeconds: hasWaited ? ASK_AGAIN_SECONDS : undefined,
    // Before it has waited nobody on a proxied door is told the id (specification, "Transparent proxy mode" 6).
    next: nextStep(approval, line === 'direct' || hasWaited ? (origin ?? place) : undefined),
    detail: { path: '', message: whatToDo(approval, line) },
  });
}

/**
 * Asks a person about a call that cannot wait on its connection, and answers it.
 * @param approvals undefined where there are none
 */
export async function askForApproval(
  parts: AskedCallParts,
  bound: BoundAction,
  { approvals, place }: Pick<Pipeline, 'approvals' | 'place'>,
  hasOpened = false,
): Promise<Refusal> {
  if (approvals === undefined) return notAsked(parts, bound);
  const answer = await askPersons(parts, bound, approvals);
  if (answer.kind === 'waiting') await approvals.promise(answer.approval);
  return askedRefusal(parts, bound, { answer, place: place.forCallers, hasWaited: false, hasOpened });
}

/** As the caller itself reaches the gateway. */
function originOf({ secure, headers }: ArrivalHead): string | undefined {
  const host = headers['host'];
  return host !== undefined && HOST.test(host) ? `${secure ? 'https' : 'http'}://${host}` : undefined;
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
      : ['approval_expired', expiredText(rest.expires_at, by === null ? undefined : deciderText(by, note))];
  return new Refusal({
    decision: 'deny',
    status: 403,
    reason,
    reasonCodes: [code],
    approvalId,
    next: nextStep({ approval_id: approvalId, status }),
  });
}

/** @param by who had approved it */
function expiredText(at: string, by: string | undefined): string {
  if (by === undefined) return `Nobody decided about this request in time; it expired at ${at}`;
  return `${by} had approved this request, and nobody sent it again in time; that expired at ${at}`;
}

function requestOf(
  parts: AskedCallParts,
  { actionHash, requestHash, place, rules }: BoundAction,
  { reason, codes }: Said,
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
