import { unrecordedEvent } from '../../base/events/unrecorded.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Arrival } from '../../base/model/arrival.ts';
import type { ByteChannel } from '../../base/model/channel.ts';
import { callerIp, refuseTokenInAddress } from '../../inbound/normalise/identity.ts';
import { resolveTarget } from '../../inbound/normalise/target.ts';
import { readAnswerHead } from '../../inbound/reply/answer-head.ts';
import { filterRequestHeaders, filterResponseHeaders, filterResponseTrailers, via } from '../../outbound/net/header-filter.ts';
import type { UpgradeEvents, UpstreamCall, UpstreamHandle } from '../../outbound/net/upstream.ts';
import type { CallUnderWay } from '../../services/review/running-calls.ts';
import { sendError } from '../../surfaces/http/router.ts';
import { denyEgress, denyStopped, denySuspended, runProxied } from '../enter.ts';
import type { LineGround, Lookers } from '../parts/call-services.ts';
import { refuseLoop } from '../parts/refusal.ts';
import { bodyTrailers, tellOfClientCertificate } from '../route/outbound-headers.ts';
import { relay } from '../socket/relay.ts';
import { WatchedBody } from './call-look.ts';
import { barredOrg, passingCall, senderOf } from './caller-org.ts';

/** For whom something passes, where that is known. */
export interface PassedFor {
  /** The org of the API key, or of the token of a workload, that was shown; default that of the tunnel. */
  readonly shownOrg?: string | undefined;
  /** Of the caller, at a host at which an org has a connector of its own. */
  readonly org?: string | undefined;
}

/**
 * A request that policy is not asked about: plain HTTP to a host that is no AI host, anything inside of an inspected
 * tunnel, or what is no call on a shared host (decision 3.8; specification, "Transparent proxy mode" 8). It goes on as
 * the bytes of a tunnel would: no record, nothing looked at but its head, nothing kept but a count; where
 * `GW_PROXY_NON_AI` is `inspect`, the names in its body too, for what it looks like (decision 12.3). Egress guard,
 * header filter and loop check hold all the same. A WebSocket is relayed once the upstream has accepted it, and its
 * refusal is passed on as any answer is (decision 3.12). Nobody of an org that is not active passes (decision 4.6).
 */
export function passOn(arrival: Arrival, pipeline: LineGround, { shownOrg, org }: PassedFor = {}): void {
  pipeline.controlPlane?.awaken();
  const barred = barredOrg(arrival.head, pipeline, shownOrg);
  if (barred !== undefined) {
    void denySuspended(arrival, barred, pipeline);
    return;
  }
  const sender = senderOf(arrival.head, pipeline, shownOrg);
  const passing = passingCall(sender, undefined);
  const stop = pipeline.stops.holding(passing);
  if (stop !== undefined) {
    void denyStopped(arrival, stop, pipeline);
    return;
  }
  try {
    const call = callOf(arrival, pipeline, org);
    const { trafficClass } = arrival.head;
    pipeline.events.emit('passed', {
      host: call.authority.host,
      trafficClass,
      from: callerIp(arrival.head, pipeline.settings.trustedProxies),
      ...sender,
    });
    const { lookers } = pipeline;
    new Passage(arrival, pipeline, passing, shownOrg).start(lookers === undefined ? call : looked(arrival, pipeline, lookers, call));
  } catch (error) {
    // Host and CONNECT disagree: that is denied, with a record, whatever the mode (decisions 3.16, 7.3).
    if (error instanceof GatewayError && error.code === 'misdirected_request') void runProxied(arrival, pipeline);
    else refuse(arrival, pipeline, error);
  }
}

function callOf({ head, body }: Arrival, { settings, catalogues }: LineGround, org: string | undefined): UpstreamCall {
  refuseLoop(head.rawHeaders, settings.nodeId);
  refuseTokenInAddress(head, settings.adminToken);
  const catalogue = catalogues.current();
  const { host, port, tls, path } = resolveTarget(head, org === undefined ? catalogue : catalogue.forOrg(org));
  const on = head.tunnel?.dialled;
  const { adminToken, nodeId } = settings;
  return {
    authority: { host, port },
    tls,
    on,
    // What passes is of no org that is asked for: it shares by address.
    org: '',
    client: callerIp(head, settings.trustedProxies),
    method: head.method,
    path,
    headers: filterRequestHeaders(head.rawHeaders, { adminToken, via: via(nodeId), trailers: on?.protocol === 'h2' }),
    ...(body.declaredLength === 0 ? { body: undefined } : { body: body.stream(), trailers: () => bodyTrailers(body, adminToken) }),
    ...(body.declaredLength ? { bodyLength: body.declaredLength } : {}),
  };
}

/** The call with a body that tells what it looks like, where that is not known of its host. */
function looked({ reply }: Arrival, { catalogues, events }: LineGround, lookers: Lookers, call: UpstreamCall): UpstreamCall {
  const { host } = call.authority;
  if (lookers.knowsLook(host)) return call;
  const look = catalogues.current().lookalikes.look(call.method, call.path, reply.switchProtocols !== undefined);
  const tell = (like: string): void => events.emit('lookedLike', { host, like });
  if (typeof look === 'string') tell(look);
  if (typeof look !== 'object' || call.body === undefined || call.body instanceof Uint8Array) return call;
  return { ...call, body: new WatchedBody(call.body, look, tell) };
}

/** Carries the answer as it comes. */
class Passage implements UpgradeEvents {
  readonly #arrival: Arrival;
  readonly #pipeline: LineGround;
  #handle: UpstreamHandle | undefined;
  readonly #passing: CallUnderWay;
  readonly #shownOrg: string | undefined;
  #resume: () => void = () => undefined;
  #unwatch: () => void = () => undefined;

  constructor(arrival: Arrival, pipeline: LineGround, passing: CallUnderWay, shownOrg: string | undefined) {
    this.#arrival = arrival;
    this.#pipeline = pipeline;
    this.#passing = passing;
    this.#shownOrg = shownOrg;
  }

  start(call: UpstreamCall): void {
    const { reply } = this.#arrival;
    const { upstream, running } = this.#pipeline;
    this.#handle = reply.switchProtocols ? upstream.upgrade(call, this) : upstream.call(call, this);
    reply.onDrain(() => this.#resume());
    reply.onGone(() => {
      this.#unwatch();
      this.#handle?.abort();
    });
    this.#unwatch = running.watch(this.#passing, (why) => {
      this.#handle?.abort();
      refuse(this.#arrival, this.#pipeline, why);
    });
  }

  onInfo(status: number, rawHeaders: readonly string[]): void {
    this.#arrival.reply.info(status, filterResponseHeaders(rawHeaders).headers);
  }

  onHead(status: number, rawHeaders: readonly string[], resume: () => void, empty?: boolean): void {
    const { head, reply } = this.#arrival;
    this.#resume = resume;
    const answer = readAnswerHead(status, rawHeaders, head.method);
    try {
      reply.head(status, answer.headers, answer.contentLength, empty);
    } catch (error) {
      this.#handle?.abort();
      refuse(this.#arrival, this.#pipeline, error);
    }
  }

  onData(chunk: Uint8Array): boolean {
    return this.#arrival.reply.write(chunk);
  }

  onEnd(trailers: readonly string[]): void {
    this.#unwatch();
    this.#arrival.reply.end(filterResponseTrailers(trailers));
  }

  onError(error: GatewayError, h2Code?: number): void {
    this.#unwatch();
    const { tunnel } = this.#arrival.head;
    if (tunnel) tellOfClientCertificate(error, tunnel.authority.host, this.#pipeline.events);
    refuse(this.#arrival, this.#pipeline, error, h2Code);
  }

  /** The upstream has accepted a WebSocket: so does the gateway, with the same words. */
  onUpgrade(rawHeaders: readonly string[], upstream: ByteChannel): void {
    const { clock, events, orgs, running } = this.#pipeline;
    this.#unwatch();
    const client = this.#accept(rawHeaders);
    if (client === undefined) {
      upstream.reset();
      return;
    }
    events.emit('webSocketOpened', 'relayed');
    let unwatch: () => void = () => undefined;
    const end = relay(client, upstream, clock, () => {
      unwatch();
      events.emit('webSocketClosed', 'relayed');
    });
    const unwatchOrg = orgs.watch(() => barredOrg(this.#arrival.head, this.#pipeline, this.#shownOrg) !== undefined, end);
    const unwatchCall = running.watch(this.#passing, end);
    unwatch = () => {
      unwatchOrg();
      unwatchCall();
    };
  }

  #accept(rawHeaders: readonly string[]): ByteChannel | undefined {
    const { reply } = this.#arrival;
    try {
      return reply.gone ? undefined : reply.switchProtocols?.(filterResponseHeaders(rawHeaders).headers);
    } catch (error) {
      refuse(this.#arrival, this.#pipeline, error);
      return undefined;
    }
  }
}

/**
 * @param h2Code with which the origin reset the stream: the client of an h2 tunnel sees the same, since it may stand
 * for a retry that is safe
 */
function refuse(arrival: Arrival, pipeline: LineGround, error: unknown, h2Code?: number): void {
  const { reply, head } = arrival;
  const { log, events, settings } = pipeline;
  const known =
    error instanceof GatewayError ? error : new GatewayError('internal', 'The gateway failed to pass this request on.', { cause: error });
  if (!(error instanceof GatewayError)) log.error({ err: error }, 'passing a request on failed unexpectedly');
  // On record whatever the door (decisions 7.3, 8.5).
  if (known.code === 'egress_denied' && !reply.headSent && !reply.gone) {
    void denyEgress(arrival, known, pipeline);
    return;
  }
  if (events.hears('unrecorded'))
    events.emit('unrecorded', unrecordedEvent(known, arrival, { callerIp: callerIp(head, settings.trustedProxies) }));
  if (reply.gone) return;
  if (reply.headSent || h2Code !== undefined) reply.reset(h2Code);
  else sendError(arrival, known);
}
