import type { Socket } from 'node:net';
import { parseBasic } from '../../base/lib/basic-credentials.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { parseAuthority, SELF_TEST_HOST } from '../../base/lib/host.ts';
import type { Arrival, ArrivalHead, TriedCaller, WaitingClient } from '../../base/model/arrival.ts';
import { runProxied } from '../../pipeline/enter.ts';
import type { LineGround } from '../../pipeline/parts/call-services.ts';
import { orgOfRequest } from '../../pipeline/passage/caller-org.ts';
import { passOn } from '../../pipeline/passage/pass.ts';
import { answeredToPage } from '../../surfaces/http/page-reply.ts';
import type { Router } from '../../surfaces/http/router.ts';
import type { ConnectVerdict } from '../listener/connect-door.ts';
import type { ConnectRequest } from '../listener/connect-request.ts';
import { classifyOrigin, guardOrigin, type OriginGuard } from '../normalise/door.ts';
import { type ShownToProxy, shownToProxy } from '../normalise/shown-by.ts';
import { pathSent } from '../normalise/target.ts';
import { letIn, tryCaller } from './proxy-callers.ts';
import { dependsOnOrg, isSelfTest, restPasses, type Treatment, treatmentOf } from './treatment.ts';
import { decideTunnel, dialTunnel, type TunnelGround } from './tunnel-door.ts';

export interface DoorOptions extends TunnelGround {
  readonly router: Router;
  /** Serves the management port; undefined when that port is off. */
  readonly managementRouter: Router | undefined;
  /** Asked for each request, because the ports are known only when they are open. */
  guard(): OriginGuard;
}

export interface Doors {
  /** Connects for a tunnel that passes. @throws GatewayError the refusal */
  dial(request: ConnectRequest): Promise<Socket>;
  onArrival(arrival: Arrival): void;
  /** The same on the management port. */
  onManagement(arrival: Arrival): void;
  onTunnel(request: ConnectRequest, client: WaitingClient): Promise<ConnectVerdict>;
}

/** Tells apart what arrives on a port (decision 3.1) and gives it to the pipeline or to the gateway's own routes. */
export function createDoors(options: DoorOptions): Doors {
  return {
    onArrival: (arrival) => admitArrival(arrival, options),
    onManagement: (arrival) => admitManagement(arrival, options),
    onTunnel: (request, client) => decideTunnel(request, options, client),
    dial: (request) => dialTunnel(request, options),
  };
}

function admitArrival(arrived: Arrival, options: DoorOptions): void {
  const { pipeline, router, proxyEnabled } = options;
  const { head } = arrived;
  if (head.door !== 'origin') {
    admitProxied(arrived, options);
    return;
  }
  const refused = guardOrigin(head, options.guard(), router);
  const isOfPage = refused !== undefined || head.headers['origin'] !== undefined;
  const arrival = isOfPage ? answeredToPage(arrived, refused, router) : arrived;
  if (arrival === undefined) return;
  const ambient = head.trafficClass === 'ambient';
  const ownsPath = (path: string) => router.owns(path, ambient);
  if (classifyOrigin(head, { catalogue: pipeline.catalogues.current(), ownsPath }) !== 'transparent') void router.handle(arrival);
  else if (proxyEnabled && !ambient) void runProxied(arrival, pipeline);
  else router.refuse(arrival, new GatewayError('not_found', 'Base URLs are served on GW_PORT, unless GW_PROXY_ENABLED is false.'));
}

/** What came by CONNECT, or as to any forward proxy. */
function admitProxied(arrival: Arrival, options: DoorOptions): void {
  const { pipeline, router, proxyEnabled } = options;
  const { head } = arrival;
  if (!proxyEnabled) router.refuse(arrival, new GatewayError('connect_refused', 'The proxy is switched off (GW_PROXY_ENABLED=false).'));
  else if (head.tunnel !== undefined && isSelfTest(head.tunnel.authority)) answerSelfTest(arrival, pipeline.settings.nodeId);
  else admitTo(arrival, head.tunnel?.authority.host ?? absoluteHost(head), options);
}

/** @param host canonical; undefined: the target names none */
function admitTo(arrival: Arrival, host: string | undefined, options: DoorOptions): void {
  const { pipeline, rules } = options;
  const { head } = arrival;
  if (head.tunnel?.org !== undefined || (host !== undefined && dependsOnOrg(host, rules))) void admitByOrg(arrival, host ?? '', options);
  else if (head.door === 'absolute' && host === SELF_TEST_HOST) void trySelf(arrival, pipeline);
  else if (head.door === 'absolute' && !isGoverned(head, host, options)) void passAbsolute(arrival, options);
  else if (head.tunnel?.undecided || (head.tunnel?.shared && isRest(head, head.tunnel.authority.host, options))) passOn(arrival, pipeline);
  else void runProxied(arrival, pipeline);
}

/**
 * A request to a host at which an org has a connector of its own: for callers of that org it is a call, for all others
 * what any host's traffic is (decision 3.8). Whom the line refuses goes there: it says why, with a record. So does all
 * that an org sends in a tunnel that was opened for its connector, also when that is gone meanwhile.
 */
async function admitByOrg(arrival: Arrival, host: string, options: DoorOptions): Promise<void> {
  const { pipeline, rules } = options;
  const { head } = arrival;
  const org = await orgOfRequest(head, pipeline);
  if (org === undefined) void runProxied(arrival, pipeline);
  else if (org === head.tunnel?.org || !UNDECIDED.has(treatmentOf(host, rules, org)))
    void runProxied({ ...arrival, head: { ...head, org } }, pipeline);
  else if (head.door === 'absolute') void passAbsolute(arrival, options, org);
  else passOn(arrival, pipeline, { org });
}

/** Nothing but the routes of that port, behind the guards of the others (decision 10.10). */
function admitManagement(arrived: Arrival, options: DoorOptions): void {
  const { managementRouter: router } = options;
  if (router === undefined) throw new TypeError('there is no management port');
  if (arrived.head.door !== 'origin') {
    router.refuse(arrived, new GatewayError('connect_refused', 'This port is no proxy; that is on GW_PORT.'));
    return;
  }
  const arrival = answeredToPage(arrived, guardOrigin(arrived.head, options.guard(), router), router);
  if (arrival !== undefined) void router.handle(arrival);
}

function absoluteHost({ rawTarget }: ArrivalHead): string | undefined {
  const authority = /^(?:https?|wss?):\/\/([^/?#]*)/i.exec(rawTarget)?.[1];
  return authority === undefined ? undefined : parseAuthority(authority, 80)?.host;
}

const UNDECIDED: ReadonlySet<Treatment> = new Set(['inspect', 'pass']);

/**
 * True for a request with a whole URL that policy decides. What cannot be read as a host is left to the line, which
 * says so.
 */
function isGoverned(head: ArrivalHead, host: string | undefined, options: DoorOptions): boolean {
  if (host === undefined) return true;
  const treatment = treatmentOf(host, options.rules);
  return !UNDECIDED.has(treatment) && !(treatment === 'govern' && restPasses(host, options.rules) && isRest(head, host, options));
}

/** Whether a request goes to a shared host and is no call, however its path is read (decision 3.8). */
function isRest(head: ArrivalHead, host: string, { rules }: DoorOptions): boolean {
  const catalogue = rules.catalogues.current();
  const provider = catalogue.providerForHost(host);
  const path = provider?.shared === true ? pathSent(head) : undefined;
  return provider !== undefined && path !== undefined && !catalogue.isCall(provider, head.method, path);
}

/** The self-test by plain HTTP: also where no tunnel is opened, and for who has no certificate yet. */
async function trySelf(arrival: Arrival, pipeline: LineGround): Promise<void> {
  const { head } = arrival;
  answerSelfTest(arrival, pipeline.settings.nodeId, await tryCaller(shownByAbsolute(head), () => head, pipeline));
}

function shownByAbsolute({ headers }: ArrivalHead): ShownToProxy {
  return shownToProxy(headers, parseBasic(headers['proxy-authorization']));
}

/** @param org of the caller, where what becomes of the request depends on it */
async function passAbsolute(arrival: Arrival, { pipeline, router }: DoorOptions, org?: string): Promise<void> {
  const { head } = arrival;
  const who = await letIn(shownByAbsolute(head), () => head, pipeline);
  if (who instanceof GatewayError) router.refuse(arrival, who);
  else passOn(arrival, pipeline, { shownOrg: who.fixedOrg ?? who.workloadOrg, org });
}

/**
 * Says that a client came to the proxy, by a tunnel also that it took the certificate, and whether its calls would be
 * let in: what it asks is not looked at, and goes nowhere.
 */
export function answerSelfTest({ head, reply }: Arrival, nodeId: string, tried: TriedCaller | undefined = head.tunnel?.tried): void {
  const caller = tried?.refused === true ? 'refused' : 'accepted';
  const said = { self_test: 'ok', node_id: nodeId, http_version: head.httpVersion, caller };
  const text = Buffer.from(`${JSON.stringify({ ...said, caller_problem: tried?.problem, caller_needs: tried?.needs })}\n`);
  const headers = ['Content-Type', 'application/json', 'Cache-Control', 'no-store'];
  if (head.method === 'HEAD') {
    reply.head(200, headers, text.length);
    reply.end();
  } else reply.sendWhole(200, headers, text);
}
