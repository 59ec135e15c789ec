// What rows of the admin API's table are made of, and what stands in many of them.
import { CHAT } from '../support/governed.ts';

export interface Step {
  /** `METHOD path`; `{name}` is what the scene, or an answer before in the row, calls so. */
  readonly ask: string;
  readonly body?: unknown;
  /** Whose token goes with it; default: the admin's, in its own header. */
  readonly as?: 'nobody' | 'bearer' | 'api key';
  /** The gateway that has no org, no interception, no metrics and no discovery. */
  readonly at?: 'bare';
  readonly status: number;
  /** What is in the answer, at least. */
  readonly has?: unknown;
  readonly counts?: Readonly<Record<string, number>>;
  /** What is nowhere in the answer. */
  readonly lacks?: string;
}

export interface Row {
  readonly row: string;
  readonly steps: readonly Step[];
}

/** What is nowhere read back. */
export const SECRET = 'sk-of-the-table';
export const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
export const UUID7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/;
export const HASH = /^[0-9a-f]{64}$/;
export const MONEY = /^\d+(\.\d+)?$/;
export const NOBODY = '00000000-0000-7000-8000-000000000000';
export const NOT_FOUND = { error: { code: 'not_found', message: String } };

/** A structured call. @param user tells apart calls that would otherwise be the same to an approval */
export function callOf(model: string, user = 'u'): object {
  return {
    schema: 'gw.action_request.v2',
    org_id: 'acme',
    workload_id: 'default',
    credential_hint: SECRET,
    action: { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params: { ...CHAT, model, user } },
  };
}
