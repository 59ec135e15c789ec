import type { RecordedDecision } from './decision.ts';

export const ACTION_RESPONSE_SCHEMA = 'gw.action_response.v1';
export const DECISION_TRACE_SCHEMA = 'gw.decision_trace.v1';

/** Why a request was decided as it was (specification, "Decision trace"). */
export interface DecisionTrace {
  readonly schema: typeof DECISION_TRACE_SCHEMA;
  readonly decision: RecordedDecision;
  readonly reason_codes: readonly string[];
  readonly evaluated_at: string;
  readonly matched_rule_ids: readonly string[];
  readonly selected_connector_id?: string;
  readonly selected_credential_id?: string;
  readonly attributes: Readonly<Record<string, string>>;
}

/** Answer of `POST /v1/actions:execute` (specification, "ActionResponse"). */
export interface ActionResponse {
  readonly schema: typeof ACTION_RESPONSE_SCHEMA;
  readonly request_id: string;
  readonly record_id: string;
  readonly record_hash: string;
  readonly decision: RecordedDecision;
  readonly decision_trace: DecisionTrace;
  readonly result?: { readonly status_code: number; readonly body?: unknown; readonly body_encoding?: 'base64' };
  readonly reason?: string;
  readonly reason_codes?: readonly string[];
  readonly approval_id?: string;
}
