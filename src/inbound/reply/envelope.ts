import {
  ACTION_RESPONSE_SCHEMA,
  type ActionResponse,
  DECISION_TRACE_SCHEMA,
  type DecisionTrace,
} from '../../base/model/action-response.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';

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

/** The upstream's body inside an envelope: JSON as it is, other text as a string, anything else base64 (decision 7.8). */
export function resultOf(status: number, mediaType: string, body: Uint8Array): NonNullable<ActionResponse['result']> {
  if (body.length === 0) return { status_code: status };
  const text = asUtf8(body);
  if (text === undefined) return { status_code: status, body: Buffer.from(body).toString('base64'), body_encoding: 'base64' };
  if (mediaType === 'application/json' || mediaType.endsWith('+json') || mediaType === '') {
    try {
      return { status_code: status, body: JSON.parse(text) as unknown };
    } catch {
      return { status_code: status, body: text };
    }
  }
  return { status_code: status, body: text };
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

function asUtf8(body: Uint8Array): string | undefined {
  try {
    return utf8.decode(body);
  } catch {
    return undefined;
  }
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
