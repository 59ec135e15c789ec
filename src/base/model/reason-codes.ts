/**
 * Who can do something about a refusal, and what: `change`, `less` and `name` are the caller's (another request, a
 * smaller one, one that names what is missing), `person` is somebody else's, of `later` it is a matter of time, and
 * what is `unsure` may have been executed.
 */
export type NextWay = 'change' | 'less' | 'name' | 'later' | 'person' | 'unsure';

interface ReasonCodeRow {
  readonly decision: string;
  readonly meaning: string;
  /** Absent: `person` where the cause lies outside of the request, else what is usual for the decision. */
  readonly next?: NextWay;
  /**
   * The cause lies outside of the request: the same one may be let through later, with nothing changed by its caller
   * (decision 6.7).
   */
  readonly circumstance?: true;
}

/**
 * Every reason code that this gateway itself puts into a decision, a record and `gw_policy_deny_total`, the decision
 * that it explains, and what it means. Rules may add codes of their own (`effect.reason_codes`). `missing:<name>`
 * stands for any attribution that a rule requires, labels as `missing:labels.<key>`; the three fixed names have rows,
 * so that metrics can show them. The reference page is generated from this table.
 */
export const REASON_CODES = {
  default_deny: { decision: 'deny', meaning: 'No rule allowed the request and none refused it.' },
  identity_not_allowed: {
    decision: 'deny',
    meaning: 'The identity layer is an allow-list and no rule of it matched, or one of its rules refused.',
  },
  connector_not_allowed: {
    decision: 'deny',
    meaning: 'The connectors layer is an allow-list and no rule of it matched, or one of its rules refused.',
  },
  credential_not_allowed: {
    decision: 'deny',
    meaning: 'The credentials layer is an allow-list and no rule of it matched, or one of its rules refused.',
  },
  target_not_allowed: {
    decision: 'deny',
    meaning: 'The targets layer is an allow-list and no rule of it matched, or one of its rules refused.',
  },
  policy_denied: { decision: 'deny', meaning: 'A rule of another layer refused and states no code of its own.' },
  strict_conflict: { decision: 'deny', meaning: 'Under `merge_strategy: strict` the matching rules of a layer disagree.' },
  operation_not_understood: {
    decision: 'deny',
    next: 'change',
    meaning:
      'A rule, cap or budget limit needs the model, a param, the stream switch or the cost of a call whose operation (path, method or event) the gateway does not know.',
    circumstance: true,
  },
  policy_too_costly: {
    decision: 'deny',
    next: 'less',
    meaning:
      'Judging the call would take too long: its texts are long, and the patterns, globs and lists that rules hold against them are many ("Who shares what" of the guide to bodies and limits).',
  },
  no_credential_candidate: { decision: 'deny', meaning: 'No credential is left that the call could use.', circumstance: true },
  approval_required: {
    decision: 'require_approval',
    meaning: 'A rule asks for an approval: the request waits for one, or is refused where there are none (`GW_APPROVAL_ENABLED=false`).',
  },
  quarantined: {
    decision: 'quarantine',
    meaning: 'A rule put the caller into quarantine and says nothing else; also of its calls from then on.',
  },
  rate_limited: { decision: 'rate_limit', meaning: 'The bucket of the workload, or that of a rule for it, has no token.' },
  budget_usd_max_exceeded: {
    decision: 'deny',
    next: 'less',
    meaning: 'The estimate of the request is above the cap that a rule sets per request.',
    circumstance: true,
  },
  budget_monthly_usd_max_exceeded: {
    decision: 'deny',
    next: 'less',
    meaning: 'With this request the project would pass the cap that a rule sets for its month.',
    circumstance: true,
  },
  budget_limit_exceeded: {
    decision: 'deny',
    next: 'less',
    meaning: 'With this request a budget limit of its org, project, workload or provider would be passed.',
    circumstance: true,
  },
  stream_stopped_at_cap: {
    decision: 'allow',
    next: 'less',
    meaning:
      'Policy let the call through; its stream was ended where it would have passed a cap (`GW_STREAM_STOP_AT_CAP`). The code behind it says which.',
  },
  monthly_request_limit_exceeded: {
    decision: 'deny',
    meaning: 'The org has used up its requests of this month, and overage is off.',
    circumstance: true,
  },
  attribution_required: { decision: 'require_attribution', meaning: 'A rule asks for attribution and names none that is missing.' },
  'missing:project_id': { decision: 'require_attribution', meaning: 'A rule requires `project_id` and nobody gave it.' },
  'missing:customer_id': { decision: 'require_attribution', meaning: 'A rule requires `customer_id` and nobody gave it.' },
  'missing:account_id': { decision: 'require_attribution', meaning: 'A rule requires `account_id` and nobody gave it.' },
  project_archived: {
    decision: 'deny',
    next: 'change',
    meaning: 'The project that the call would be charged to is archived.',
    circumstance: true,
  },
  org_mismatch: {
    decision: 'deny',
    next: 'change',
    meaning: 'The request names another org than the one that this gateway serves (`GW_ORG_ID`).',
    circumstance: true,
  },
  stopped: {
    decision: 'deny',
    meaning:
      'Calls like this one are stopped (`gw stop`): it is refused before policy is asked, or was ended while it was under way, which its record tells by `error` or `stream_outcome: aborted`.',
    circumstance: true,
  },
  org_suspended: { decision: 'deny', meaning: 'The org is suspended, or terminated by its control plane.', circumstance: true },
  control_plane_unreachable: {
    decision: 'error',
    meaning: 'The control plane was not reached for longer than `grace_seconds`, and the org says `strict` for that.',
  },
  limits_unavailable: {
    decision: 'error',
    meaning:
      'A cap that gateways share holds the call, this gateway does not hold enough of it, and the database could not be asked for more.',
  },
  workload_not_registered: { decision: 'deny', meaning: 'The workload is not registered for the org.', circumstance: true },
  records_summed_up: {
    decision: 'deny',
    meaning:
      'No call by itself: callers who have shown nothing were refused too often for a record each (`GW_STRANGER_RECORDS`). `summed_requests` says how many calls the record stands for; the codes behind this one are theirs.',
  },
  connection_type_not_allowed: { decision: 'deny', meaning: 'The workload may not use this connection type.', circumstance: true },
  workload_mismatch: { decision: 'deny', meaning: 'A request inside a tunnel names another workload than the one that opened it.' },
  workload_token_required: { decision: 'deny', meaning: 'The workload has a token and the request inside the tunnel did not present it.' },
  workload_token_ignored: {
    decision: 'allow',
    meaning:
      'The call showed a workload token that is not the one of its workload: it was mistyped, replaced or removed, or is of another workload or gateway. The workload needs none, so that the call counts as one that showed nothing. Have it show the token that holds (`gw workloads token ID` makes a new one), or none.',
  },
  delegation_malformed: {
    decision: 'deny',
    meaning: 'The delegation token cannot be read, or not in one way only; or it is not the one that `delegation_id` names.',
  },
  delegation_unknown_key: {
    decision: 'deny',
    next: 'person',
    meaning: 'No key of `GW_DELEGATION_VERIFY_KEY` is that of a signature of the delegation token.',
  },
  delegation_bad_signature: { decision: 'deny', meaning: 'A signature of the delegation token does not hold.' },
  delegation_expired: { decision: 'deny', next: 'change', meaning: 'The delegation token, or one above it, has expired.' },
  delegation_not_yet_valid: { decision: 'deny', meaning: 'The delegation token was issued more than 30 s in the future.' },
  delegation_org_mismatch: { decision: 'deny', meaning: 'The delegation token is for another org.' },
  delegation_workload_mismatch: { decision: 'deny', meaning: 'The delegation token is for another workload.' },
  delegation_method_not_allowed: { decision: 'deny', meaning: 'The delegation token does not allow the method (`methods_allow`).' },
  delegation_resource_not_allowed: {
    decision: 'deny',
    meaning: 'No pattern of the delegation token matches the path (`resource_patterns_allow`).',
  },
  delegation_action_not_allowed: { decision: 'deny', meaning: 'The delegation token does not allow the action type (`actions_allow`).' },
  delegation_target_not_allowed: { decision: 'deny', meaning: 'The delegation token does not allow the host (`targets_allow`).' },
  delegation_model_not_allowed: {
    decision: 'deny',
    meaning: 'The delegation token does not allow the model (`allowed_models`), or nobody can say which model the call uses.',
  },
  delegation_budget_exceeded: {
    decision: 'deny',
    next: 'less',
    meaning: 'With this request more than `usd_max` of its delegation, or of one above it, would be spent.',
    circumstance: true,
  },
  delegation_depth_exceeded: { decision: 'deny', meaning: 'The chain of delegations has more than three links.' },
  delegation_bundle_mismatch: { decision: 'deny', meaning: 'The delegation token holds for another policy bundle than the active one.' },
  delegation_not_attenuated: { decision: 'deny', meaning: 'A delegation of the chain is wider than the one above it.' },
  delegation_revoked: {
    decision: 'deny',
    next: 'change',
    meaning: 'The delegation, or one above it, has been revoked.',
    circumstance: true,
  },
  approval_not_possible: {
    decision: 'require_approval',
    next: 'change',
    meaning:
      'A rule asks for an approval of a call whose body is not read whole, could be read in two ways, or has no canonical form, so that nobody could say what is approved.',
  },
  approval_denied: {
    decision: 'deny',
    next: 'change',
    meaning: 'A person has denied this very request (`GW_APPROVAL_REJECT_FOR`).',
    circumstance: true,
  },
  approval_expired: {
    decision: 'deny',
    next: 'change',
    meaning: 'Nobody decided about this very request in time, or nobody used what was given (`GW_APPROVAL_REJECT_FOR`).',
    circumstance: true,
  },
  too_many_approvals: {
    decision: 'deny',
    next: 'later',
    meaning:
      'A rule asks for an approval, and as many requests wait for one already as this caller, his org, or all may have; the reason says which.',
    circumstance: true,
  },
  idempotency_key_reused: {
    decision: 'deny',
    meaning: 'The idempotency key was used for another action, to another place or under another delegation within the last 24 hours.',
  },
  credential_not_found: {
    decision: 'deny',
    next: 'change',
    meaning: 'The credential hint is the id of a stored credential, and there is none of that id.',
    circumstance: true,
  },
  connector_not_available: {
    decision: 'deny',
    meaning: 'Policy selected a custom connector that the org does not have, or has switched off.',
    circumstance: true,
  },
  provider_disabled: {
    decision: 'deny',
    meaning: 'The org has switched off the routing of its calls to this provider.',
    circumstance: true,
  },
  byok_disabled: {
    decision: 'deny',
    meaning: "The org does not take its callers' own keys for this provider, and none is stored.",
    circumstance: true,
  },
  overlay_not_loaded: {
    decision: 'deny',
    meaning: 'What the org has laid over the policy bundle no longer loads: all of its requests are denied until that is put right.',
    circumstance: true,
  },
  no_bundle: {
    decision: 'deny',
    meaning:
      'Policy comes from the control plane, and this gateway never had a bundle of it (or none that it may use): everything is denied.',
    circumstance: true,
  },
  connector_without_host: {
    decision: 'deny',
    next: 'change',
    meaning: 'Policy selected a connector with a host per customer, and the call names none of its hosts.',
    circumstance: true,
  },
  signature_would_break: {
    decision: 'deny',
    meaning: 'The caller signed the call (AWS Signature Version 4), and the gateway would have to change what the signature covers.',
  },
  mutation_not_applicable: {
    decision: 'deny',
    meaning:
      'A mutation has no place in a call where it is certain to hold: its body is not parsed, or it names further models that the rule would have to change.',
  },
  ambiguous_body: {
    decision: 'deny',
    meaning: 'The body could be read in two ways, so policy and provider might not see the same request.',
  },
  misdirected_request: { decision: 'deny', meaning: 'The Host of a request inside a tunnel is not the authority of its CONNECT.' },
  sni_mismatch: { decision: 'deny', meaning: 'The ClientHello in a passed tunnel names an AI host other than the host of its CONNECT.' },
  egress_denied: {
    decision: 'deny',
    next: 'change',
    meaning: 'The upstream address is loopback, private, link-local, metadata or otherwise not public.',
    circumstance: true,
  },
  gateway_restarted: {
    decision: 'error',
    next: 'unsure',
    meaning: 'The gateway ended while the call was under way; it is charged at what was set aside for it.',
  },
  shutting_down: {
    decision: 'error',
    meaning: 'Policy let the call through; the gateway stopped, and the call had not been answered within `GW_DRAIN_TIMEOUT`.',
  },
  quarantined_while_running: {
    decision: 'error',
    next: 'person',
    meaning:
      'Policy let the call through; its caller was put into quarantine while it was under way, and it was ended. Also of an answer that had begun.',
  },
  record_store_unavailable: {
    decision: 'error',
    next: 'unsure',
    meaning: 'Policy let the call through and it was answered, but its record could not be written then; it is charged what it cost.',
  },
  usage_settled: {
    decision: 'allow',
    meaning:
      'No call: the response to an earlier one was made after its answer and has ended; the record says what it cost (`record_tier: usage`).',
  },
  usage_assumed: {
    decision: 'allow',
    meaning: 'The same, of a response that nobody asked for within 24 hours: it is charged at what was set aside for it.',
  },
  upstream_unreachable: {
    decision: 'error',
    meaning: 'Policy let the call through; the upstream could not be reached or broke the connection.',
  },
  upstream_tls: {
    decision: 'error',
    next: 'person',
    meaning: "Policy let the call through; the upstream's certificate or TLS handshake failed.",
  },
  upstream_protocol: {
    decision: 'error',
    next: 'unsure',
    meaning: 'Policy let the call through; the upstream answered something that cannot be passed on.',
  },
  upstream_timeout: { decision: 'error', next: 'unsure', meaning: 'Policy let the call through; the upstream did not answer in time.' },
  client_gone: { decision: 'error', meaning: 'Policy let the call through; the client left before it was forwarded.' },
  internal: {
    decision: 'error',
    next: 'unsure',
    meaning: 'Policy let the call through; a fault of the gateway, or of a rule that does not fit it, ended it.',
  },
} as const satisfies Record<string, ReasonCodeRow>;

export type ReasonCode = keyof typeof REASON_CODES;

/** What is done about a refusal that none of the codes above explains, or whose decision says it whatever they are. */
const BY_DECISION: Readonly<Record<RecordedDecision, { readonly way: NextWay; readonly always?: true }>> = {
  allow: { way: 'change' },
  downgrade: { way: 'change' },
  rate_limit: { way: 'later', always: true },
  require_approval: { way: 'person' },
  require_attribution: { way: 'name', always: true },
  deny: { way: 'change' },
  quarantine: { way: 'person', always: true },
  error: { way: 'later' },
};

/**
 * What can be done about a refusal: what the first of its codes says that says something of its own, else what is usual
 * for the first one that is the gateway's.
 */
export function wayOf(decision: RecordedDecision, reasonCodes: readonly string[]): NextWay {
  const usual = BY_DECISION[decision];
  const rows = usual.always === true ? [] : reasonCodes.flatMap((one): readonly ReasonCodeRow[] => rowsOf(one));
  const own = rows.find(({ next }) => next !== undefined)?.next;
  return own ?? (rows[0]?.circumstance === true ? 'person' : usual.way);
}

function rowsOf(code: string): readonly ReasonCodeRow[] {
  return Object.hasOwn(REASON_CODES, code) ? [REASON_CODES[code as ReasonCode]] : [];
}

/** Codes of refusals whose cause lies outside of the request. */
export const CODES_OF_CIRCUMSTANCES: ReadonlySet<string> = new Set(
  Object.entries<ReasonCodeRow>(REASON_CODES).flatMap(([code, { circumstance }]) => (circumstance === true ? [code] : [])),
);

/**
 * What policy can decide (specification, "What the service does" 1), from the mildest to the most severe (policy.md 4).
 */
export const DECISIONS = ['allow', 'downgrade', 'rate_limit', 'require_approval', 'require_attribution', 'deny', 'quarantine'] as const;
export type Decision = (typeof DECISIONS)[number];

/**
 * What a record can say: a decision, or `error` for a call that policy let through and the gateway could not complete
 * (decision 7.8).
 */
export type RecordedDecision = Decision | 'error';

/** Position in {@link DECISIONS}: a higher number is more severe. */
export function severityOf(decision: Decision): number {
  return DECISIONS.indexOf(decision);
}

/** True for the two decisions that let a request run. */
export function permits(decision: Decision): decision is 'allow' | 'downgrade' {
  return decision === 'allow' || decision === 'downgrade';
}
