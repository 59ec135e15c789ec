import { isUtf8 } from 'node:buffer';
import type { Dialect } from '../../base/catalogue/types.ts';
import { isJson } from '../../base/json/json-check.ts';
import { byteOrderMark } from '../../base/lib/text.ts';
import { ACTION_RESPONSE_SCHEMA, type ActionResponse, DECISION_TRACE_SCHEMA, type DecisionTrace } from '../../base/model/action-request.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { type NextStep, stepAfter } from '../../base/model/next-step.ts';

/** What the trace says beyond its record. */
export interface TraceFacts {
  readonly evaluatedAt: string;
  readonly originalModel: string | undefined;
  readonly substitutedModel: string | undefined;
  readonly attributes: Readonly<Record<string, string>> | undefined;
}

/** Builds `gw.decision_trace.v1` of a recorded request (specification, "Decision trace"). */
export function decisionTrace(record: ExecutionRecord, facts: TraceFacts): DecisionTrace {
  const attributes: Record<string, string> = { target_host: record.target_host };
  if (record.policy_trace) attributes['policy_bundle_id'] = record.policy_trace.bundle_id;
  if (record.connector_id !== undefined) attributes['connector_id'] = record.connector_id;
  if (facts.originalModel !== undefined) attributes['original_model'] = facts.originalModel;
  if (facts.substitutedModel !== undefined) attributes['substituted_model'] = facts.substitutedModel;
  Object.assign(attributes, facts.attributes);
  return {
    schema: DECISION_TRACE_SCHEMA,
    decision: record.decision,
    reason_codes: record.reason_codes,
    evaluated_at: facts.evaluatedAt,
    matched_rule_ids: record.policy_trace?.matched_rule_ids ?? [],
    ...(record.connector_id === undefined ? {} : { selected_connector_id: record.connector_id }),
    ...(record.credential_id === undefined ? {} : { selected_credential_id: record.credential_id }),
    attributes,
  };
}

/** The answer of an upstream that goes into an envelope. */
export interface EnvelopedAnswer {
  readonly status: number;
  /** Lower case, without parameters. */
  readonly mediaType: string;
  readonly body: Uint8Array;
}

/**
 * An envelope with the upstream's answer in it: JSON as it is, byte for byte and never parsed, other text as a string,
 * anything else in base64 (decision 7.8). JSON that nests deeper than programs read is given as text.
 */
export function withResult(members: ActionResponse, { status, mediaType, body }: EnvelopedAnswer): Buffer {
  const [kind, text] = body.length === 0 ? ['', ''] : bodyMember(mediaType, body);
  const head = `${JSON.stringify(members).slice(0, -1)},"result":{"status_code":${status}${kind}`;
  return Buffer.concat([Buffer.from(head), typeof text === 'string' ? Buffer.from(text) : text, Buffer.from('}}')]);
}

/** @returns what stands before the value, and the value as JSON */
function bodyMember(mediaType: string, body: Uint8Array): readonly [string, string | Uint8Array] {
  if (!isUtf8(body)) return [',"body_encoding":"base64","body":', JSON.stringify(Buffer.from(body).toString('base64'))];
  const bytes = body.subarray(byteOrderMark(body));
  const mayBeJson = mediaType === 'application/json' || mediaType.endsWith('+json') || mediaType === '';
  return [',"body":', mayBeJson && isJson(bytes) ? bytes : JSON.stringify(Buffer.from(bytes).toString('utf8'))];
}

/** Members that every envelope has, refusals included. */
export function envelope(record: ExecutionRecord, facts: TraceFacts): ActionResponse {
  return {
    schema: ACTION_RESPONSE_SCHEMA,
    request_id: record.request_id,
    record_id: record.record_id,
    record_hash: record.record_hash,
    decision: record.decision,
    decision_trace: decisionTrace(record, facts),
  };
}

/** What a refusal is about, and a sentence for people that says more than its reason. */
export interface RefusalDetail {
  readonly path: string;
  readonly message: string;
}

/** What a refusal says, whichever door it leaves by. */
export interface RefusalText {
  readonly status: number;
  readonly reason: string;
  readonly reasonCodes: readonly string[];
  /** The refusal is a failure with a code of its own. */
  readonly errorCode?: string | undefined;
  readonly detail?: RefusalDetail | undefined;
  /** Undefined: what is usual for the decision and its codes. */
  readonly next?: NextStep | undefined;
  /** When the same request may pass. */
  readonly retryAfterSeconds?: number | undefined;
}

/**
 * Body of a refusal on the structured API (specification, "Policy outcomes"). A quarantine says no more than a denial
 * must.
 */
export function directRefusal(record: ExecutionRecord, refusal: RefusalText, facts: TraceFacts): unknown {
  if (record.decision === 'quarantine' || record.decision === 'require_approval') {
    const { decision, approval_id, record_id, record_hash } = record;
    const told = approval_id === undefined ? {} : { approval_id };
    return { decision, ...told, reason: refusal.reason, record_id, record_hash, next: nextOf(record, refusal) };
  }
  const { reason, reasonCodes, detail } = refusal;
  const body = {
    ...envelope(record, facts),
    reason,
    reason_codes: reasonCodes,
    ...(detail ? { details: [detail] } : {}),
    next: nextOf(record, refusal),
    ...budgetOf(record),
  };
  const isError = record.decision === 'error' || refusal.errorCode !== undefined;
  return isError ? { ...body, error: { code: refusal.reasonCodes[0] ?? 'error', message: refusal.reason } } : body;
}

/** Imitates the error body of a provider, so that its own SDK shows the message to a person (decision 8.2). */
export type ProviderError = (
  shape: Dialect['errorShape'],
  error: { status: number; type: string; message: string },
) => Readonly<Record<string, unknown>>;

/** Body of a refusal in a proxied exchange: the specified members beside the provider's own form of an error. */
export function proxiedRefusal(
  record: ExecutionRecord,
  refusal: RefusalText,
  shape: Dialect['errorShape'],
  providerError: ProviderError,
): unknown {
  const code = refusal.reasonCodes[0] ?? record.decision;
  const next = nextOf(record, refusal);
  // What waits for a person says where to look in its detail.
  const saysIt = refusal.next !== undefined && refusal.detail !== undefined;
  const what = record.decision === 'error' ? 'The gateway could not complete this call' : 'Refused by the AI gateway';
  const said = [`${what} (${code}): ${refusal.reason}`, refusal.detail?.message, saysIt ? undefined : next.message];
  const message = said.flatMap((text) => (text === undefined ? [] : [asSentence(text)])).join(' ');
  return {
    ...providerError(shape, { status: refusal.status, type: `gateway_${record.decision}`, message }),
    decision: record.decision,
    reason: refusal.reason,
    reason_codes: refusal.reasonCodes,
    request_id: record.request_id,
    record_id: record.record_id,
    record_hash: record.record_hash,
    next,
    ...budgetOf(record),
  };
}

function asSentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

/** What its caller does next; a cap that starts anew says when the same request may pass. */
function nextOf({ decision, budget, completed_at: at }: ExecutionRecord, { next, reasonCodes, retryAfterSeconds }: RefusalText): NextStep {
  if (next !== undefined) return next;
  const anew = budget?.resets_at === undefined ? undefined : Math.ceil((Date.parse(budget.resets_at) - Date.parse(at)) / 1000);
  return stepAfter({ decision, reasonCodes, retryAfterSeconds: retryAfterSeconds ?? anew });
}

/** The cap that has refused the call: whoever was refused for it may know its amounts (decision 6.19). */
function budgetOf({ budget }: ExecutionRecord): Pick<ExecutionRecord, 'budget'> {
  return budget === undefined ? {} : { budget };
}
