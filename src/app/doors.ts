import type { Socket } from 'node:net';
import { parseBasic } from '../base/lib/basic-credentials.ts';
import { GatewayError, type GatewayErrorOptions } from '../base/lib/gateway-error.ts';
import { canonicalHost, parseAuthority, SELF_TEST_HOST } from '../base/lib/host.ts';
import { REQUEST_ID_HEADER } from '../base/lib/ids.ts';
import { holdsOwnToken, tokenInUrl, tokensInHeaders } from '../base/lib/own-tokens.ts';
import type { Arrival, ArrivalHead, Tunnel } from '../base/model/arrival.ts';
import type { ErrorCode } from '../base/model/error-codes.ts';
import type { ExecutionRecord } from '../base/model/execution-record.ts';
import type { ConnectVerdict } from '../inbound/listener/connect-door.ts';
import type { ConnectRequest } from '../inbound/listener/connect-request.ts';
import { holderOfTunnel } from '../inbound/listener/open-tunnels.ts';
import { classifyOrigin, guardOrigin, type OriginGuard } from '../inbound/normalise/door.ts';
import { sentFrom } from '../inbound/normalise/identity.ts';
import { pathSent } from '../inbound/normalise/target.ts';
import { governedHeaders } from '../inbound/reply/answer-head.ts';
import { denyEgress, denyServerName, denySuspended, runProxied, runTunnel } from '../pipeline/enter.ts';
import type { RunResult } from '../pipeline/line/run-call.ts';
import type { LineGround } from '../pipeline/parts/call-services.ts';
import { refuseLoop } from '../pipeline/parts/refusal.ts';
import { barredOrg } from '../pipeline/passage/barred-org.ts';
import { callerOrg, orgOfRequest } from '../pipeline/passage/caller-org.ts';
import { passOn } from '../pipeline/passage/pass.ts';
import { senderOf } from '../pipeline/passage/sender.ts';
import { answeredToPage } from '../surfaces/http/page-reply.ts';
import type { Router } from '../surfaces/http/router.ts';
import { letIn, type ShownToProxy, tryCaller } from './proxy-callers.ts';
import { answerSelfTest, isSelfTest } from './self-test.ts';
import { catalogueFor, dependsOnOrg, restPasses, type Treatment, type TreatmentRules, treatmentOf } from './treatment.ts';

export interface DoorOptions {
  readonly pipeline: LineGround;
  readonly router: Router;
  /** Of the management port; undefined: there is none. */
  readonly managementRouter: Router | undefined;
  /** `GW_PROXY_ENABLED`. */
  readonly proxyEnabled: boolean;
  readonly rules: TreatmentRules;
  /** Asked for each request, because the ports are known only when they are open. */
  guard(): OriginGuard;
}

export interface Doors {
  /** Connects for a tunnel that passes. @throws GatewayError the refusal */
  dial(request: ConnectRequest): Promise<Socket>;
  onArrival(arrival: Arrival): void;
  /** The same on the management port. */
  onManagement(arrival: Arrival): void;
  onTunnel(request: ConnectRequest): Promise<ConnectVerdict>;
}

/** Tells apart what arrives on a port (decision 3.1) and gives it to the pipeline or to the gateway's own routes. */
export function createDoors(options: DoorOptions): Doors {
  return {
    onArrival: (arrival) => admitArrival(arrival, options),
    onManagement: (arrival) => admitManagement(arrival, options),
    onTunnel: (request) => decideTunnel(request, options),
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
  const credentials = parseBasic(headers['proxy-authorization']);
  const { apiKey, workloadToken } = tokensInHeaders(headers);
  return { user: credentials?.user, password: credentials?.password || workloadToken, apiKey };
}

/** @param org of the caller, where what becomes of the request depends on it */
async function passAbsolute(arrival: Arrival, { pipeline, router }: DoorOptions, org?: string): Promise<void> {
  const { head } = arrival;
  const who = await letIn(shownByAbsolute(head), () => head, pipeline);
  if (who instanceof GatewayError) router.refuse(arrival, who);
  else passOn(arrival, pipeline, { shownOrg: who.fixedOrg ?? who.workloadOrg, org });
}

/** What becomes of a CONNECT: intercepted, passed through, or refused (decisions 3.7, 3.8, 4.5). */
async function decideTunnel(request: ConnectRequest, options: DoorOptions): Promise<ConnectVerdict> {
  const { pipeline, proxyEnabled, rules } = options;
  const refuse = (error: GatewayError): ConnectVerdict => ({ kind: 'refuse', error });
  if (!proxyEnabled) return refuse(new GatewayError('connect_refused', 'The proxy is switched off (GW_PROXY_ENABLED=false).'));
  refuseLoop(request.rawHeaders, pipeline.settings.nodeId);
  if (holdsOwnToken(request.authority.host)) return refuse(tokenInUrl());
  const asked = tunnelOf(request, pipeline);
  const shown = { user: asked.proxyUser, password: asked.proxyPassword, apiKey: asked.apiKey };
  const headOf = () => connectHead(request, asked, pipeline);
  if (isSelfTest(request.authority) && rules.intercept)
    return { kind: 'intercept', tunnel: { authority: request.authority, tried: await tryCaller(shown, headOf, pipeline) } };
  const who = await letIn(shown, headOf, pipeline);
  if (who instanceof GatewayError) return refuse(who);
  const tunnel: Tunnel = { ...asked, ...who };
  const head = connectHead(request, tunnel, pipeline);
  const { host } = request.authority;
  const from = tunnel.callerIp ?? request.remoteAddress;
  pipeline.events.emit('connected', { host, trafficClass: request.trafficClass, from, ...senderOf(head, pipeline) });
  const org = dependsOnOrg(host, rules) ? callerOrg(head, pipeline) : undefined;
  const treatment = treatmentOf(host, rules, org);
  pipeline.controlPlane?.awaken();
  const barred = barredOrg(head, pipeline);
  const opened: Opened = { head, treatment, barred, org };
  return treatment === 'govern' || treatment === 'inspect' ? intercepted(opened, tunnel, options) : passThrough(opened, pipeline);
}

/** A CONNECT of somebody who was let in. */
interface Opened {
  readonly head: ArrivalHead;
  readonly treatment: Treatment;
  /** The org for which nobody is served; undefined: all of them are. */
  readonly barred: string | undefined;
  /** Of the caller, where what becomes of the CONNECT depends on it. */
  readonly org: string | undefined;
}

function intercepted({ treatment, barred, org }: Opened, tunnel: Tunnel, { pipeline, rules }: DoorOptions): ConnectVerdict {
  const { host } = tunnel.authority;
  const provider = catalogueFor(org, pipeline.catalogues).providerForHost(host);
  if (org !== undefined && provider?.custom !== undefined) return { kind: 'intercept', tunnel: { ...tunnel, org } };
  if (provider?.shared === true && restPasses(host, rules)) return { kind: 'intercept', tunnel: { ...tunnel, shared: true } };
  // Nothing goes to an origin for whom every request inside is refused.
  const dialFirst = barred === undefined && provider === undefined;
  return { kind: 'intercept', tunnel: treatment === 'govern' ? tunnel : { ...tunnel, undecided: true }, dialFirst };
}

async function passThrough({ head, treatment, barred }: Opened, pipeline: LineGround): Promise<ConnectVerdict> {
  const passed: ConnectVerdict = {
    kind: 'tunnel',
    judge: (serverName) => judgeServerName(serverName, head, pipeline),
    holder: head.tunnel && holderOfTunnel(head.tunnel),
    watch: (end) => pipeline.orgs.watch(() => barredOrg(head, pipeline) !== undefined, end),
  };
  if (treatment === 'pass' && barred === undefined) return passed;
  const judged: ReturnType<typeof runTunnel> = barred === undefined ? runTunnel(head, pipeline) : denySuspended({ head }, barred, pipeline);
  const result = await judged;
  const refusal = refusalIn(result, 'connect_refused');
  if (refusal) return { kind: 'refuse', error: refusal };
  const { notOpened } = result;
  const opening: ConnectVerdict = notOpened ? { ...passed, notOpened } : passed;
  return result.kind === 'recorded' ? { ...opening, headers: headersOf(result.record) } : opening;
}

/** How a CONNECT is answered that the line refused; undefined when it was let through. */
function refusalIn(result: RunResult, code: ErrorCode): GatewayError | undefined {
  if (result.kind === 'failed')
    return new ToldRefusal(result.error.code, result.error.message, [REQUEST_ID_HEADER, result.requestId], { cause: result.error });
  if (result.kind === 'replayed' || !result.refusal) return undefined;
  const { reason, body } = result.refusal;
  return new ToldRefusal(code, `${reason} (record ${result.record.record_id})`, headersOf(result.record), { body });
}

function headersOf({ request_id: requestId, record_id: recordId, decision, record_hash: recordHash }: ExecutionRecord): readonly string[] {
  return governedHeaders({ requestId, recordId, decision, recordHash }, []);
}

/** A refusal that is on record, or was told as what has none. */
class ToldRefusal extends GatewayError {
  readonly #own: readonly string[];

  constructor(code: ErrorCode, message: string, own: readonly string[], more: Pick<GatewayErrorOptions, 'cause' | 'body'>) {
    super(code, message, { ...more, reported: true });
    this.#own = own;
  }

  override get headers(): readonly string[] {
    return [...this.#own, ...super.headers];
  }
}

/** Nobody is connected to an address that is not public, and the attempt is on record (decision 8.5). */
async function dialTunnel(request: ConnectRequest, { pipeline }: DoorOptions): Promise<Socket> {
  try {
    return await pipeline.upstream.connect(request.authority);
  } catch (error) {
    if (!(error instanceof GatewayError) || error.code !== 'egress_denied') throw error;
    const head = connectHead(request, tunnelOf(request, pipeline), pipeline);
    throw refusalIn(await denyEgress({ head }, error, pipeline), error.code) ?? error;
  }
}

/** Decision 3.9: a passed tunnel may lead to no AI host but the one that its CONNECT was decided for. */
function judgeServerName(serverName: string, head: ArrivalHead, pipeline: LineGround): Promise<unknown> | undefined {
  const named = canonicalHost(serverName);
  if (named === undefined || named === head.tunnel?.authority.host) return undefined;
  const org = dependsOnOrg(named, pipeline) ? callerOrg(head, pipeline) : undefined;
  if (catalogueFor(org, pipeline.catalogues).providerForHost(named) === undefined) return undefined;
  return denyServerName({ ...head, startedAt: pipeline.clock.monotonic() }, named, pipeline);
}

/** What its CONNECT alone says of a tunnel. */
function tunnelOf(request: ConnectRequest, { settings }: LineGround): Tunnel {
  const { authority, proxyUser, remoteAddress } = request;
  const { apiKey, workloadToken } = tokensInHeaders(request.headers);
  const proxyPassword = request.proxyPassword || workloadToken;
  return {
    authority,
    callerIp: sentFrom(joined(request), remoteAddress, settings.trustedProxies),
    ...(proxyUser ? { proxyUser } : {}),
    ...(proxyPassword ? { proxyPassword } : {}),
    ...(apiKey === undefined ? {} : { apiKey }),
  };
}

/** A CONNECT as the head of an exchange of its own. */
function connectHead(request: ConnectRequest, tunnel: Tunnel, { clock }: LineGround): ArrivalHead {
  const { host, port } = request.authority;
  return {
    door: 'connect',
    trafficClass: request.trafficClass,
    method: 'CONNECT',
    rawTarget: `${host}:${port}`,
    rawHeaders: request.rawHeaders,
    headers: joined(request),
    httpVersion: '1.1',
    secure: true,
    remoteAddress: request.remoteAddress,
    startedAt: clock.monotonic(),
    tunnel,
  };
}

/** Header fields by their names in lower case. */
function joined({ headers }: ConnectRequest): ArrivalHead['headers'] {
  const fields: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) fields[name] = Array.isArray(value) ? value.join(', ') : value;
  }
  return fields;
}
