import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { ByteChannel } from '../../base/model/channel.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { governedHeaders } from '../../inbound/reply/governed-headers.ts';
import { filterResponseHeaders } from '../../outbound/net/header-filter.ts';
import type { UpgradeEvents } from '../../outbound/net/upstream.ts';
import type { Delivery } from '../delivery.ts';
import type { Delivered, Exchange, Refusal } from '../exchange.ts';
import { outboundHeaders } from '../outbound-headers.ts';
import { webSocketRefusal } from '../refusals.ts';
import { markOf } from '../send.ts';
import type { Pipeline } from '../stage.ts';
import { dialledFor, tellOfClientCertificate } from '../tunnel-call.ts';
import { SWITCHED } from './socket-answer.ts';

/** Compression is for the two ends to agree on, and a metered socket has the gateway as one of them. */
const EXTENSIONS: ReadonlySet<string> = new Set(['sec-websocket-extensions']);

interface Opened {
  readonly rawHeaders: readonly string[];
  readonly channel: ByteChannel;
}

/**
 * Asks the upstream for the WebSocket that the client asked for. A refusal is carried by `delivery` as any answer; an acceptance waits for the record of the
 * handshake.
 * @throws GatewayError `upgrade_required` when policy led the handshake to an AI host whose calls cannot be metered
 */
export async function openSocket(exchange: Exchange, pipeline: Pipeline, delivery: Delivery): Promise<Refusal | undefined> {
  const metered = exchange.opensSocket;
  const isMeterable = exchange.operation?.websocket === true && exchange.operation.dialect?.socket !== undefined;
  if (metered ? !isMeterable : exchange.provider !== undefined) throw webSocketRefusal();
  const sentAt = pipeline.clock.monotonic();
  const accepted = new Promise<Opened>((resolve) => {
    const events: UpgradeEvents = {
      onInfo: (status, rawHeaders) => delivery.onInfo(status, rawHeaders),
      onHead: (status, rawHeaders, resume) => delivery.onHead(status, rawHeaders, resume),
      onData: (chunk) => delivery.onData(chunk),
      onEnd: (trailers) => delivery.onEnd(trailers),
      onError: (error) => delivery.onError(error),
      onUpgrade: (rawHeaders, channel) => resolve({ rawHeaders, channel }),
    };
    const { host, port, tls, path } = exchange;
    const authority = { host, port };
    const headers = outboundHeaders(exchange, pipeline, metered ? EXTENSIONS : undefined);
    delivery.attach(pipeline.upstream.upgrade({ authority, on: dialledFor(exchange.head, authority), tls, path, headers }, events));
  });
  const opened = await Promise.race([accepted, delivery.over.then(() => undefined)]);
  if (opened === undefined) {
    tellOfClientCertificate(delivery.failure, exchange.host, pipeline.events);
    if (delivery.failure && !delivery.started) throw delivery.failure;
    return undefined;
  }
  if (metered && hasExtensions(opened.rawHeaders)) {
    opened.channel.reset();
    throw new GatewayError('upstream_protocol', 'The upstream chose an extension of WebSockets that it was not offered.');
  }
  exchange.delivery = new Acceptance(exchange, opened, pipeline.clock.monotonic() - sentAt);
  return undefined;
}

function hasExtensions(rawHeaders: readonly string[]): boolean {
  return rawHeaders.some((name, at) => at % 2 === 0 && EXTENSIONS.has(name.toLowerCase()) && rawHeaders[at + 1] !== '');
}

/** A handshake that the upstream accepted: the client is told when that is on record. */
class Acceptance implements Delivered {
  readonly status = SWITCHED;
  readonly responseBytes = 0;
  readonly responseSha256 = undefined;
  readonly streamOutcome = undefined;
  readonly failure = undefined;
  readonly started = true;
  readonly meter = undefined;
  readonly stopped = undefined;
  readonly answer = undefined;
  readonly headLatencyMs: number;
  readonly #exchange: Exchange;
  readonly #opened: Opened;

  constructor(exchange: Exchange, opened: Opened, headLatencyMs: number) {
    this.#exchange = exchange;
    this.#opened = opened;
    this.headLatencyMs = headLatencyMs;
  }

  get clientGone(): boolean {
    return this.#exchange.reply?.gone === true;
  }

  release(record: ExecutionRecord): void {
    const { rawHeaders, channel } = this.#opened;
    const { reply } = this.#exchange;
    const headers = governedHeaders(markOf(this.#exchange, record.record_hash), filterResponseHeaders(rawHeaders).headers);
    const client = reply?.gone ? undefined : reply?.switchProtocols?.(headers);
    if (client === undefined) {
      channel.reset();
      return;
    }
    this.#exchange.accepted = { client, upstream: channel };
  }

  abandon(): void {
    this.#opened.channel.reset();
  }
}
