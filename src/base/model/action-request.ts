import type { RecordedDecision } from './reason-codes.ts';

export const ACTION_REQUEST_SCHEMA = 'gw.action_request.v2';

const ACTION_TYPE = /^[a-z][a-z0-9_-]*(?:\.[a-z0-9_-]+)+$/;

/** Lower-case words joined by dots, such as `ai.infer`, at most 128 characters. */
export function isActionType(text: string): boolean {
  return text.length <= 128 && ACTION_TYPE.test(text);
}

/** What the caller wants done upstream (specification, "ActionRequest"). */
export interface Action {
  readonly type: string;
  readonly method: string;
  readonly target_host: string;
  /** With its query string, if any. */
  readonly target_path?: string;
  readonly target?: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The one form every request takes, whichever door it came by. */
export interface ActionRequest {
  readonly schema: typeof ACTION_REQUEST_SCHEMA;
  readonly request_id: string;
  readonly org_id: string;
  readonly caller_id?: string;
  readonly workload_id: string;
  readonly context?: {
    readonly purpose?: string;
    readonly labels?: Readonly<Record<string, string>>;
    /** Overrides of the estimate, non-negative integers (decision 5.3). */
    readonly estimates?: { readonly tokens_in?: number; readonly tokens_out_max?: number };
  };
  readonly action: Action;
  readonly attribution: Attribution;
  readonly credential_hint?: string;
  readonly connector_hint?: string;
  readonly idempotency_key?: string;
  readonly delegation_id?: string;
  readonly delegation_token?: string;
}

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

/** Chargeback context of a request or a default for it. An absent member means that nobody gave it. */
export interface Attribution {
  readonly customer_id?: string;
  readonly account_id?: string;
  readonly project_id?: string;
  readonly labels?: Readonly<Record<string, string>>;
}

/** How a request arrived (specification, "Connection types"); the gateway sets it, callers never do. */
export const CONNECTION_TYPES = ['direct_api', 'sdk_redirect', 'connect_proxy'] as const;
export type ConnectionType = (typeof CONNECTION_TYPES)[number];

/** `ambient` is traffic that arrived on the second port; everything else is `developer`. */
export const TRAFFIC_CLASSES = ['developer', 'ambient'] as const;
export type TrafficClass = (typeof TRAFFIC_CLASSES)[number];
