import { collectDefaultMetrics, Registry } from 'prom-client';
import type { Listeners } from '../../base/events/bus.ts';
import { packageVersion } from '../../base/lib/package-root.ts';
import { ERROR_CODES } from '../../base/model/error-codes.ts';
import { READ_METRICS } from '../../operations/served-elsewhere.ts';
import type { DomainKind } from '../../services/learning/discovered-domain.ts';
import type { Cluster } from '../../storage/drivers/open-store.ts';
import type { Route } from '../http/route.ts';
import { controlListeners } from './control-metrics.ts';
import { labelValues } from './label-values.ts';
import { METRICS } from './metric-table.ts';
import { recordListeners } from './record-metrics.ts';
import { counter, gauge, gauges, level, total, totals, usdGauge } from './registered.ts';

const OTHER = 'other';
const ACTION_TYPES: ReadonlySet<string> = new Set(['ai.infer', 'ai.embed', 'ai.moderate', 'http.request']);
/**
 * The one form, whatever is asked for: in OpenMetrics counters whose names the specification fixes would have other
 * ones.
 */
const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

export interface MetricsOptions {
  /** Of the gateway itself. */
  readonly orgId: string;
  /** Org ids that may stand in a label. */
  knownOrg(orgId: string): boolean;
  knownProvider(id: string): boolean;
  /** Action types of the operator's, beside the standard ones. */
  knownActionType(type: string): boolean;
  openTunnels(): number;
  readonly maxTunnels: number;
  /** Undefined before they are open. */
  ports(): PortReadings | undefined;
  bufferedBytes(): number;
  readonly maxBufferedBytes: number;
  /** Of the root that signs, epoch milliseconds; undefined without interception. */
  rootExpiresAt(): number | undefined;
  pendingHashSubmissions(): number;
  discoveredDomains(): number;
  lookalikeDomains(): number;
  domainKinds(): Readonly<Record<DomainKind, { readonly domains: number; readonly hits: number }>> | undefined;
  deferredResponses(): number;
  retentionHeld(): boolean;
  /** Undefined where this gateway is the only one that has its store. */
  readonly cluster: Pick<Cluster, 'health'> | undefined;
  /** What this node holds of caps that nodes share; undefined where there is one node. */
  readonly caps: { readonly heldPico: bigint } | undefined;
  unremovedSegments(): number;
  /** Of the gateway's own ports; undefined: they speak plain HTTP. */
  readonly certificate: OwnCertificateState | undefined;
  /** Undefined without a control plane. */
  readonly link: LinkState | undefined;
  readonly approvals: { readonly pending: number; readonly held: number };
  readonly quarantines: { readonly active: number };
  readonly stops: { readonly active: number };
  /** Destination, outcome, count. */
  exportCounts(): readonly (readonly [destination: string, outcome: string, count: number])[];
  /** Spans by what became of them; none where no traces are sent. */
  traceSpans(): Readonly<Record<string, number>>;
  /** Destination, reason, count. */
  exportDrops(): readonly (readonly [destination: string, reason: string, count: number])[];
  /** Destination, seconds. */
  exportLags(): readonly (readonly [destination: string, seconds: number])[];
  readonly priceLists: PriceListState;
  readonly outbox: {
    readonly waiting: number;
    readonly dropped: Readonly<Record<'age' | 'number', number>>;
    /** Org, reason, count. */
    droppedByOrg(): readonly (readonly [org: string, reason: string, count: number])[];
  };
}

/** What there is to know of the connections of clients. */
interface PortReadings {
  readonly openConnections: number;
  readonly unreadBytes: number;
  /** By why they were closed. */
  readonly closed: Readonly<{ made_room: number; refused: number; unread: number }>;
}

/** What there is to know of the way to the control plane. */
interface LinkState {
  readonly contact: { readonly status: 'connected' | 'offline' };
  readonly offlineMs: number;
  /** Milliseconds since the epoch. */
  readonly certificateExpiresAt: number;
  /** By their result. */
  readonly checkIns: Readonly<Record<string, number>>;
  /** Resource, result, count. */
  fetchCounts(): readonly (readonly [resource: string, result: string, count: number])[];
  readonly submission: {
    readonly counts: { readonly acknowledged: number; readonly lost: number };
    /** RFC 3339. */
    readonly lastSubmitAt: string | undefined;
  };
}

/** What there is to know of the price list in force. */
interface PriceListState {
  readonly ageSeconds: number;
  readonly counts: Readonly<Record<string, number>>;
  readonly held: readonly unknown[];
}

/** What there is to know of the certificate of the gateway's own ports. */
interface OwnCertificateState {
  /** Milliseconds since the epoch. */
  readonly current: { readonly notAfter: number };
  readonly counts: Readonly<{ loaded: number; refused: number }>;
  readonly failedHandshakes: number;
}

export interface Metrics {
  readonly events: Listeners;
  readonly routes: readonly Route[];
}

function watchCertificate(registry: Registry, state: OwnCertificateState): void {
  gauge(registry, METRICS.ownCertificateExpires, () => state.current.notAfter / 1000);
  total(registry, METRICS.ownCertificateReloads, () => state.counts);
  totals(registry, METRICS.ownHandshakesFailed, () => [[state.failedHandshakes]]);
}

function watchLink(registry: Registry, link: LinkState): void {
  gauge(registry, METRICS.cpConnected, () => (link.contact.status === 'connected' ? 1 : 0));
  gauge(registry, METRICS.cpOffline, () => link.offlineMs / 1000);
  gauge(registry, METRICS.cpCertificateExpires, () => link.certificateExpiresAt / 1000);
  total(registry, METRICS.cpCheckIns, () => link.checkIns);
  totals(registry, METRICS.cpFetches, () => link.fetchCounts());
  totals(registry, METRICS.hashesSubmitted, () => [[link.submission.counts.acknowledged]]);
  totals(registry, METRICS.hashesLost, () => [[link.submission.counts.lost]]);
  gauge(registry, METRICS.hashesSubmittedAt, () => {
    const at = link.submission.lastSubmitAt;
    return at === undefined ? undefined : Date.parse(at) / 1000;
  });
}

/** What is asked for when somebody reads the metrics. */
function registerReadings(registry: Registry, options: MetricsOptions): void {
  gauge(registry, METRICS.tunnelsOpen, () => options.openTunnels());
  gauge(registry, METRICS.tunnelsLimit, () => options.maxTunnels);
  gauge(registry, METRICS.connectionsOpen, () => options.ports()?.openConnections ?? 0);
  gauge(registry, METRICS.unreadBytes, () => options.ports()?.unreadBytes ?? 0);
  total(registry, METRICS.connectionsClosed, () => ({ made_room: 0, refused: 0, unread: 0, ...options.ports()?.closed }));
  gauge(registry, METRICS.bufferedBytes, () => options.bufferedBytes());
  gauge(registry, METRICS.bufferedLimit, () => options.maxBufferedBytes);
  gauge(registry, METRICS.discoveredDomains, () => options.discoveredDomains());
  gauge(registry, METRICS.lookalikeDomains, () => options.lookalikeDomains());
  gauges(registry, METRICS.domainKinds, () =>
    Object.entries(options.domainKinds() ?? {}).map(([kind, { domains }]) => [kind, domains] as const),
  );
  gauges(registry, METRICS.domainHits, () => Object.entries(options.domainKinds() ?? {}).map(([kind, { hits }]) => [kind, hits] as const));
  gauge(registry, METRICS.deferredOpen, () => options.deferredResponses());
  gauge(registry, METRICS.retentionHeld, () => (options.retentionHeld() ? 1 : 0));
  gauge(registry, METRICS.backlogRecords, () => options.cluster?.health().backlog.records ?? 0);
  gauge(registry, METRICS.backlogSeconds, () => options.cluster?.health().backlog.seconds ?? 0);
  usdGauge(registry, METRICS.allowanceHeld, () => options.caps?.heldPico);
  gauge(registry, METRICS.databaseConnected, () => options.cluster && Number(!options.cluster.health().isAway));
  gauge(registry, METRICS.unremovedSegments, () => options.unremovedSegments());
  gauge(registry, METRICS.approvalsPending, () => options.approvals.pending);
  gauge(registry, METRICS.approvalsHeld, () => options.approvals.held);
  gauge(registry, METRICS.quarantineActive, () => options.quarantines.active);
  gauge(registry, METRICS.stopsActive, () => options.stops.active);
  gauge(registry, METRICS.outboxWaiting, () => options.outbox.waiting);
  gauge(registry, METRICS.priceListAge, () => options.priceLists.ageSeconds);
  gauge(registry, METRICS.priceListHeld, () => options.priceLists.held.length);
  total(registry, METRICS.priceListUpdates, () => options.priceLists.counts);
  gauge(registry, METRICS.pendingHashes, () => options.pendingHashSubmissions());
  gauge(registry, METRICS.rootExpiry, () => {
    const at = options.rootExpiresAt();
    return at === undefined ? undefined : at / 1000;
  });
  total(registry, METRICS.outboxDropped, () => options.outbox.dropped);
  total(registry, METRICS.traceSpans, () => options.traceSpans());
  totals(registry, METRICS.exported, () => options.exportCounts());
  totals(registry, METRICS.exportDropped, () => options.exportDrops());
  gauges(registry, METRICS.exportLag, () => options.exportLags());
  if (options.link) watchLink(registry, options.link);
  if (options.certificate) watchCertificate(registry, options.certificate);
  level(registry, METRICS.build)(packageVersion()).set(1);
}

/** What tunnels, WebSockets and the clients in them do. */
function connectionListeners(registry: Registry): Listeners {
  const tunnels = counter(registry, METRICS.tunnels);
  const tunnelBytes = counter(registry, METRICS.tunnelBytes);
  const handshakesRejected = counter(registry, METRICS.handshakesRejected);
  const clientCertificatesWanted = counter(registry, METRICS.clientCertificatesWanted);
  const webSocketsOpen = level(registry, METRICS.webSocketsOpen);
  const webSockets = counter(registry, METRICS.webSockets);
  const webSocketMessages = counter(registry, METRICS.webSocketMessages);
  for (const signal of ['alert', 'silent_close']) handshakesRejected(signal);
  const messages = { up: webSocketMessages('up'), down: webSocketMessages('down') };
  return {
    tunnelClosed({ bytesUp, bytesDown }) {
      tunnels().inc();
      tunnelBytes('up').inc(bytesUp);
      tunnelBytes('down').inc(bytesDown);
    },
    handshakeRejected: ({ signal }) => handshakesRejected(signal).inc(),
    clientCertificateWanted: () => clientCertificatesWanted().inc(),
    webSocketOpened(kind) {
      webSockets(kind).inc();
      webSocketsOpen(kind).inc();
    },
    webSocketClosed: (kind) => webSocketsOpen(kind).dec(),
    webSocketMessage: (direction) => messages[direction].inc(),
  };
}

/** With orgs as they are shown: what several of them are shown as is one sum. */
function byShownOrg(
  rows: ReturnType<MetricsOptions['outbox']['droppedByOrg']>,
  shown: (orgId: string) => string,
): readonly (readonly [org: string, reason: string, count: number])[] {
  const sums = new Map<string, [string, string, number]>();
  for (const [orgId, reason, count] of rows) {
    const org = shown(orgId);
    const sum = sums.get(`${org} ${reason}`);
    if (sum === undefined) sums.set(`${org} ${reason}`, [org, reason, count]);
    else sum[2] += count;
  }
  return [...sums.values()];
}

/** Makes the registry, the listeners that feed it and the `/metrics` route. */
export function createMetrics(options: MetricsOptions): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  registerReadings(registry, options);
  const replays = counter(registry, METRICS.replays);
  const unrecorded = counter(registry, METRICS.unrecorded);
  const passed = counter(registry, METRICS.passed);
  const labels = labelValues(
    {
      org: (id) => options.knownOrg(id),
      provider: (id) => options.knownProvider(id),
      actionType: (type) => ACTION_TYPES.has(type) || options.knownActionType(type),
    },
    counter(registry, METRICS.folded),
  );
  totals(registry, METRICS.outboxDroppedOfOrg, () => byShownOrg(options.outbox.droppedByOrg(), labels.org));
  for (const code of Object.keys(ERROR_CODES)) unrecorded(code);
  const events: Listeners = {
    ...controlListeners(registry, labels.org, options.orgId),
    ...connectionListeners(registry),
    ...recordListeners(registry, labels, options.orgId),
    replayed: (orgId) => replays(labels.org(orgId)).inc(),
    unrecorded: ({ code }) => unrecorded(Object.hasOwn(ERROR_CODES, code) ? code : OTHER).inc(),
    passed: () => passed().inc(),
  };
  const routes: readonly Route[] = [
    {
      method: READ_METRICS.method,
      path: READ_METRICS.path,
      auth: READ_METRICS.scope,
      summary: READ_METRICS.summary,
      handle: async () => ({ status: 200, text: await registry.metrics(), contentType: CONTENT_TYPE }),
    },
  ];
  return { events, routes };
}
