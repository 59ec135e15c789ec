import type { MetricRow } from './metric-table.ts';

/** Every metric of the control plane beside the process's own; the reference page is generated from this table. */
export const CONTROL_PLANE_METRICS = {
  build: { name: 'cp_build_info', type: 'gauge', labels: ['version'], help: '1, with the version of the control plane.' },
  orgs: { name: 'cp_orgs', type: 'gauge', labels: [], help: 'Orgs, whatever their status.' },
  nodes: { name: 'cp_nodes_enrolled', type: 'gauge', labels: [], help: 'Gateways whose certificate counts.' },
  streams: { name: 'cp_streams_open', type: 'gauge', labels: [], help: 'Streams of updates that managed gateways hold open.' },
  connections: {
    name: 'cp_connections_open',
    type: 'gauge',
    labels: ['port'],
    help: 'Connections that are open, by port: `grpc` or `http`.',
  },
  connectionsClosed: {
    name: 'cp_connections_closed_total',
    type: 'counter',
    labels: ['port', 'reason'],
    help: 'Connections that were closed because there was no place: `made_way` for a newer one of their address, `too_many` of their caller.',
  },
  calls: {
    name: 'cp_calls_total',
    type: 'counter',
    labels: ['call', 'result'],
    help: 'Calls of gateways that have ended, by their name and `OK`, or the fault that they ended with.',
  },
  hashesAcknowledged: {
    name: 'cp_hashes_acknowledged_total',
    type: 'counter',
    labels: [],
    help: 'Hashes of records that were acknowledged; one that was handed in twice counts twice.',
  },
  hashesPending: {
    name: 'cp_hashes_pending',
    type: 'gauge',
    labels: [],
    help: 'Hashes of records that are under no root yet; above zero for more than a few seconds means that no batch is closed.',
  },
  timestampsMade: { name: 'cp_timestamps_made_total', type: 'counter', labels: [], help: 'Time stamps of roots that were stored.' },
  timestampsFailed: {
    name: 'cp_timestamps_failed_total',
    type: 'counter',
    labels: [],
    help: 'Tries to have a root stamped that failed (the log says why); roots go on, and each is tried again.',
  },
  timestampNewest: {
    name: 'cp_timestamp_last_timestamp_seconds',
    type: 'gauge',
    labels: [],
    help: 'When the newest time stamp of any org was stored, seconds since the epoch; 0: there is none.',
  },
  cosignatures: {
    name: 'cp_cosignatures_total',
    type: 'counter',
    labels: ['witness'],
    help: 'Cosignatures of checkpoints that were taken, by the name of the witness (`CP_WITNESS_KEYS`).',
  },
  cosignatureNewest: {
    name: 'cp_cosignature_last_timestamp_seconds',
    type: 'gauge',
    labels: ['witness'],
    help: 'Time of the newest cosignature of a witness since the start, seconds since the epoch; 0: none was taken.',
  },
  ledgersAside: {
    name: 'cp_ledgers_set_aside',
    type: 'gauge',
    labels: [],
    help: 'Orgs whose ledger could not be opened (the log says why): their hashes wait at their gateways until its file is put back.',
  },
  keySwitch: {
    name: 'cp_key_switch_timestamp_seconds',
    type: 'gauge',
    labels: ['use'],
    help: 'When the next key of bundles or of the ledger, or the next CA, signs, seconds since the epoch; 0: there is none.',
  },
  keysUnaware: {
    name: 'cp_keys_unaware_nodes',
    type: 'gauge',
    labels: [],
    help: 'Gateways that have not fetched the list of keys as it is now.',
  },
  telemetryReports: { name: 'cp_telemetry_reports_total', type: 'counter', labels: [], help: 'Usage reports of gateways that were taken.' },
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
