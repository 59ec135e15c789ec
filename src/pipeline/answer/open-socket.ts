import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { governedHeaders } from '../../inbound/reply/answer-head.ts';
import { filterResponseHeaders } from '../../outbound/net/header-filter.ts';
import type { UpgradeEvents } from '../../outbound/net/upstream.ts';
import type { Pipeline } from '../parts/call-services.ts';
import type { Delivered } from '../parts/delivered.ts';
import type { AcceptedSocket, Handshake, OpenedUpstream } from '../parts/handshake.ts';
import type { Answered, ForwardedCall, Target } from '../parts/parts.ts';
import { webSocketRefusal } from '../parts/refusal.ts';
import { SWITCHED } from '../parts/socket-answer.ts';
import { dialledFor, type OutboundCall, outboundHeaders, tellOfClientCertificate } from '../route/outbound-headers.ts';
import type { Delivery } from './delivery.ts';
import { markOf } from './send.ts';

/** Compression is for the two ends to agree on, and a metered socket has the gateway as one of them. */
const EXTENSIONS: ReadonlySet<string> = new Set(['sec-websocket-extensions']);

export interface SocketQuestion extends Pick<OutboundCall, 'headers' | 'signed'> {
  readonly call: ForwardedCall;
  readonly target: Target;
  readonly path: string;
}

/**
 * Asks the upstream for the WebSocket that the client asked for. A refusal is carried by `delivery` as any answer.
 * @throws GatewayError `upgrade_required` when policy led the handshake to an AI host whose calls cannot be metered
 */
export function askForSocket({ call, target, headers, signed, path }: SocketQuestion, pipeline: Pipeline, delivery: Delivery): Handshake {
  const { arrival, route } = call;
  const { operation, provider } = route;
  const isMetered = target.opensSocket;
  const isMeterable = operation?.websocket === true && operation.dialect?.socket !== undefined;
  if (isMetered ? !isMeterable : provider !== undefined) throw webSocketRefusal();
  const sentAt = pipeline.clock.monotonic();
  const opened = new Promise<OpenedUpstream>((resolve) => {
    const events: UpgradeEvents = {
      onInfo: (status, rawHeaders) => delivery.onInfo(status, rawHeaders),
      onHead: (status, rawHeaders, resume) => delivery.onHead(status, rawHeaders, resume),
      onData: (chunk) => delivery.onData(chunk),
      onEnd: (trailers) => delivery.onEnd(trailers),
      onError: (error) => delivery.onError(error),
      onUpgrade: (rawHeaders, channel) => resolve({ rawHeaders, channel }),
    };
    const { host, port, tls } = route;
    const authority = { host, port };
    const sent = outboundHeaders({ arrival, route, headers, signed }, pipeline.settings, isMetered ? EXTENSIONS : undefined);
    delivery.attach(pipeline.upstream.upgrade({ authority, on: dialledFor(arrival.head, authority), tls, path, headers: sent }, events));
  });
  return { sentAt, isMetered, opened };
}

/**
 * Waits for the upstream's answer to a handshake. Undefined: it has refused, and `delivery` carries why.
 * @throws GatewayError when there is no answer to carry
 */
export async function acceptedSocket(
  { call, delivery, over }: Answered,
  { sentAt, isMetered, opened }: Handshake,
  { clock, events }: Pipeline,
): Promise<Acceptance | undefined> {
  const accepted = await Promise.race([opened, over]);
  if (accepted === undefined) {
    tellOfClientCertificate(delivery.failure, call.route.host, events);
    if (delivery.failure && !delivery.started) throw delivery.failure;
    return undefined;
  }
  if (isMetered && hasExtensions(accepted.rawHeaders)) {
    accepted.channel.reset();
    throw new GatewayError('upstream_protocol', 'The upstream chose an extension of WebSockets that it was not offered.');
  }
  return new Acceptance(call, accepted, sentAt, clock.monotonic());
}

function hasExtensions(rawHeaders: readonly string[]): boolean {
  return rawHeaders.some((name, at) => at % 2 === 0 && EXTENSIONS.has(name.toLowerCase()) && rawHeaders[at + 1] !== '');
}

/** A handshake that the upstream accepted: the client is told when that is on record. */
export class Acceptance implements Delivered {
  readonly status = SWITCHED;
  readonly responseBytes = 0;
  readonly responseSha256 = undefined;
  readonly streamOutcome = undefined;
  readonly failure = undefined;
  readonly started = true;
  readonly meter = undefined;
  readonly stopped = undefined;
  readonly answer = undefined;
  readonly times: NonNullable<Delivered['times']>;
  readonly headLatencyMs: number;
  readonly #call: ForwardedCall;
  readonly #opened: OpenedUpstream;
  #accepted: AcceptedSocket | undefined;

  constructor(call: ForwardedCall, opened: OpenedUpstream, sentAt: number, endedAt: number) {
    this.#call = call;
    this.#opened = opened;
    this.times = { sentAt, firstAt: undefined, endedAt };
    this.headLatencyMs = endedAt - sentAt;
  }

  get clientGone(): boolean {
    return this.#call.arrival.reply?.gone === true;
  }

  /** Both sides, when it is on record and the client has its 101. */
  get accepted(): AcceptedSocket | undefined {
    return this.#accepted;
  }

  release(record: ExecutionRecord): void {
    const { rawHeaders, channel } = this.#opened;
    const { reply } = this.#call.arrival;
    const headers = governedHeaders(markOf(this.#call, record.record_hash), filterResponseHeaders(rawHeaders).headers);
    const client = reply?.gone ? undefined : reply?.switchProtocols?.(headers);
    if (client === undefined) {
      channel.reset();
      return;
    }
    this.#accepted = { client, upstream: channel };
  }

  abandon(): void {
    this.#opened.channel.reset();
  }
}
