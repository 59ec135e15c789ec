import type { Attribution } from './attribution.ts';

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
