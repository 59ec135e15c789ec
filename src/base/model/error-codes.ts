/**
 * Every `error.code` that a gateway surface can answer with, its HTTP status and what it means (decision 8.1). The
 * reference page is generated from this table.
 */
export const ERROR_CODES = {
  invalid_request: { status: 400, meaning: 'The body, a header or a parameter is not valid; `details` names each bad member.' },
  INVALID_ARGUMENT: { status: 400, meaning: 'A credential is assigned or changed in a way that its distribution does not permit.' },
  ambiguous_body: { status: 400, meaning: 'The body could be read in two ways, so policy and provider might not see the same request.' },
  invalid_policy: { status: 400, meaning: 'The policy bundle does not load; `details` has file, line and column of each mistake.' },
  invalid_price_list: {
    status: 400,
    meaning: 'The price list cannot be used; `details` has provider and model of each mistake. The one before stays in force.',
  },
  mode_not_supported: { status: 400, meaning: 'The provider has no such mode.' },
  not_supported_yet: { status: 400, meaning: 'A setting, an effect or a request member that nothing in this version enforces.' },
  streaming_not_supported: { status: 400, meaning: '`stream: true` was asked of a connector that cannot stream on the structured API.' },
  no_target_host: { status: 400, meaning: 'Transparent proxy mode found no upstream host in header, Host or path prefix.' },
  invalid_target: { status: 400, meaning: 'The host or path of the upstream call is malformed or has a form that is refused.' },
  bad_framing: {
    status: 400,
    meaning: 'The message framing is ambiguous: duplicate Host, unknown or several Transfer-Encoding, or both framings.',
  },
  https_required: { status: 400, meaning: 'The port speaks TLS (`GW_TLS_CERT_FILE`), and this came as plain HTTP.' },
  body_too_deep: { status: 400, meaning: 'The JSON body nests deeper or has more structural tokens than is parsed.' },
  unauthorized: { status: 401, meaning: 'The token is missing or wrong.' },
  insufficient_scope: { status: 403, meaning: 'The key lacks the scope that this needs, such as `write`.' },
  not_in_group: { status: 403, meaning: 'The rule that asks for an approval names a group, and the key that would decide is not in it.' },
  own_request: { status: 403, meaning: 'Nobody decides an approval that his own key has asked for.' },
  forbidden: { status: 403, meaning: 'The caller may not do this.' },
  origin_not_allowed: { status: 403, meaning: 'A browser page of another origin sent this request.' },
  egress_denied: { status: 403, meaning: 'The upstream address is loopback, private, link-local, metadata or otherwise not public.' },
  connect_refused: { status: 403, meaning: 'CONNECT named a port or a host that the proxy never connects to.' },
  quarantined_while_running: {
    status: 403,
    meaning: 'The caller was put into quarantine while the call was under way (`GW_QUARANTINE_RUNNING=end`).',
  },
  stopped: {
    status: 403,
    meaning:
      'The call was stopped while it was under way (`gw stop`); the message has the reason. In a stream it is said in the last event.',
  },
  workload_token_required: { status: 403, meaning: 'The workload has a token and the request did not present it.' },
  stream_stopped_at_cap: {
    status: 403,
    meaning: 'The stream would have passed a cap (`GW_STREAM_STOP_AT_CAP`); said in its last event, behind the status with which it began.',
  },
  not_found: { status: 404, meaning: 'No such route or entity.' },
  key_not_found: { status: 404, meaning: 'There is no such key, or it was revoked.' },
  invalid_session: { status: 404, meaning: 'The MCP session is not known (any more), or is that of another key: begin with `initialize`.' },
  method_not_allowed: { status: 405, meaning: 'The route exists, for other methods; see `Allow`.' },
  proxy_authentication_required: { status: 407, meaning: 'The proxy needs a valid workload token.' },
  request_timeout: { status: 408, meaning: 'The request did not arrive in time.' },
  conflict: { status: 409, meaning: 'The state of the entity does not permit this.' },
  confirmation_needed: {
    status: 409,
    meaning:
      'The change takes away more than it names, and was asked with `confirm: false`: nothing is changed, `details` says what it takes away.',
  },
  limit_reached: { status: 409, meaning: 'The org has as many of these things as one org may have (guide to limits, "Who shares what").' },
  managed_remotely: {
    status: 409,
    meaning: 'The control plane of this gateway owns it and takes no such writes of gateways: it is changed there.',
  },
  idempotency_key_reused: { status: 409, meaning: 'The idempotency key was used for another action within the last 24 hours.' },
  precondition_failed: { status: 412, meaning: 'Somebody has changed it since: read it again (`If-Match`).' },
  body_too_large: { status: 413, meaning: 'The body is larger than `GW_MAX_BODY_BYTES`, as it came or decoded.' },
  unsupported_encoding: {
    status: 415,
    meaning: 'The request body is compressed in a way that policy cannot read; gzip, br, deflate and zstd can be.',
  },
  misdirected_request: { status: 421, meaning: 'Host is not the authority of the tunnel, or not a name of this gateway.' },
  upgrade_required: { status: 426, meaning: 'A WebSocket whose calls cannot be metered; use HTTPS.' },
  too_many_attempts: { status: 429, meaning: 'Too many wrong keys came from this address; try again later.' },
  too_many_requests: { status: 429, meaning: 'Too many requests of this key or this org are under way or wait for their turn; try again.' },
  too_many_tunnels: { status: 429, meaning: 'The limit of open tunnels and WebSockets is reached.' },
  headers_too_large: { status: 431, meaning: 'The request head is larger than is accepted.' },
  client_gone: { status: 499, meaning: 'The client left before the request was complete; never sent, only recorded.' },
  internal: { status: 500, meaning: 'A fault of the gateway; the log has the details.' },
  gateway_restarted: { status: 500, meaning: 'The gateway ended while the call was under way; never sent, only recorded.' },
  gateway_error: {
    status: 502,
    meaning: 'The gateway that was asked on behalf of this call answered with an error; the message is its own.',
  },
  upstream_unreachable: { status: 502, meaning: 'The upstream could not be reached or broke the connection.' },
  upstream_tls: { status: 502, meaning: 'The upstream certificate or TLS handshake failed; the message says how.' },
  upstream_protocol: { status: 502, meaning: 'The upstream answered something that cannot be passed on.' },
  price_list_unavailable: {
    status: 502,
    meaning: 'The price list could not be had from where it is said to be. The one before stays in force.',
  },
  ledger_proof_invalid: { status: 502, meaning: 'The control plane has sent a proof that does not prove what it should.' },
  record_store_unavailable: { status: 503, meaning: 'Records cannot be written, so no call is forwarded.' },
  folder_not_writable: {
    status: 503,
    meaning:
      'A file of the gateway cannot be written: its disk is full, or a right is missing. Nothing was changed; the message names the folder.',
  },
  overloaded: { status: 503, meaning: 'All buffers are in use, or the share of them that one client may hold; try again.' },
  key_lookup_failed: {
    status: 503,
    meaning:
      'Nobody knows at the moment whether the key that was shown counts: the control plane or the store does not answer, or too many unknown keys are being looked up. The same key may be shown again.',
  },
  control_plane_unreachable: {
    status: 503,
    meaning:
      'The control plane has not been reached for longer than `grace_seconds`, and the org says `strict` for that (`cp_down_policy`); or it alone has what was asked for, and does not answer.',
  },
  limits_unavailable: {
    status: 503,
    meaning:
      'Gateways share what a cap leaves, this one does not hold enough of it for the call, and the database that the others say theirs in does not answer. With `redis_down_policy: allow` the call goes on.',
  },
  shutting_down: {
    status: 503,
    meaning: 'The gateway is stopping: it takes nothing new, and this had not ended within `GW_DRAIN_TIMEOUT`.',
  },
  upstream_timeout: { status: 504, meaning: 'The upstream did not answer in time.' },
  loop_detected: { status: 508, meaning: 'The request has passed this gateway before.' },
} as const satisfies Record<string, { status: number; meaning: string }>;

export type ErrorCode = keyof typeof ERROR_CODES;

const AGAIN_SOON = ['Retry-After', '1'];

/**
 * Header fields that an answer with this code must or should carry, as a flat name, value list (RFC 9110 §11.6.1,
 * §11.7.1, §15.5.22, §10.2.3).
 */
export const ERROR_HEADERS: Readonly<Partial<Record<ErrorCode, readonly string[]>>> = {
  unauthorized: ['WWW-Authenticate', 'Bearer'],
  proxy_authentication_required: ['Proxy-Authenticate', 'Basic realm="AI Request Gateway"'],
  upgrade_required: ['Upgrade', 'HTTP/2.0, HTTP/1.1'],
  too_many_attempts: AGAIN_SOON,
  too_many_requests: AGAIN_SOON,
  too_many_tunnels: AGAIN_SOON,
  overloaded: AGAIN_SOON,
  key_lookup_failed: AGAIN_SOON,
  shutting_down: AGAIN_SOON,
  record_store_unavailable: AGAIN_SOON,
};
