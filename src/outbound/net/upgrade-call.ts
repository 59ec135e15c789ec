import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { Clock } from '../../base/lib/clock.ts';
import type { GatewayError } from '../../base/lib/gateway-error.ts';
import { SocketChannel } from '../../base/lib/socket-channel.ts';
import { resetSocket } from '../../base/lib/sockets.ts';
import { MAX_HEADER_BYTES } from './lane.ts';
import { hostHeader } from './request-head.ts';
import { framingOfAnswer } from './response-framing.ts';
import type { UpgradeEvents, Upstream, UpstreamHandle } from './upstream.ts';
import {
  answerError,
  type CallPhase,
  callError,
  ENDLESS_INTERIM,
  MAX_INTERIM,
  MAX_STATUS,
  NO_STATUS,
  NOT_HTTP,
  SWITCHED,
  timeoutError,
} from './upstream-error.ts';

export interface UpgradeCallOptions {
  readonly call: Parameters<Upstream['upgrade']>[0];
  readonly events: UpgradeEvents;
  readonly clock: Clock;
  readonly headersTimeoutMs: number;
  /** Connects to the origin, TLS included; rejects with a GatewayError. */
  connect(): Promise<Socket>;
  /** Called when it was answered, or failed, or was given up. */
  onOver(): void;
}

/**
 * One WebSocket handshake (RFC 6455 §4.1) on a connection of its own. node:http reads the answer, whether it is 101 or
 * a refusal with a body.
 */
export class UpgradeCall implements UpstreamHandle {
  readonly #options: UpgradeCallOptions;
  #phase: CallPhase = 'connecting';
  #done = false;
  #socket: Socket | undefined;
  #interims = 0;
  readonly #cancelTimeout: () => void;

  constructor(options: UpgradeCallOptions) {
    const { clock, call, headersTimeoutMs } = options;
    this.#options = options;
    this.#cancelTimeout = clock.after(headersTimeoutMs, () => {
      this.#fail(timeoutError(call.authority, `did not answer a WebSocket handshake within ${headersTimeoutMs / 1000} seconds`));
    });
    options.connect().then(
      (socket) => this.#send(socket),
      (error: unknown) => this.#fail(error),
    );
  }

  abort(): void {
    this.#finish();
    this.#socket?.destroy();
  }

  /** Ends it with `error`, unless it is over. */
  fail(error: GatewayError): void {
    this.#fail(error);
  }

  #send(socket: Socket): void {
    this.#socket = socket;
    if (this.#done) {
      socket.destroy();
      return;
    }
    const { call } = this.#options;
    const headers = ['Host', hostHeader(call), 'Connection', 'Upgrade', 'Upgrade', 'websocket', ...call.headers];
    try {
      const sent = request({
        createConnection: () => socket,
        method: 'GET',
        path: call.path,
        headers: headers as unknown as Record<string, string>,
        setHost: false,
        maxHeaderSize: MAX_HEADER_BYTES,
      });
      this.#listen(sent, socket);
      this.#phase = 'sent';
      sent.end();
    } catch (error) {
      this.#fail(error);
    }
  }

  #listen(sent: ClientRequest, socket: Socket): void {
    const { events } = this.#options;
    sent.on('error', (error) => this.#fail(error));
    sent.on('information', ({ statusCode, rawHeaders }) => {
      if (this.#done) return;
      if (++this.#interims > MAX_INTERIM) this.#refuse(ENDLESS_INTERIM);
      else events.onInfo?.(statusCode, rawHeaders);
    });
    sent.on('upgrade', (answer, _socket, head) => {
      if (this.#done) return;
      // node:http takes any protocol for what was asked for.
      if (answer.headers.upgrade?.toLowerCase() !== 'websocket') {
        this.#refuse(SWITCHED);
        return;
      }
      this.#finish();
      if (head.length > 0) socket.unshift(head);
      // node:http has taken its listener off, and whoever opens the channel listens a moment later.
      socket.on('error', () => undefined);
      events.onUpgrade(answer.rawHeaders, new SocketChannel(socket, () => breakOff(socket)));
    });
    sent.on('response', (answer) => this.#answer(answer));
  }

  #answer(answer: IncomingMessage): void {
    if (this.#done) return;
    const { events } = this.#options;
    const { statusCode: status = 0, rawHeaders, httpVersionMinor } = answer;
    const framing = framingOfAnswer(rawHeaders, status, httpVersionMinor, false);
    // A 101 that names no protocol comes as an answer.
    const fault = status < 200 ? SWITCHED : status > MAX_STATUS ? NO_STATUS : typeof framing === 'string' ? NOT_HTTP : undefined;
    if (fault !== undefined) {
      this.#refuse(fault, framing);
      return;
    }
    this.#phase = 'answering';
    answer.on('error', (error) => this.#fail(error));
    answer.on('data', (chunk: Uint8Array) => {
      if (!this.#done && !events.onData(chunk)) answer.pause();
    });
    answer.on('end', () => {
      if (this.#done || !answer.complete) return;
      this.#finish();
      events.onEnd(answer.rawTrailers);
    });
    events.onHead(status, rawHeaders, () => answer.resume());
  }

  /** @param what completes "host:port …" */
  #refuse(what: string, detail?: unknown): void {
    this.#fail(answerError(this.#options.call.authority, what, typeof detail === 'string' ? new Error(detail) : undefined));
  }

  #fail(error: unknown): void {
    if (this.#done) return;
    this.#finish();
    this.#socket?.destroy();
    this.#options.events.onError(callError(this.#options.call.authority, this.#phase, error));
  }

  #finish(): void {
    this.#done = true;
    this.#cancelTimeout();
    this.#options.onOver();
  }
}

/** node:net resets TCP only; the other side of TLS takes an end without `close_notify` for what it is. */
function breakOff(socket: Socket): void {
  if (socket instanceof TLSSocket) socket.destroy();
  else resetSocket(socket);
}
