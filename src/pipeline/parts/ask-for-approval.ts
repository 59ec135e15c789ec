import { usdFromPico } from '../../base/lib/money.ts';
import type { Approval, AskedAction } from '../../base/model/approval.ts';
import { recordedPath } from '../../inbound/normalise/path.ts';
import type { ApprovalRequest } from '../../services/approvals.ts';
import { actionHashOf } from './action-hash.ts';
import type { Approvals } from './call-services.ts';
import type { LineName } from './line-name.ts';
import type { Judgement, Parts } from './parts.ts';
import { deny, Refusal } from './refusal.ts';

/** What is known of a call when a person is asked about it. */
export type AskedCallParts = Pick<Parts, 'arrival' | 'claims' | 'proof' | 'action' | 'judgement' | 'attribution' | 'route'>;

const NEEDED = 'approval_required';
/** Members of the params that are listed; a body may have any number. */
const MAX_SIZES = 200;

/**
 * Has a call wait for a person: with the request that waits already, or as a new one (specification, "Approval").
 * @param approvals undefined where there are none: then the call is refused
 */
export async function askForApproval(parts: AskedCallParts, approvals: Approvals | undefined): Promise<Refusal> {
  const { line } = parts.arrival;
  const { verdict } = parts.judgement;
  const reason = verdict.reason ?? verdict.reason_codes[0] ?? NEEDED;
  const codes = verdict.reason_codes;
  if (approvals === undefined) return new Refusal({ decision: 'require_approval', status: 403, reason, reasonCodes: codes });
  const answer = await approvals.ask(requestOf(parts, reason));
  if (answer.kind === 'full') return deny('too_many_approvals', 'More requests wait for an approval than are kept; try again later.');
  const { approval } = answer;
  if (answer.kind === 'rejected') return rejectedBy(approval);
  return new Refusal({
    decision: 'require_approval',
    status: line === 'direct' ? 202 : 403,
    reason,
    reasonCodes: codes.includes(NEEDED) ? codes : [...codes, NEEDED],
    approvalId: approval.approval_id,
    detail: { path: '', message: whatToDo(approval, line) },
  });
}

/** Where an approver looks, and when it is worth to come again; on the proxied doors this is all that the caller gets (specification, "Transparent proxy mode" 6). */
function whatToDo({ status, expires_at: until, record_id: recordId }: Approval, line: LineName): string {
  if (status === 'approved') return 'It has just been approved: send the same request again';
  const find = line === 'direct' ? '' : ` (record ${recordId})`;
  return `It waits for an approval until ${until}${find}: an operator decides it with gw approvals, or at /v1/admin/approvals; then send the same request again`;
}

function rejectedBy({ approval_id: approvalId, status, decided_by: by, decision_reason: why, expires_at: at }: Approval): Refusal {
  const [code, reason] =
    status === 'denied'
      ? ['approval_denied', `Denied by ${String(by)}${why === undefined ? '' : `: ${why}`}`]
      : ['approval_expired', `Nobody decided about this request in time; it expired at ${at}`];
  return new Refusal({ decision: 'deny', status: 403, reason, reasonCodes: [code], approvalId });
}

function requestOf({ arrival, claims, proof, action, judgement, attribution, route }: AskedCallParts, reason: string): ApprovalRequest {
  const { type, method, target_host: host, target_path: path = '', params } = action.request.action;
  const { callerId, orgId, workloadId } = claims;
  const asked: AskedAction = {
    type,
    method,
    target_host: host,
    target_path: recordedPath(path),
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
    reason,
    reason_codes: judgement.verdict.reason_codes,
    rule_ids: rulesThatAsk(judgement),
    connection_type: arrival.connectionType,
    attribution,
    action: asked,
    action_hash: actionHashOf(action.request),
    ...(cost === undefined ? {} : { estimated_cost_usd: usdFromPico(cost) }),
    record_id: arrival.recordId,
    content: () => JSON.stringify(params),
  };
}

/** As `layer/id`. */
function rulesThatAsk({ active, verdict }: Judgement): readonly string[] {
  const asking = new Set(
    active.policy.layers.flatMap(({ name, rules }) =>
      rules.filter(({ decision }) => decision === 'require_approval').map(({ id }) => `${name}/${id}`),
    ),
  );
  return verdict.matched.map(({ layer, rule_id: id }) => `${layer}/${id}`).filter((name) => asking.has(name));
}

/** Names of members may be a caller's own, so they are cut as other texts of a record are. */
function sizesOf(params: Readonly<Record<string, unknown>>): Readonly<Record<string, number>> {
  const listed = Object.entries(params).slice(0, MAX_SIZES);
  return Object.fromEntries(
    listed.map(([name, value]) => [name.slice(0, 256).toWellFormed(), Buffer.byteLength(JSON.stringify(value) ?? '')]),
  );
}
