import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { Clock } from '../../base/lib/clock.ts';
import { codeOf, GatewayError } from '../../base/lib/gateway-error.ts';
import type { Authority, Dialled } from '../../base/model/arrival.ts';
import { CallInLane, type SlowCounter } from './lane.ts';
import { Origin, type OriginOptions, type SilenceLimits } from './origin.ts';
import type { UpstreamCall, UpstreamEvents, UpstreamHandle } from './upstream.ts';
import { tlsError } from './upstream-error.ts';

/** What the net room knows of a connection that belongs to one tunnel (decision 3.11). */
export interface DialledOrigin extends Dialled {
  /** True while there is something to look after. */
  readonly isBusy: boolean;
  call(request: UpstreamCall, events: UpstreamEvents): UpstreamHandle;
  /** A connection that is then the caller's own, for a WebSocket. Rejects as a call fails. */
  connect(): Promise<Socket>;
  failSilent(tick: number, limits: SilenceLimits, texts: { readonly headers: string; readonly idle: string }): void;
  /** As `close`, and what is under way fails with `error`. */
  fail(error: GatewayError): void;
}

export interface DialledHttp1Options {
  readonly authority: Authority;
  readonly socket: TLSSocket;
  readonly counter: SlowCounter;
  readonly clock: Clock;
  /** Makes another connection of the same kind. */
  redial(): Promise<TLSSocket>;
  /** Makes lanes that connect like this. */
  laneMaker(connect: () => Promise<Socket>): OriginOptions['openLane'];
}

/**
 * An http/1.1 origin: one connection at a time, the dialled one first. One that the origin has closed between two
 * requests is made anew.
 */
export class DialledHttp1 implements DialledOrigin {
  readonly protocol = 'http/1.1';
  readonly #counter: SlowCounter;
  readonly #origin: Origin;
  readonly #authority: Authority;
  readonly #redial: () => Promise<TLSSocket>;
  #first: TLSSocket | undefined;
  #fault: unknown;

  constructor({ authority, socket, counter, clock, redial, laneMaker }: DialledHttp1Options) {
    this.#authority = authority;
    this.#counter = counter;
    this.#first = socket;
    socket.once('error', this.#onFault);
    // Before the first request there is nothing to be read but the end.
    socket.once('readable', this.#onReadable);
    this.#redial = redial;
    this.#origin = new Origin({ authority, clock, maxConnections: 1, openLane: laneMaker(() => this.connect()) });
  }

  get isBusy(): boolean {
    return this.#origin.isBusy || this.#origin.hasExpiring;
  }

  call(request: UpstreamCall, events: UpstreamEvents): UpstreamHandle {
    const call = new CallInLane(request, events, this.#counter, undefined);
    this.#origin.start(call);
    return call;
  }

  async connect(): Promise<TLSSocket> {
    return this.#takeFirst() ?? (await this.#redial());
  }

  failSilent(tick: number, limits: SilenceLimits, texts: { readonly headers: string; readonly idle: string }): void {
    this.#origin.failSilent(tick, limits, texts);
    this.#origin.closeExpired();
  }

  /** Its connection can be made anew, so that it is never gone before the tunnel is. */
  onGone(): void {}

  close(): void {
    this.fail(new GatewayError('client_gone', 'The client closed the tunnel.'));
  }

  fail(error: GatewayError): void {
    this.#first?.destroy();
    void this.#origin.close(error);
  }

  /**
   * @throws GatewayError when the origin has refused us already: TLS 1.3 asks for a client certificate when the
   * handshake is over
   */
  #takeFirst(): TLSSocket | undefined {
    const first = this.#first;
    const fault = this.#fault;
    this.#first = undefined;
    this.#fault = undefined;
    if (fault !== undefined && isTlsFault(fault)) throw tlsError(this.#authority, fault);
    if (first === undefined || first.destroyed) return undefined;
    first.off('error', this.#onFault);
    first.off('readable', this.#onReadable);
    return first;
  }

  readonly #onFault = (fault: unknown): void => {
    this.#fault = fault;
  };

  readonly #onReadable = (): void => {
    this.#first?.destroy();
  };
}

/** An origin that could not be reached or trusted: each request is told why, the first one is the tunnel's last. */
export class UndialledOrigin implements DialledOrigin {
  readonly protocol: Dialled['protocol'];
  readonly isBusy = false;
  readonly #error: GatewayError;
  #goneListener: () => void = () => undefined;

  constructor(protocol: Dialled['protocol'], error: GatewayError) {
    this.protocol = protocol;
    this.#error = error;
  }

  call(_request: UpstreamCall, events: UpstreamEvents): UpstreamHandle {
    let aborted = false;
    queueMicrotask(() => {
      if (!aborted) events.onError(this.#error);
    });
    this.#goneListener();
    return {
      abort: () => {
        aborted = true;
      },
    };
  }

  connect(): Promise<Socket> {
    this.#goneListener();
    return Promise.reject(this.#error);
  }

  failSilent(): void {}

  onGone(listener: () => void): void {
    this.#goneListener = listener;
  }

  close(): void {}

  fail(): void {}
}

function isTlsFault(fault: unknown): boolean {
  return codeOf(fault).startsWith('ERR_SSL_');
}
