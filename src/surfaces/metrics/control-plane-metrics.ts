import { collectDefaultMetrics, Registry } from 'prom-client';
import type { Listeners } from '../../base/events/bus.ts';
import { packageVersion } from '../../base/lib/package-root.ts';
import { ERROR_CODES } from '../../base/model/error-codes.ts';
import type { ControlPlaneCounts, PortConnections } from '../../control-plane/state/control-plane-counts.ts';
import type { Route } from '../http/route.ts';
import { CONTROL_PLANE_METRICS } from './control-plane-metric-table.ts';
import { counter, gauge, gauges, level, totals } from './registered.ts';

const PLAIN_TEXT = 'text/plain; version=0.0.4; charset=utf-8';
const OTHER = 'other';
const REASONS = ['missing_header', 'invalid_key'] as const;

/** What is asked for when somebody reads the metrics. */
export interface ControlPlaneReadings {
  /** Ids that may stand in the label `operation`. */
  readonly operations: readonly string[];
  counts(): ControlPlaneCounts;
  connections(): readonly PortConnections[];
  /** Of the gRPC port, milliseconds since the epoch. */
  certificateExpiresAt(): number;
}

export interface ControlPlaneMetrics {
  readonly events: Listeners;
  readonly routes: readonly Route[];
  /** The admin API has answered. */
  answered(operation: string, status: number): void;
}

/**
 * Makes the registry of the control plane, what feeds it and its `/metrics` (decision 13.6). No label takes what a
 * caller chose.
 */
export function createControlPlaneMetrics(readings: ControlPlaneReadings): ControlPlaneMetrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  level(registry, CONTROL_PLANE_METRICS.build)(packageVersion()).set(1);
  registerCounts(registry, () => readings.counts());
  gauges(registry, CONTROL_PLANE_METRICS.connections, () => readings.connections().map(({ port, open }) => [port, open] as const));
  totals(registry, CONTROL_PLANE_METRICS.connectionsClosed, () =>
    readings
      .connections()
      .flatMap(({ port, closed: { madeWay, refused } }) => [[port, 'made_way', madeWay] as const, [port, 'too_many', refused] as const]),
  );
  gauge(registry, CONTROL_PLANE_METRICS.certificateExpiry, () => readings.certificateExpiresAt() / 1000);
  const requests = counter(registry, CONTROL_PLANE_METRICS.adminRequests);
  const refused = counter(registry, CONTROL_PLANE_METRICS.refused);
  const failures = counter(registry, CONTROL_PLANE_METRICS.authFailures);
  const changes = counter(registry, CONTROL_PLANE_METRICS.changes);
  const known = new Set(readings.operations);
  const operationName = (id: string) => (known.has(id) ? id : OTHER);
  // What alerts look at is there before it counts.
  for (const surface of ['admin', 'metrics']) for (const reason of REASONS) failures(surface, reason);
  return {
    answered: (operation, status) => requests(operationName(operation), String(status)).inc(),
    events: {
      authFailure: ({ surface, reason }) => failures(surface, reason).inc(),
      unrecorded: ({ code }) => refused(Object.hasOwn(ERROR_CODES, code) ? code : OTHER).inc(),
      audit: ({ operation }) => changes(operationName(operation)).inc(),
    },
    routes: [
      {
        method: 'GET',
        path: '/metrics',
        auth: 'metrics',
        summary: 'Metrics as Prometheus reads them.',
        handle: async () => ({ status: 200, text: await registry.metrics(), contentType: PLAIN_TEXT }),
      },
    ],
  };
}

function registerCounts(registry: Registry, counts: () => ControlPlaneCounts): void {
  gauge(registry, CONTROL_PLANE_METRICS.orgs, () => counts().orgs);
  gauge(registry, CONTROL_PLANE_METRICS.nodes, () => counts().enrolledNodes);
  gauge(registry, CONTROL_PLANE_METRICS.streams, () => counts().connectedStreams);
  gauge(registry, CONTROL_PLANE_METRICS.hashesPending, () => counts().pendingHashes);
  gauge(registry, CONTROL_PLANE_METRICS.ledgersAside, () => counts().ledgersAside);
  gauge(registry, CONTROL_PLANE_METRICS.ledgersBehind, () => counts().ledgersBehind);
  gauge(registry, CONTROL_PLANE_METRICS.restore, () => (counts().restoredAt ?? 0) / 1000);
  totals(registry, CONTROL_PLANE_METRICS.timestampsMade, () => [[counts().timestamps.made]]);
  totals(registry, CONTROL_PLANE_METRICS.timestampsFailed, () => [[counts().timestamps.failed]]);
  gauge(registry, CONTROL_PLANE_METRICS.timestampNewest, () => (counts().timestamps.newestAt ?? 0) / 1000);
  totals(registry, CONTROL_PLANE_METRICS.logEntriesMade, () => [[counts().logEntries.made]]);
  totals(registry, CONTROL_PLANE_METRICS.logEntriesFailed, () => [[counts().logEntries.failed]]);
  gauge(registry, CONTROL_PLANE_METRICS.logEntryNewest, () => (counts().logEntries.newestAt ?? 0) / 1000);
  totals(registry, CONTROL_PLANE_METRICS.cosignatures, () => counts().cosignatures.map(({ witness, taken }) => [witness, taken] as const));
  gauges(registry, CONTROL_PLANE_METRICS.cosignatureNewest, () =>
    counts().cosignatures.map(({ witness, newest }) => [witness, newest] as const),
  );
  gauges(registry, CONTROL_PLANE_METRICS.keySwitch, () => counts().keySwitches.map(([use, at]) => [use, (at ?? 0) / 1000] as const));
  gauge(registry, CONTROL_PLANE_METRICS.keysUnaware, () => counts().unawareNodes);
  totals(registry, CONTROL_PLANE_METRICS.hashesAcknowledged, () => [[counts().acknowledgedHashes]]);
  totals(registry, CONTROL_PLANE_METRICS.telemetryReports, () => [[counts().telemetryReports]]);
  totals(registry, CONTROL_PLANE_METRICS.calls, () => counts().calls.map(({ method, result, count }) => [method, result, count] as const));
}
