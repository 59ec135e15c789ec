import { readFile } from 'node:fs/promises';
import { type CatalogueOptions, loadCatalogue } from '../base/catalogue/catalogue.ts';
import { CatalogueInForce } from '../base/catalogue/catalogue-in-force.ts';
import type { Config } from '../base/config/config.ts';
import { EventBus } from '../base/events/bus.ts';
import type { Destination } from '../base/events/destination.ts';
import { type Clock, systemClock } from '../base/lib/clock.ts';
import { createLogger, type Logger } from '../base/lib/log.ts';
import { SecretBox } from '../base/lib/secret-box.ts';
import { type CertificateAuthority, openCertificateAuthority } from '../inbound/ca/certificate-authority.ts';
import { CertificateInForce } from '../inbound/ca/certificate-in-force.ts';
import type { GatewayLink } from '../link/control-plane-link.ts';
import { createUpstream } from '../outbound/net/create-upstream.ts';
import { via } from '../outbound/net/header-filter.ts';
import type { OpenLane } from '../outbound/net/lane.ts';
import type { RawWays, Upstream } from '../outbound/net/upstream.ts';
import { ClockWatch, clockConfirmation } from '../services/keeper/clock-watch.ts';
import { Leases } from '../services/keeper/lease.ts';
import type { Allowance } from '../services/money/allowance.ts';
import type { KnownOrgs } from '../services/orgs/known-orgs.ts';
import type { ConsoleSessions } from '../services/people/console-sessions.ts';
import { deniesAllWarnings, policyWarnings } from '../services/policy/policy-warnings.ts';
import type { PriceLists } from '../services/prices/price-lists.ts';
import type { Store } from '../storage/contract/store.ts';
import type { Cluster } from '../storage/drivers/open-store.ts';
import { sameRoot, sameSecrets } from './common-secrets.ts';
import { consoleCall } from './console-call.ts';
import { openGatewayStore } from './data-folder.ts';
import { ManagementPlace } from './management-place.ts';
import { openConsoleSessions } from './open-console.ts';
import { openLink } from './open-link.ts';
import { openServices, type Services } from './open-services.ts';
import { clusterWarnings, Readiness, whyAllIsRefused } from './readiness.ts';
import { type AdminToken, openAdminToken, openSecretKeys } from './secrets.ts';
import { openTraces, type Traces } from './tracing.ts';
import { waysOut } from './ways-out.ts';
import { openWriterId } from './writer-id.ts';

/** What tests put in the place of the real thing. */
export interface Replacements {
  readonly clock?: Clock;
  /** By which certificates are made; absent: `clock`. Their judge, a TLS library, asks the machine what time it is. */
  readonly certificateClock?: Clock;
  readonly log?: Logger;
  /** Stands before the store that was opened. */
  readonly store?: (opened: Store) => Store;
  /** Whether other processes have that open, too. */
  readonly isShared?: boolean;
  /** Stands before the allowance that was opened. */
  readonly allowance?: (opened: Allowance) => Allowance;
  /** Beside those that are configured. */
  readonly destinations?: readonly Destination[];
  /** Tables in the place of the shipped ones. */
  readonly catalogue?: CatalogueOptions;
  /** Who speaks HTTP/1.1 to upstreams, in the place of our own client. */
  readonly openLane?: OpenLane | undefined;
}

/** Everything that is opened before the ports are. */
export interface Resources extends Services {
  readonly clock: Clock;
  readonly log: Logger;
  /** Made before everything that tells of something. */
  readonly events: EventBus;
  readonly adminToken: AdminToken;
  readonly store: Store;
  /** Undefined where this gateway is the only one that has its store. */
  readonly cluster: Cluster | undefined;
  readonly clockWatch: ClockWatch;
  readonly leases: Leases;
  /** Segments of the journal that are past their retention and could not be removed yet. */
  readonly retention: { readonly unremoved: number };
  /** Undefined when interception is off. */
  readonly ca: CertificateAuthority | undefined;
  readonly catalogues: CatalogueInForce;
  readonly upstream: Upstream & RawWays;
  /** Undefined without a control plane. */
  readonly link: GatewayLink | undefined;
  /** Never dialled; the ports are added when they are known. */
  readonly ownAddresses: { address: string; port: number }[];
  /** Of the gateway's own ports; undefined: they speak plain HTTP. */
  readonly certificate: CertificateInForce | undefined;
  readonly readiness: Readiness;
  /** Told of the ports when they are known. */
  readonly place: ManagementPlace;
  /** Undefined when the console is switched off. */
  readonly consoleSessions: ConsoleSessions | undefined;
  /** Undefined where no traces are sent. */
  readonly traces: Traces | undefined;
}

/** Opens them in order; what is to be closed again is pushed to `closers` as it is opened. */
export async function openResources(config: Config, replacements: Replacements, closers: (() => Promise<void>)[]): Promise<Resources> {
  const clock = replacements.clock ?? systemClock;
  const log = replacements.log ?? createLogger({ level: config.logLevel, format: config.logFormat, prettyLine: consoleCall });
  const events = new EventBus(log);
  const catalogues = openCatalogues(config, replacements);
  const certificate = await openOwnCertificate(config, { clock, log });
  const adminToken = await openAdminToken(config.dataDir, config.adminToken);
  const box = new SecretBox(await openSecretKeys(config.dataDir, config.secretsKey));
  const retention = { unremoved: 0 };
  const { store, isShared, cluster } = await openStores(config, replacements, { clock, log, box, retention }, closers);
  const writer = await openWriterId(config, { store, isShared }, clock);
  const leases = new Leases({ store, clock, log, holder: writer, isShared });
  closers.push(() => leases.close());
  // Before anything is written with a time of now.
  const { recordRetention: retentionMs, dataDir } = config;
  const clockWatch = await ClockWatch.open({ store, clock, log, events, retentionMs, confirmation: clockConfirmation(dataDir) });
  closers.push(() => clockWatch.close());
  const readiness = new Readiness({ clock, startupGraceMs: config.healthzStartupGrace, store, certificate });
  const ca = await openRoot(config, { clock: replacements.certificateClock ?? clock, log }, closers);
  if (cluster && ca) await sameRoot(store, ca);
  const ownAddresses: Resources['ownAddresses'] = [];
  const extraRoots = config.upstreamCaFile === undefined ? undefined : await readFile(config.upstreamCaFile, 'utf8');
  const late: LateOrgs = {};
  const openUpstream = upstreamOpener(config, { clock, log, catalogues, ownAddresses, extraRoots, openLane: replacements.openLane, late });
  const upstream = openUpstream();
  closers.push(() => upstream.close());
  const place = new ManagementPlace(config, certificate);
  const ways = waysOut(config, { upstream, clock, extraRoots, place, closers });
  const traces = openTraces(config, { clock, log, openUpstream });
  if (traces) closers.push(() => traces.close());
  const ground = { clock, log, events, store, cluster, catalogues, box, clockWatch, leases, writer, waysOut: ways };
  const services = await openServices(config, { destinations: [], ...replacements, ...ground }, closers);
  late.knownOrgs = services.knownOrgs;
  if (cluster) readiness.ask(clusterWarnings(cluster));
  for (const source of warningSources(services, config)) readiness.ask(source);
  // After everything that it fetches for, and before the ports.
  const link = await openLink(config, ground, services, closers);
  const { managementKeys } = services;
  const consoleSessions = await openConsoleSessions(config, { store, clock, log, box, managementKeys, adminToken: adminToken.value });
  const { covers } = services.policies.passage;
  readiness.judgeBy(() => whyAllIsRefused({ ...config, covers }, { ...services, link }));
  return {
    clock,
    log,
    events,
    adminToken,
    store,
    cluster,
    clockWatch,
    leases,
    retention,
    ca,
    catalogues,
    ...services,
    consoleSessions,
    link,
    upstream,
    ownAddresses,
    certificate,
    readiness,
    place,
    traces,
  };
}

/** The store, and the other nodes that have it. */
async function openStores(
  config: Config,
  replacements: Replacements,
  { clock, log, box, retention }: Pick<Resources, 'clock' | 'log'> & { readonly box: SecretBox; readonly retention: { unremoved: number } },
  closers: (() => Promise<void>)[],
): Promise<Pick<Resources, 'store' | 'cluster'> & { readonly isShared: boolean }> {
  const onUnremoved = (segments: number): void => void Object.assign(retention, { unremoved: segments });
  const opened = await openGatewayStore(config, { fsync: config.recordFsync, clock, log, onUnremoved });
  closers.push(() => opened.store.close());
  const store = replacements.store?.(opened.store) ?? opened.store;
  if (opened.cluster) await sameSecrets(store, box);
  return { store, isShared: replacements.isShared ?? opened.isShared, cluster: opened.cluster };
}

/** Undefined: nothing is opened (`GW_PROXY_MITM_ENABLED`). */
async function openRoot(
  { proxyMitmEnabled, caDir: dir }: Config,
  ground: { readonly clock: Clock; readonly log: Logger },
  closers: (() => Promise<void>)[],
): Promise<CertificateAuthority | undefined> {
  if (!proxyMitmEnabled) return undefined;
  const ca = await openCertificateAuthority({ dir, ...ground });
  closers.push(() => ca.close());
  return ca;
}

/** Is there before the first call of anybody. */
interface LateOrgs {
  knownOrgs?: KnownOrgs;
}

/** Who may have something to tell an operator (`warnings` in health). */
function warningSources(
  { policies, remotePolicies, prices, customConnectors, stops }: Services,
  { orgId }: Config,
): readonly Pick<PriceLists, 'warnings'>[] {
  return [
    { warnings: () => [...policyWarnings(policies), ...deniesAllWarnings(policies, orgId)] },
    ...(remotePolicies === undefined ? [] : [remotePolicies.policy, remotePolicies.plan]),
    prices.lists,
    prices.refresh,
    customConnectors,
    stops,
  ];
}

interface UpstreamGround extends Pick<Resources, 'clock' | 'log' | 'catalogues' | 'ownAddresses'> {
  /** PEM text of `GW_UPSTREAM_CA_FILE`. */
  readonly extraRoots: string | undefined;
  readonly openLane: OpenLane | undefined;
  readonly late: LateOrgs;
}

/** What opens a way to upstreams, as the settings want them to be reached. */
function upstreamOpener(config: Config, ground: UpstreamGround): () => Upstream & RawWays {
  const { clock, log, catalogues, ownAddresses, extraRoots, openLane, late } = ground;
  return () =>
    createUpstream({
      clock,
      log,
      openLane,
      isKnownOrg: (org) => late.knownOrgs?.has(org) ?? false,
      connectTo: config.upstreamConnectTo.map(({ from, to }) => ({ host: from.host, port: from.port, toHost: to.host, toPort: to.port })),
      ...(extraRoots === undefined ? {} : { caFile: extraRoots }),
      ...(config.upstreamProxy === undefined ? {} : { parentProxy: config.upstreamProxy, via: via(config.nodeId) }),
      egressAllow: config.egressAllow,
      headersTimeoutMs: config.upstreamHeadersTimeout,
      idleTimeoutMs: config.upstreamIdleTimeout,
      ownAddresses: () => ownAddresses,
      isAiHost: (host) => catalogues.shipped().providerForHost(host) !== undefined,
    });
}

/** @throws Error for a person, when a file cannot be used */
async function openOwnCertificate(
  { tlsCertFile: certFile, tlsKeyFile: keyFile }: Config,
  ground: { clock: Clock; log: Logger },
): Promise<CertificateInForce | undefined> {
  if (certFile === undefined || keyFile === undefined) return undefined;
  return await CertificateInForce.open({ files: { certFile, keyFile }, ...ground });
}

function openCatalogues({ pricingFile }: Config, { catalogue }: Replacements): CatalogueInForce {
  return new CatalogueInForce(loadCatalogue({ ...(pricingFile === undefined ? {} : { pricingFile }), ...catalogue }));
}
