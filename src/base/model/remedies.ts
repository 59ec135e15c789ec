import type { ReasonCode } from './reason-codes.ts';

/**
 * What lets a call through that a check beside the rules refused, by the code of its record: what an operator can do by
 * a command, and his assistant by a tool.
 */
export const REMEDIES: Readonly<Partial<Record<ReasonCode, string>>> = {
  rate_limited:
    'Wait a moment; or allow more calls: the limit of the workload (list_workload_ratelimits or `gw workload-limits list`, set_workload_ratelimit or `gw workload-limits put`, delete_workload_ratelimit or `gw workload-limits remove`), that of the org (update_ratelimit_config or `gw ratelimit configure`), or `rate_limit` of a rule.',
  budget_limit_exceeded:
    'Wait for the next period, or raise the limit until a time: list_budget_limits or `gw budgets list` shows which one is spent, set_budget_override or `gw budgets override` raises it.',
  budget_usd_max_exceeded: 'Ask for less (a lower maximum of tokens, a cheaper model), or raise `budget.usd_max` of the rule that sets it.',
  budget_monthly_usd_max_exceeded: 'Wait for the next month, or raise `budget.monthly_usd_max` of the rule that sets it for the project.',
  monthly_request_limit_exceeded: 'Wait for the next month, or have the operator of the gateway raise the monthly requests of the org.',
  approval_required:
    'Have somebody approve it (list_approvals or `gw approvals list`, approve_request or `gw approvals approve`) and send the same call again.',
  approval_denied: 'A person has denied this very call: wait until that ends (`GW_APPROVAL_REJECT_FOR`), or send another one.',
  approval_expired:
    'Nobody decided in time: send the call again, and have it approved (list_approvals or `gw approvals list`, approve_request or `gw approvals approve`).',
  too_many_approvals: 'Decide about those that wait (list_approvals or `gw approvals list`), then send it again.',
  quarantined:
    'Find the entry that holds the caller (list_quarantine or `gw quarantine list`, active) and release it (release_quarantine or `gw quarantine release`); a rule that put him there may do so again.',
  quarantined_while_running:
    'Find the entry that holds the caller (list_quarantine or `gw quarantine list`, active) and release it (release_quarantine or `gw quarantine release`).',
  stopped: 'Find the stop that holds the call (`gw stops list`) and have a person end it (`gw resume`), or wait until it ends by itself.',
  attribution_required: 'Send the attribution that the rule asks for, or give the workload a default.',
  'missing:project_id':
    'Name the project: `X-GW-Project-ID` of the call, `default_attribution` of its workload, or the org defaults (set_org_defaults or `gw org-defaults change`).',
  'missing:customer_id': 'Name the customer: `X-GW-Customer-ID` of the call, or `default_attribution` of its workload.',
  'missing:account_id': 'Name the account: `X-GW-Account-ID` of the call, or `default_attribution` of its workload.',
  project_archived: 'Make the project active again (update_project or `gw projects update`, `status: active`), or name another one.',
  workload_not_registered:
    'Register the workload (create_workload or `gw workloads put`), or have the call name one that is registered (list_workloads or `gw workloads list`).',
  connection_type_not_allowed:
    'Let the workload use this connection type (`allowed_connection_types`, update_workload or `gw workloads put`), or have it call by another door.',
  workload_token_required: 'Have the call show the token of its workload.',
  provider_disabled: 'Switch routing to the provider on (set_provider_mode or `gw providers switch`).',
  byok_disabled:
    'Store a key for the provider (create_credential or `gw credentials put`), or let callers use their own (set_provider_mode or `gw providers switch`, `byok`).',
  credential_not_found: 'Store a key for the provider (create_credential or `gw credentials put`), or have the caller send one.',
  no_credential_candidate: 'Store a key that fits (create_credential or `gw credentials put`), or have the caller send one.',
  connector_not_available: 'Switch the connector on (enable_custom_provider or `gw connectors enable`), or have the rule select another.',
  overlay_not_loaded: 'The overlay of the org does not load: mend it (get_policy or `gw policies list` shows what is wrong).',
  no_bundle: 'There is no policy bundle yet: the control plane has to give one.',
  org_suspended: 'The operator of the gateway, or its control plane, has to make the org active again.',
  operation_not_understood:
    'Call an operation that the gateway knows: a base URL that lacks its `/v1`, or has it twice, leads to a path that is none. Or leave out what the rules, caps and limits of this call ask about it.',
  delegation_expired: 'Have the delegation issued again.',
  delegation_revoked: 'Have the delegation issued again.',
  delegation_budget_exceeded: 'Have the delegation issued again, with a higher `usd_max`.',
};
