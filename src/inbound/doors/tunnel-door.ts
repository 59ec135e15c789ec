import type { Socket } from 'node:net';
import { GatewayError, type GatewayErrorOptions } from '../../base/lib/gateway-error.ts';
import { canonicalHost } from '../../base/lib/host.ts';
import { REQUEST_ID_HEADER } from '../../base/lib/ids.ts';
import { holdsOwnToken, tokenInUrl } from '../../base/lib/own-tokens.ts';
import type { ArrivalHead, Tunnel, WaitingClient } from '../../base/model/arrival.ts';
import type { ErrorCode } from '../../base/model/error-codes.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { denyEgress, denyServerName, denyStopped, denySuspended, runTunnel } from '../../pipeline/enter.ts';
import type { RunResult } from '../../pipeline/line/run-call.ts';
import type { LineGround } from '../../pipeline/parts/call-services.ts';
import { refuseLoop } from '../../pipeline/parts/refusal.ts';
import { barredOrg, callerOrg, passingCall, type Sender, senderOf } from '../../pipeline/passage/caller-org.ts';
import type { CallUnderWay } from '../../services/review/running-calls.ts';
import type { StopTold } from '../../services/review/stops.ts';
import type { ConnectVerdict } from '../listener/connect-door.ts';
import type { ConnectRequest } from '../listener/connect-request.ts';
import { holderOfTunnel } from '../listener/open-tunnels.ts';
import { sentFrom } from '../normalise/identity.ts';
import { shownToProxy } from '../normalise/shown-by.ts';
import { governedHeaders } from '../reply/answer-head.ts';
import { letIn, tryCaller } from './proxy-callers.ts';
import { catalogueFor, dependsOnOrg, isSelfTest, restPasses, type Treatment, type TreatmentRules, treatmentOf } from './treatment.ts';

/** What a CONNECT is decided with. */
export interface TunnelGround {
  readonly pipeline: LineGround;
  /** `GW_PROXY_ENABLED`. */
  readonly proxyEnabled: boolean;
  readonly rules: TreatmentRules;
}

/** What becomes of a CONNECT: intercepted, passed through, or refused (decisions 3.7, 3.8, 4.5). */
export async function decideTunnel(request: ConnectRequest, options: TunnelGround, client: WaitingClient): Promise<ConnectVerdict> {
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
  const sender = senderOf(head, pipeline);
  pipeline.events.emit('connected', { host, trafficClass: request.trafficClass, from, ...sender });
  const org = dependsOnOrg(host, rules) ? callerOrg(head, pipeline) : undefined;
  const treatment = treatmentOf(host, rules, org);
  pipeline.controlPlane?.awaken();
  const barred = barredOrg(head, pipeline);
  const opened: Opened = { head, sender, treatment, barred, org };
  return treatment === 'govern' || treatment === 'inspect' ? intercepted(opened, tunnel, options) : passThrough(opened, pipeline, client);
}

/** A CONNECT of somebody who was let in. */
interface Opened {
  readonly head: ArrivalHead;
  readonly sender: Sender;
  readonly treatment: Treatment;
  /** The org for which nobody is served; undefined: all of them are. */
  readonly barred: string | undefined;
  /** Of the caller, where what becomes of the CONNECT depends on it. */
  readonly org: string | undefined;
}

function intercepted({ treatment, barred, org }: Opened, tunnel: Tunnel, { pipeline, rules }: TunnelGround): ConnectVerdict {
  const { host } = tunnel.authority;
  const provider = catalogueFor(org, pipeline.catalogues).providerForHost(host);
  if (org !== undefined && provider?.custom !== undefined) return { kind: 'intercept', tunnel: { ...tunnel, org } };
  if (provider?.shared === true && restPasses(host, rules)) return { kind: 'intercept', tunnel: { ...tunnel, shared: true } };
  // Nothing goes to an origin for whom every request inside is refused.
  const dialFirst = barred === undefined && provider === undefined;
  return { kind: 'intercept', tunnel: treatment === 'govern' ? tunnel : { ...tunnel, undecided: true }, dialFirst };
}

async function passThrough(
  { head, sender, treatment, barred, org }: Opened,
  pipeline: LineGround,
  client: WaitingClient,
): Promise<ConnectVerdict> {
  const provider = catalogueFor(org, pipeline.catalogues).providerForHost(head.tunnel?.authority.host ?? '');
  const passing = passingCall(sender, provider);
  const passed: ConnectVerdict = {
    kind: 'tunnel',
    judge: (serverName) => judgeServerName(serverName, head, pipeline),
    holder: head.tunnel && holderOfTunnel(head.tunnel),
    watch: (end) => watchTunnel(head, passing, pipeline, end),
  };
  const stop = pipeline.stops.holding(passing);
  if (treatment === 'pass' && barred === undefined && stop === undefined) return passed;
  const result = await judged({ head, barred, stop }, pipeline, client);
  const refusal = refusalIn(result, 'connect_refused');
  if (refusal) return { kind: 'refuse', error: refusal };
  const { notOpened } = result;
  const opening: ConnectVerdict = notOpened ? { ...passed, notOpened } : passed;
  return result.kind === 'recorded' ? { ...opening, headers: headersOf(result.record) } : opening;
}

function judged(
  { head, barred, stop }: Pick<Opened, 'head' | 'barred'> & { readonly stop: StopTold | undefined },
  pipeline: LineGround,
  client: WaitingClient,
): ReturnType<typeof runTunnel> {
  if (barred !== undefined) return denySuspended({ head }, barred, pipeline);
  return stop === undefined ? runTunnel(head, pipeline, client) : denyStopped({ head }, stop, pipeline);
}

/** Ends a tunnel when nobody of its org is served any more, or a stop holds it. */
function watchTunnel(head: ArrivalHead, passing: CallUnderWay, pipeline: LineGround, end: () => void): () => void {
  const unwatchOrg = pipeline.orgs.watch(() => barredOrg(head, pipeline) !== undefined, end);
  const unwatchCall = pipeline.running.watch(passing, end);
  return () => {
    unwatchOrg();
    unwatchCall();
  };
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
export async function dialTunnel(request: ConnectRequest, { pipeline }: TunnelGround): Promise<Socket> {
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
  const { authority, remoteAddress } = request;
  const { user, password, apiKey } = shownToProxy(request.headers, { user: request.proxyUser, password: request.proxyPassword });
  return {
    authority,
    callerIp: sentFrom(joined(request), remoteAddress, settings.trustedProxies),
    ...(user ? { proxyUser: user } : {}),
    ...(password ? { proxyPassword: password } : {}),
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
