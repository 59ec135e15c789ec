/*
 * The metrics surface: counts what the events say and shows it as Prometheus text. Labels take values from closed sets
 * only, anything else is `other`, so that no caller can grow the number of series (decision 4.7).
 */

import { CONNECTION_METRICS } from './connection-metrics.ts';
import { DISCOVERY_METRICS } from './discovery-metrics.ts';
import { OUTBOX_METRICS } from './outbox-metrics.ts';
import { PRICE_LIST_METRICS } from './price-list-metrics.ts';
import { STRANGER_METRICS } from './stranger-metrics.ts';

export interface MetricRow {
  readonly name: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly labels: readonly string[];
  readonly help: string;
  /** Upper bounds of a histogram, in the unit that the name ends with. */
  readonly buckets?: readonly number[];
}

/** Every metric that `/metrics` shows beside the process's own; the reference page is generated from this table. */
export const METRICS = {
  requests: {
    name: 'gw_requests_total',
    type: 'counter',
    labels: ['action_type', 'decision', 'org_id'],
    help: 'Recorded requests, those that one record counts together included.',
  },
  ...STRANGER_METRICS,
  duration: {
    name: 'gw_request_duration_ms',
    type: 'histogram',
    labels: ['action_type', 'decision'],
    help: 'From the complete head of a request to the last byte of its answer, milliseconds.',
    buckets: [5, 10, 25, 50, 100, 250, 500, 1000],
  },
  upstreamLatency: {
    name: 'gw_upstream_latency_seconds',
    type: 'histogram',
    labels: ['provider'],
    help: 'From the forwarded request to the head of the upstream answer, seconds.',
    buckets: [0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
  },
  firstByte: {
    name: 'gw_stream_first_byte_seconds',
    type: 'histogram',
    labels: ['provider'],
    help: 'From the forwarded request to the first byte of the body of an answer that is a stream, seconds.',
    buckets: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
  },
  tokens: {
    name: 'gw_tokens_total',
    type: 'counter',
    labels: ['org_id', 'provider', 'direction'],
    help: 'Tokens of records, cached ones included: `in` and `out`.',
  },
  cost: {
    name: 'gw_cost_usd_total',
    type: 'counter',
    labels: ['org_id', 'provider'],
    help: 'Cost of records, US dollars. It is added up exactly and shown as the nearest number.',
  },
  denies: {
    name: 'gw_policy_deny_total',
    type: 'counter',
    labels: ['org_id', 'reason_code'],
    help: 'Denied requests by reason code; a denial with several codes counts under each.',
  },
  rateLimited: {
    name: 'gw_rate_limit_hits',
    type: 'counter',
    labels: ['org_id'],
    help: 'Requests refused for their number.',
  },
  overageEnforced: {
    name: 'gw_org_overage_enforced_total',
    type: 'counter',
    labels: ['org_id'],
    help: 'Requests refused because the monthly request limit was reached.',
  },
  changes: {
    name: 'gw_changes_total',
    type: 'counter',
    labels: ['operation'],
    help: 'Changes that people made, each with an entry in the audit trail.',
  },
  pricedByDefault: {
    name: 'gw_priced_by_default_total',
    type: 'counter',
    labels: ['provider'],
    help: 'Metered calls of models that the price list does not know, charged at 10.00 / 30.00; `GW_PRICING_FILE` gives them rates.',
  },
  ...PRICE_LIST_METRICS,
  ...CONNECTION_METRICS,
  deferredOpen: {
    name: 'gw_deferred_responses_open',
    type: 'gauge',
    labels: [],
    help: 'Responses that are made after the answer to their calls (`background`) and whose end nobody has asked for yet; what was set aside for them stays so.',
  },
  deferredSettled: {
    name: 'gw_deferred_responses_total',
    type: 'counter',
    labels: ['org_id', 'outcome'],
    help: 'Such responses by how they were charged: `reported` by their usage, `unreported` nothing, because the provider reports none (cancelled, failed), `assumed` what was set aside, because nobody asked for a day.',
  },
  replays: {
    name: 'gw_idempotent_replays_total',
    type: 'counter',
    labels: ['org_id'],
    help: 'Calls that were given the answer of an earlier one with the same idempotency key.',
  },
  budgetAlerts: {
    name: 'gw_budget_alerts_total',
    type: 'counter',
    labels: ['org_id', 'level'],
    help: 'Budgets that reached a threshold (`warning`, `critical`, `exceeded`), or whose cap refused a call (`exceeded`), once per period and level.',
  },
  streamsStopped: {
    name: 'gw_streams_stopped_at_cap_total',
    type: 'counter',
    labels: ['org_id', 'reason_code'],
    help: 'Streams that were ended because they would have passed a cap, by the cap (`GW_STREAM_STOP_AT_CAP`).',
  },
  bundlesRejected: {
    name: 'gw_policy_bundle_rejected_total',
    type: 'counter',
    labels: ['reason'],
    help: 'Bundles of the control plane that were not taken: `malformed`, `other_org`, `unknown_key`, `bad_signature`, `rollback` (an older sequence), `sequence_reused` (another bundle under the same), `invalid_policy`. What runs stays.',
  },
  configSyncLag: {
    name: 'gw_config_sync_lag_seconds',
    type: 'histogram',
    labels: [],
    help: 'Managed mode: from a change at the control plane to the moment when it is in force here, seconds.',
    buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
  },
  policyLoads: {
    name: 'gw_policy_loads_total',
    type: 'counter',
    labels: ['bundle', 'trigger', 'result'],
    help: 'Policy bundles that were read while running, `active` or `shadow`, by `put`, `reload`, `watch` or `control_plane`, and `loaded` or `refused`.',
  },
  shadowDecisions: {
    name: 'gw_policy_shadow_decisions_total',
    type: 'counter',
    labels: ['active', 'shadow'],
    help: 'Decisions of the active bundle by what the shadow bundle would have decided; `failed` when it could not.',
  },
  authFailures: {
    name: 'gw_auth_failures_total',
    type: 'counter',
    labels: ['reason', 'org_id'],
    help: 'Authentication failures before policy.',
  },
  apiKeyLookups: {
    name: 'gw_auth_key_lookup_total',
    type: 'counter',
    labels: ['result'],
    help: 'API keys that were looked up: found where they are kept (`hit`), in the store or at the control plane (`fallback`), or nowhere (`miss`).',
  },
  delegations: {
    name: 'gw_delegation_tokens_total',
    type: 'counter',
    labels: ['result'],
    help: 'Delegation tokens that were shown: verified lately (`hit`), verified now (`verified`), or not believed (`refused`).',
  },
  unrecorded: {
    name: 'gw_unrecorded_requests_total',
    type: 'counter',
    labels: ['code'],
    help: 'Requests that ended without a record, by error code.',
  },
  passed: {
    name: 'gw_passed_requests_total',
    type: 'counter',
    labels: [],
    help: 'Requests to hosts that are no AI hosts, passed on unrecorded: plain HTTP, and those inside of inspected tunnels.',
  },
  tunnelsOpen: {
    name: 'gw_tunnels_open',
    type: 'gauge',
    labels: [],
    help: 'CONNECT tunnels and WebSockets that are open, intercepted ones included.',
  },
  bufferedBytes: {
    name: 'gw_buffered_bytes',
    type: 'gauge',
    labels: [],
    help: 'Bytes of bodies that are held in memory, of the `GW_MAX_BUFFERED_BYTES` that may be.',
  },
  tunnels: { name: 'gw_tunnels_total', type: 'counter', labels: [], help: 'Tunnels that were passed through unopened and have ended.' },
  tunnelBytes: {
    name: 'gw_tunnel_bytes_total',
    type: 'counter',
    labels: ['direction'],
    help: 'Bytes relayed by passed tunnels, `up` from the client and `down` to it.',
  },
  webSocketsOpen: {
    name: 'gw_websockets_open',
    type: 'gauge',
    labels: ['kind'],
    help: 'WebSockets that are open: `metered` ones to AI hosts, whose calls are recorded one by one, and `relayed` ones.',
  },
  webSockets: {
    name: 'gw_websockets_total',
    type: 'counter',
    labels: ['kind'],
    help: 'WebSockets that were accepted.',
  },
  webSocketMessages: {
    name: 'gw_websocket_messages_total',
    type: 'counter',
    labels: ['direction'],
    help: 'Text and binary messages that came by metered WebSockets, `up` from the client and `down` from the provider.',
  },
  handshakesRejected: {
    name: 'gw_handshake_rejected_total',
    type: 'counter',
    labels: ['signal'],
    help: 'Intercepted connections whose client did not take our certificate, by TLS `alert` or by `silent_close` right after the handshake (five seconds later, of clients that took none before).',
  },
  clientCertificatesWanted: {
    name: 'gw_client_certificate_wanted_total',
    type: 'counter',
    labels: [],
    help: 'Calls that failed because the upstream wants a client certificate, which the gateway does not have.',
  },
  cpConnected: {
    name: 'gw_cp_connected',
    type: 'gauge',
    labels: [],
    help: '1 while there is contact with the control plane, 0 while there is none. Only with `GW_CP_ADDR`.',
  },
  cpOffline: {
    name: 'gw_cp_offline_seconds',
    type: 'gauge',
    labels: [],
    help: 'How long there has been no contact with the control plane, restarts included; 0 while there is. Past `grace_seconds` of the org its `cp_down_policy` holds.',
  },
  cpCheckIns: {
    name: 'gw_cp_checkins_total',
    type: 'counter',
    labels: ['result'],
    help: 'Check-ins with the control plane: `ok`, `failed`, or `refused` because this node is not its own (any more).',
  },
  cpCertificateExpires: {
    name: 'gw_cp_certificate_expires_timestamp_seconds',
    type: 'gauge',
    labels: [],
    help: 'When the certificate ends by which the control plane knows this node, seconds since the epoch; it renews itself 14 days before.',
  },
  cpFetches: {
    name: 'gw_cp_resource_fetches_total',
    type: 'counter',
    labels: ['resource', 'result'],
    help: 'What was fetched from the control plane, `fetched` or `failed`; where it failed the one before stays in force.',
  },
  hashesSubmitted: {
    name: 'gw_hash_submissions_total',
    type: 'counter',
    labels: [],
    help: 'Record hashes that the control plane has acknowledged, for its ledger. Only with `GW_CP_ADDR`.',
  },
  hashesSubmittedAt: {
    name: 'gw_hash_submission_last_timestamp_seconds',
    type: 'gauge',
    labels: [],
    help: 'When it last acknowledged some, seconds since the epoch, also before this start; not there while it never has.',
  },
  hashesLost: {
    name: 'gw_hashes_lost_total',
    type: 'counter',
    labels: [],
    help: 'Records that `GW_RECORD_RETENTION` removed before the control plane had acknowledged their hashes: they cannot be proved.',
  },
  ownCertificateExpires: {
    name: 'gw_own_certificate_expiry_timestamp_seconds',
    type: 'gauge',
    labels: [],
    help: "When the certificate of the gateway's own ports expires, seconds since the epoch; there with `GW_TLS_CERT_FILE` only.",
  },
  ownCertificateReloads: {
    name: 'gw_own_certificate_reloads_total',
    type: 'counter',
    labels: ['result'],
    help: 'Changes of the files of that certificate that were read while running, `loaded` or `refused` (then the one before stays).',
  },
  ownHandshakesFailed: {
    name: 'gw_own_handshakes_failed_total',
    type: 'counter',
    labels: [],
    help: "TLS handshakes on the gateway's own ports that failed: the client speaks no TLS from 1.2 on, or says by an alert that it does not take the certificate.",
  },
  retentionHeld: {
    name: 'gw_retention_held',
    type: 'gauge',
    labels: [],
    help: '1 while nothing is removed for its age, because the clock is far ahead of when the gateway was last known to run (`gw journal confirm-clock`).',
  },
  backlogRecords: {
    name: 'gw_backlog_records',
    type: 'gauge',
    labels: [],
    help: 'Records of this node that the database does not have yet; 0 without `GW_DATABASE_URL`.',
  },
  backlogSeconds: {
    name: 'gw_backlog_seconds',
    type: 'gauge',
    labels: [],
    help: 'Since when the oldest of what this node has not carried into the database waits, seconds.',
  },
  allowanceHeld: {
    name: 'gw_allowance_held_usd',
    type: 'gauge',
    labels: [],
    help: 'Of budget caps that nodes share, what this node has taken and may spend without asking, or has under way: the sum over all capped scopes; only with `GW_DATABASE_URL`.',
  },
  databaseConnected: {
    name: 'gw_database_connected',
    type: 'gauge',
    labels: [],
    help: '1 while the database that nodes share takes what this one leaves, 0 while it does not; only with `GW_DATABASE_URL`.',
  },
  unremovedSegments: {
    name: 'gw_retention_unremoved_segments',
    type: 'gauge',
    labels: [],
    help: 'Segments of the journal that are past their retention and could not be removed; it is tried again every minute.',
  },
  approvalsPending: { name: 'gw_approvals_pending', type: 'gauge', labels: [], help: 'Requests that wait for an approval.' },
  approvalsHeld: {
    name: 'gw_approvals_held',
    type: 'gauge',
    labels: [],
    help: 'Calls that wait for an approval on their open connections, at this gateway.',
  },
  approvals: {
    name: 'gw_approvals_total',
    type: 'counter',
    labels: ['org_id', 'status'],
    help: 'Requests that began to wait for an approval (`pending`), and approvals that were given, denied or have expired.',
  },
  chatClicks: {
    name: 'gw_chat_clicks_total',
    type: 'counter',
    labels: ['platform', 'outcome'],
    help: 'Clicks on buttons of chat messages: `decided`, `unsigned` (not proven to be of the chat), `unbound` (nobody knows by whom), `refused`, `late` (decided before), `ignored`.',
  },
  quarantined: {
    name: 'gw_quarantine_total',
    type: 'counter',
    labels: ['org_id'],
    help: 'Quarantine entries that were made.',
  },
  quarantineActive: { name: 'gw_quarantine_active', type: 'gauge', labels: [], help: 'Quarantine entries that hold somebody.' },
  stopsActive: { name: 'gw_stops_active', type: 'gauge', labels: [], help: 'Stops that stand: calls that they hold are refused.' },
  riskScore: {
    name: 'gw_risk_score',
    type: 'gauge',
    labels: ['org_id'],
    help: 'Risk score of the last recorded request that was scored, 0.0 to 1.0.',
  },
  riskSignals: {
    name: 'gw_risk_signals',
    type: 'counter',
    labels: ['signal_type', 'org_id'],
    help: 'Risk signals that fired, in recorded requests.',
  },
  ...OUTBOX_METRICS,
  exported: {
    name: 'gw_export_events_total',
    type: 'counter',
    labels: ['destination', 'outcome'],
    help: 'Events that were exported: `delivered`, tried again (`retried`), kept after the last try (`dead`), or given up because too many are kept (`dropped`).',
  },
  pendingHashes: {
    name: 'gw_pending_hash_submissions',
    type: 'gauge',
    labels: [],
    help: 'Record hashes that wait for the control plane; other than zero means that it is offline. Without one nothing waits.',
  },
  tunnelsLimit: {
    name: 'gw_tunnels_limit',
    type: 'gauge',
    labels: [],
    help: 'How many of `gw_tunnels_open` there may be (`GW_MAX_TUNNELS`).',
  },
  bufferedLimit: {
    name: 'gw_buffered_bytes_limit',
    type: 'gauge',
    labels: [],
    help: 'How many of `gw_buffered_bytes` there may be (`GW_MAX_BUFFERED_BYTES`).',
  },
  rootExpiry: {
    name: 'gw_root_expiry_timestamp_seconds',
    type: 'gauge',
    labels: [],
    help: 'When the root, or the first certificate of its chain, expires, seconds since the epoch; absent without interception.',
  },
  build: { name: 'gw_build_info', type: 'gauge', labels: ['version'], help: '1, with the version of the gateway.' },
  folded: {
    name: 'gw_metric_labels_folded_total',
    type: 'counter',
    labels: ['label'],
    help: 'How often a metric counted under `other`, because the name for its label is not known or 500 others are shown already, by the label.',
  },
  traceSpans: {
    name: 'gw_trace_spans_total',
    type: 'counter',
    labels: ['outcome'],
    help: 'Spans of traced calls by what became of them: `exported`, `rejected` by the receiver in a batch that it took, `failed` after the last try, `dropped` because the receiver is slower than they come.',
  },
  exportDropped: {
    name: 'gw_export_dropped_total',
    type: 'counter',
    labels: ['destination', 'reason'],
    help: 'Events that were given up: 10,000 dead letters of the destination are kept already (`dead_letters_full`), or `GW_RECORD_RETENTION` removed the record before the destination had it (`retention`).',
  },
  exportLag: {
    name: 'gw_export_lag_seconds',
    type: 'gauge',
    labels: ['destination'],
    help: 'How far behind a destination is: the age of the oldest event that it has not got, 0 when it has all.',
  },
  ...DISCOVERY_METRICS,
} as const satisfies Record<string, MetricRow>;
