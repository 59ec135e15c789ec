import type { ExportedEvent } from '../event-envelope.ts';
import {
  caller,
  given,
  type Named,
  type OcsfObject,
  type OcsfPart,
  OTHER_ACTIVITY,
  object,
  riskScore,
  SEVERITY,
  source,
  text,
  whole,
} from './ocsf-frame.ts';

/** API Activity knows four activities; what else there is has its method as its name. */
const ACTIVITIES: Readonly<Record<string, Named>> = {
  POST: [1, 'Create'],
  GET: [2, 'Read'],
  HEAD: [2, 'Read'],
  PUT: [3, 'Update'],
  PATCH: [3, 'Update'],
  DELETE: [4, 'Delete'],
};

const HTTP_METHODS: ReadonlySet<string> = new Set(['CONNECT', 'DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT', 'TRACE']);

interface Judged {
  readonly action: Named;
  readonly disposition: Named;
  readonly severity: Named;
}

const ALLOWED: Named = [1, 'Allowed'];
const DENIED: Named = [2, 'Denied'];

/** Decisions, as the profile of security controls says them. */
const DECISIONS: Readonly<Record<string, Judged>> = {
  allow: { action: ALLOWED, disposition: [1, 'Allowed'], severity: SEVERITY.informational },
  downgrade: { action: [4, 'Modified'], disposition: [1, 'Allowed'], severity: SEVERITY.informational },
  require_approval: { action: DENIED, disposition: [14, 'Delayed'], severity: SEVERITY.informational },
  rate_limit: { action: DENIED, disposition: [25, 'Rejected'], severity: SEVERITY.low },
  require_attribution: { action: DENIED, disposition: [25, 'Rejected'], severity: SEVERITY.low },
  deny: { action: DENIED, disposition: [2, 'Blocked'], severity: SEVERITY.medium },
  quarantine: { action: DENIED, disposition: [2, 'Blocked'], severity: SEVERITY.high },
  error: { action: ALLOWED, disposition: [27, 'Error'], severity: SEVERITY.low },
};
const UNKNOWN: Judged = { action: [0, 'Unknown'], disposition: [0, 'Unknown'], severity: SEVERITY.informational };

/** An execution record as API Activity (class 6003), with the profile of AI operations where it names a model. */
export function executionPart(event: ExportedEvent): OcsfPart {
  const { payload } = event.envelope;
  const decision = text(payload, 'decision') ?? 'unknown';
  const { action, disposition, severity } = DECISIONS[decision] ?? UNKNOWN;
  const method = text(payload, 'action_method') ?? 'UNKNOWN';
  const host = text(payload, 'target_host');
  const ai = aiOperation(payload);
  const isUsage = payload['record_tier'] === 'usage';
  const createdAt = Date.parse(text(payload, 'created_at') ?? '');
  return {
    class: 'apiActivity',
    activity: isUsage ? [OTHER_ACTIVITY, 'Usage'] : (ACTIVITIES[method] ?? [OTHER_ACTIVITY, method]),
    severity,
    message: `${decision}: ${text(payload, 'action_type') ?? 'request'} to ${host ?? 'nowhere'}`,
    time: Number.isNaN(createdAt) ? undefined : createdAt,
    profiles: ['security_control', ...(ai === undefined ? [] : ['ai_operation'])],
    correlation: text(payload, 'request_id'),
    attributes: given({
      ...outcome(payload, decision),
      action_id: action[0],
      action: action[1],
      disposition_id: disposition[0],
      disposition: disposition[1],
      policy: policy(payload),
      count: whole(payload, 'summed_requests'),
      risk_score: riskScore(payload),
      actor: caller(event),
      src_endpoint: source(event),
      dst_endpoint: host === undefined ? undefined : { hostname: host },
      api: api(payload),
      http_request: httpRequest(payload, method),
      http_response: httpResponse(payload),
      observables: observables(payload),
      ...ai,
    }),
  };
}

function outcome(payload: OcsfObject, decision: string): OcsfObject {
  const went = decision === 'allow' || decision === 'downgrade';
  const status = whole(payload, 'status_code');
  const failed = !went || (status !== undefined && status >= 400);
  const codes = payload['reason_codes'];
  const code: unknown = Array.isArray(codes) ? codes[0] : undefined;
  return {
    status_id: failed ? 2 : 1,
    status: failed ? 'Failure' : 'Success',
    status_code: typeof code === 'string' ? code : status === undefined ? undefined : String(status),
    status_detail: text(payload, 'reason') ?? text(object(payload, 'error'), 'message'),
  };
}

function policy(payload: OcsfObject): OcsfObject | undefined {
  const trace = object(payload, 'policy_trace');
  const bundle = text(trace, 'bundle_id');
  const rules = trace['matched_rule_ids'];
  if (bundle === undefined) return undefined;
  const matched = Array.isArray(rules) && rules.length > 0 ? rules.join(', ') : undefined;
  return given({ uid: bundle, name: bundle, version: text(trace, 'version'), desc: matched });
}

function api(payload: OcsfObject): OcsfObject {
  const provider = text(payload, 'provider') ?? text(payload, 'target_host');
  const request = text(payload, 'request_id');
  const error = object(payload, 'error');
  return given({
    operation: text(payload, 'action_type') ?? 'http.request',
    service: provider === undefined ? undefined : { name: provider },
    request: request === undefined ? undefined : { uid: request },
    response: given({ code: whole(payload, 'status_code'), error: text(error, 'code'), error_message: text(error, 'message') }),
  });
}

function httpRequest(payload: OcsfObject, method: string): OcsfObject {
  const url = given({ url_string: text(payload, 'target'), hostname: text(payload, 'target_host'), path: text(payload, 'target_path') });
  return given({
    uid: text(payload, 'request_id'),
    http_method: HTTP_METHODS.has(method) ? method : undefined,
    url: 'url_string' in url || 'path' in url ? url : undefined,
    body_length: whole(payload, 'request_bytes'),
  });
}

/** Of the provider where there was an answer, else the gateway's own. */
function httpResponse(payload: OcsfObject): OcsfObject | undefined {
  const code = whole(payload, 'upstream_status') ?? whole(payload, 'status_code');
  if (code === undefined) return undefined;
  const latency = whole(payload, 'upstream_latency_ms') ?? whole(payload, 'latency_ms');
  return given({
    code,
    latency,
    body_length: whole(payload, 'response_bytes'),
  });
}

function observables(payload: OcsfObject): readonly OcsfObject[] {
  const found: readonly (readonly [name: string, id: number, type: string, value: string | undefined])[] = [
    ['src_endpoint.ip', 2, 'IP Address', text(payload, 'caller_ip')],
    ['dst_endpoint.hostname', 1, 'Hostname', text(payload, 'target_host')],
    ['actor.user.name', 4, 'User Name', text(payload, 'caller_id')],
  ];
  return found.flatMap(([name, id, type, value]) => (value === undefined ? [] : [{ name, type_id: id, type, value }]));
}

/** The model and what it used. No prompt and no answer is ever in it. */
function aiOperation(payload: OcsfObject): OcsfObject | undefined {
  const provider = text(payload, 'provider');
  const model = text(payload, 'model');
  if (provider === undefined || model === undefined) return undefined;
  const metering = object(payload, 'metering');
  const [into, out] = [whole(metering, 'tokens_in'), whole(metering, 'tokens_out')];
  const tokens =
    into === undefined || out === undefined
      ? {}
      : {
          message_context: {
            uid: text(payload, 'record_id'),
            ai_role_id: 1,
            ai_role: 'User',
            service: { name: provider },
            prompt_tokens: into,
            completion_tokens: out,
            total_tokens: into + out,
          },
        };
  return { ai_model: { ai_provider: provider, name: model }, ...tokens };
}
