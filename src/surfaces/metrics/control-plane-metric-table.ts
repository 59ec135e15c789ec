import type { MetricRow } from './metric-table.ts';

/** Every metric of the control plane beside the process's own; the reference page is generated from this table. */
export const CONTROL_PLANE_METRICS = {
  build: { name: 'cp_build_info', type: 'gauge', labels: ['version'], help: '1, with the version of the control plane.' },
  orgs: { name: 'cp_orgs', type: 'gauge', labels: ['status'], help: 'Orgs by their status.' },
  nodesConnected: {
    name: 'cp_nodes_connected',
    type: 'gauge',
    labels: [],
    help: 'Gateways that were heard of within the last two minutes, or whose stream of updates is open.',
  },
  calls: {
    name: 'cp_calls_total',
    type: 'counter',
    labels: ['call', 'status'],
    help: 'Calls of gateways that have ended, by the name of the call and the status of gRPC.',
  },
  callDuration: {
    name: 'cp_call_duration_seconds',
    type: 'histogram',
    labels: ['call'],
    help: 'From a call of a gateway to its answer, seconds; streams are not in it.',
    buckets: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5],
  },
  hashesPending: {
    name: 'cp_hashes_pending',
    type: 'gauge',
    labels: [],
    help: 'Hashes of records that are under no root yet; more than a moment above zero means that batches are not closed.',
  },
  adminRequests: {
    name: 'cp_admin_requests_total',
    type: 'counter',
    labels: ['operation', 'status'],
    help: 'Answers of the admin API, by the id of the operation and the status.',
  },
  refused: {
    name: 'cp_refused_total',
    type: 'counter',
    labels: ['code'],
    help: 'Requests on the HTTP port that were answered with an error, by its code.',
  },
  authFailures: {
    name: 'cp_auth_failures_total',
    type: 'counter',
    labels: ['surface', 'reason'],
    help: 'Requests on the HTTP port that showed no token, or a wrong one.',
  },
  changes: {
    name: 'cp_changes_total',
    type: 'counter',
    labels: ['operation'],
    help: 'Changes by people that were stored, by the id of the operation.',
  },
  certificateExpiry: {
    name: 'cp_certificate_expiry_timestamp_seconds',
    type: 'gauge',
    labels: [],
    help: 'When the certificate of the gRPC port expires, seconds since the epoch; it is renewed 30 days before.',
  },
} as const satisfies Record<string, MetricRow>;
