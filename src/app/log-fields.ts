/*
 * The names in the lines of the log that tell of requests. They are an interface: what reads the log relies on them
 * (decision 12.8). The reference page is made of these tables, and the lines cannot have others.
 */

interface LogField {
  readonly type: 'text' | 'number' | 'list of texts' | 'boolean';
  readonly meaning: string;
}

/** Of every line. */
export const LINE_FIELDS = {
  level: { type: 'text', meaning: '`trace`, `debug`, `info`, `warn` or `error`.' },
  time: { type: 'text', meaning: 'When it was written, RFC 3339 in UTC.' },
  msg: { type: 'text', meaning: 'What happened, in words that do not change between two versions without a note in the change log.' },
} as const satisfies Record<string, LogField>;

/** Of `request`: one line for each request that has a record, when the last byte of its answer has been sent. */
export const REQUEST_FIELDS = {
  record_id: { type: 'text', meaning: 'Id of the record, and `X-GW-Record-ID` of the answer.' },
  request_id: {
    type: 'text',
    meaning: '`X-GW-Request-ID` of the answer: the `request_id` of a structured call, else the id of the record.',
  },
  trace_id: { type: 'text', meaning: 'Trace that the call belongs to, 32 hex digits.' },
  org_id: { type: 'text', meaning: 'Org of the caller.' },
  workload_id: { type: 'text', meaning: 'Workload that called.' },
  caller_id: { type: 'text', meaning: 'Who calls, as the caller says it.' },
  caller_ip: { type: 'text', meaning: 'Address of the caller.' },
  api_key_id: { type: 'text', meaning: 'API key that was shown; never the key.' },
  project_id: { type: 'text', meaning: 'Project that is charged.' },
  decision: { type: 'text', meaning: 'What was decided.' },
  reason_codes: { type: 'list of texts', meaning: 'Why.' },
  connection_type: { type: 'text', meaning: 'Door by which it came.' },
  traffic_class: { type: 'text', meaning: '`developer` or `ambient`.' },
  record_tier: { type: 'text', meaning: '`action`, or `connection` for what only leads to calls.' },
  action_type: { type: 'text', meaning: 'What was asked for, such as `ai.infer`.' },
  method: { type: 'text', meaning: 'HTTP method of the upstream call.' },
  host: { type: 'text', meaning: 'Host that the call goes to.' },
  connector_id: { type: 'text', meaning: 'Connector that took the call.' },
  provider: { type: 'text', meaning: 'Provider of that host.' },
  model: { type: 'text', meaning: 'Model that was asked.' },
  status: { type: 'number', meaning: 'Status that the caller got.' },
  upstream_status: { type: 'number', meaning: 'Status that the provider answered.' },
  error: { type: 'text', meaning: 'Error code of a call that failed.' },
  summed_requests: { type: 'number', meaning: 'Refused calls that the record stands for (`GW_STRANGER_RECORDS`).' },
  stream: { type: 'boolean', meaning: 'The answer is a stream.' },
  stream_outcome: { type: 'text', meaning: 'How a stream ended.' },
  bytes_in: { type: 'number', meaning: 'Bytes of the request body.' },
  bytes_out: { type: 'number', meaning: 'Bytes of the answer body.' },
  tokens_in: { type: 'number', meaning: 'Tokens of the input.' },
  tokens_out: { type: 'number', meaning: 'Tokens of the output.' },
  cost_usd: { type: 'text', meaning: 'What the call cost, exact decimal text.' },
  cost_doubt: {
    type: 'list of texts',
    meaning:
      'Why the cost is not certain: `no_usage` (the provider told none), `default_rate` (the price list has no rate); left out where it is.',
  },
  upstream_ms: { type: 'number', meaning: 'From the sent request to the head of the provider’s answer, milliseconds.' },
  duration_ms: { type: 'number', meaning: 'From the complete head of the request to the last byte of the answer, milliseconds.' },
} as const satisfies Record<string, LogField>;

/** Of `a request was refused without a record`. */
export const REFUSAL_FIELDS = {
  request_id: { type: 'text', meaning: '`X-GW-Request-ID` of the answer.' },
  trace_id: { type: 'text', meaning: 'Trace that the caller named, when the request came so far that it was read.' },
  code: { type: 'text', meaning: 'Error code.' },
  status: { type: 'number', meaning: 'Status that goes with it.' },
  caller_ip: { type: 'text', meaning: 'Address of the caller.' },
  traffic_class: { type: 'text', meaning: '`developer` or `ambient`.' },
  request: { type: 'text', meaning: 'Method and target, without user, query and fragment, at most 200 characters.' },
  reason: { type: 'text', meaning: 'What the caller was told.' },
  suppressed: { type: 'number', meaning: 'Lines of the same code that were left out before this one.' },
} as const satisfies Record<string, LogField>;

/** Of `authentication failed`: one line in place of the one above. */
export const FAILURE_FIELDS = {
  request_id: REFUSAL_FIELDS.request_id,
  reason: { type: 'text', meaning: 'What is wrong with what was shown.' },
  surface: { type: 'text', meaning: 'What was asked for.' },
  caller_ip: REFUSAL_FIELDS.caller_ip,
  request: REFUSAL_FIELDS.request,
  org_id: { type: 'text', meaning: 'Org that was named.' },
  workload_id: { type: 'text', meaning: 'Workload that was named.' },
  suppressed: { type: 'number', meaning: 'Lines of the same surface that were left out before this one.' },
} as const satisfies Record<string, LogField>;

/** Of `stage`: one line for each stage of a call, at the level `trace`. */
export const STAGE_FIELDS = {
  record_id: { type: 'text', meaning: 'Id of the record that the call has, or would have.' },
  line: { type: 'text', meaning: 'Line that the call walks: `proxied`, `direct`, `tunnel` or `socket`.' },
  stage: { type: 'text', meaning: 'Name of the stage.' },
  microseconds: { type: 'number', meaning: 'What it took, with what it waited for.' },
  ended: {
    type: 'text',
    meaning:
      '`next` (the line goes on), `answered` (the stage has answered by itself), the decision of a refusal, or the code of an error.',
  },
  reason_codes: { type: 'list of texts', meaning: 'Why it was refused; left out where it was not.' },
} as const satisfies Record<string, LogField>;

/** Exactly the fields of a table; those without a value are left out of the line. */
export type Fields<Table> = { readonly [Name in keyof Table]: unknown };
