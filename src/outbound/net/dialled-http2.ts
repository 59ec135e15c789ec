import { type ClientHttp2Session, connect } from 'node:http2';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { Clock } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { bracketHost } from '../../base/lib/host.ts';
import { ReadingHold } from '../../base/lib/reading-hold.ts';
import { Roster } from '../../base/lib/roster.ts';
import { isBroken, SESSION_MEMORY_MB } from '../../base/lib/sockets.ts';
import type { Authority } from '../../base/model/arrival.ts';
import type { DialledOrigin } from './dialled.ts';
import { Http2Call, type Http2Lane } from './http2-call.ts';
import type { SlowCounter } from './lane.ts';
import { MAX_HEADER_BYTES } from './lane.ts';
import type { SilenceLimits } from './origin.ts';
import type { TinyPieces } from './tiny-pieces.ts';
import type { UpstreamCall, UpstreamEvents, UpstreamHandle } from './upstream.ts';
import { timeoutError } from './upstream-error.ts';

const STREAM_WINDOW = 262_144;
const CONNECTION_WINDOW = 1_048_576;

export interface DialledHttp2Options {
  readonly authority: Authority;
  readonly socket: TLSSocket;
  /** What TLS is spoken on. */
  readonly raw: Socket;
  readonly counter: SlowCounter;
  readonly clock: Clock;
  /** What the address of the origin may still send. */
  readonly tinyPieces: TinyPieces;
}

/** An h2 origin: one connection for all streams of its tunnel, which ends with it. */
export class DialledHttp2 implements DialledOrigin, Http2Lane {
  readonly protocol = 'h2';
  readonly authority: Authority;
  readonly session: ClientHttp2Session;
  /** The first error of the connection; its streams only know that they were closed. */
  fault: Error | undefined;
  readonly #counter: SlowCounter;
  readonly #tiny: TinyPieces;
  readonly #hold: ReadingHold;
  readonly #socket: TLSSocket;
  /** What TLS is spoken on. */
  readonly #raw: Socket;
  readonly #calls = new Roster<Http2Call>();
  #gone = false;
  #goneListener: () => void = () => undefined;
  /** Set while a PING waits for its answer: how much has come, and since which tick no more. */
  #probing: { readonly since: number; readonly bytesRead: number } | undefined;

  constructor({ authority, socket, raw, counter, clock, tinyPieces }: DialledHttp2Options) {
    this.authority = authority;
    this.#socket = socket;
    this.#raw = raw;
    this.#counter = counter;
    this.#tiny = tinyPieces;
    this.#hold = new ReadingHold(raw, clock);
    socket.once('error', (error) => {
      this.fault ??= error;
    });
    const session = connect(`https://${bracketHost(authority.host)}:${authority.port}`, {
      createConnection: () => socket,
      settings: { enablePush: false, initialWindowSize: STREAM_WINDOW, maxHeaderListSize: MAX_HEADER_BYTES },
      maxSessionMemory: SESSION_MEMORY_MB,
    });
    this.session = session;
    // It comes as well when the session was closed meanwhile, because the client has left.
    session.once('connect', () => {
      if (!session.destroyed) session.setLocalWindowSize(CONNECTION_WINDOW);
    });
    session.on('error', (error) => {
      this.fault ??= error;
    });
    session.once('goaway', () => this.#onGone());
    session.once('close', () => this.#onGone());
  }

  get isBusy(): boolean {
    return this.#calls.size > 0 || this.#probing !== undefined;
  }

  call(request: UpstreamCall, events: UpstreamEvents): UpstreamHandle {
    const call = new Http2Call(request, events, this.#counter, this);
    call.seat = this.#calls.add(call);
    call.start();
    return call;
  }

  connect(): Promise<Socket> {
    return Promise.reject(new GatewayError('upgrade_required', 'An h2 connection is never one stream alone.'));
  }

  pace(piece: Uint8Array): void {
    if (!this.#tiny.take(piece)) this.#hold.hold(this.#tiny.waitMs);
  }

  /** Called by a call that is over. */
  over(call: Http2Call): void {
    if (call.seat !== undefined) this.#calls.remove(call.seat);
  }

  /**
   * An answer may be silent for as long as the connection is alive: an idle gRPC stream is no fault, so the origin is
   * asked by a PING before it is given up. A connection on which nothing comes any more, not even that, is given up
   * itself: all calls to come would wait in vain as well.
   */
  failSilent(tick: number, limits: SilenceLimits, texts: { readonly headers: string; readonly idle: string }): void {
    if (isBroken(this.#raw)) {
      this.fault ??= Object.assign(new Error('The connection was reset.'), { code: 'ECONNRESET' });
      // Its streams tell their calls.
      this.#destroy(this.fault);
      return;
    }
    for (const call of this.#calls) {
      if (call.paused) continue;
      const silent = tick - call.seenAt;
      if (call.phase !== 'answering') {
        if (silent <= limits.headersTicks) continue;
        call.fail(timeoutError(this.authority, texts.headers));
        this.#probe(tick);
      } else if (silent > 2 * limits.idleTicks) {
        call.fail(timeoutError(this.authority, texts.idle));
      } else if (silent > limits.idleTicks) {
        this.#probe(tick);
      }
    }
    this.#giveUpAfter(limits.idleTicks, tick);
  }

  onGone(listener: () => void): void {
    this.#goneListener = listener;
    if (this.#gone) listener();
  }

  close(): void {
    for (const call of this.#calls) call.abort();
    this.#destroy();
  }

  fail(error: GatewayError): void {
    for (const call of [...this.#calls]) call.fail(error);
    this.#destroy();
  }

  /**
   * What there is to say is written as far as the system takes it at once. node:http2 lets go of the connection only
   * when everything is written: later or never where the origin reads nothing, and never where the connection breaks
   * between two of its writes.
   */
  #destroy(error?: Error): void {
    this.session.destroy(error);
    this.#socket.destroy();
  }

  #probe(tick: number): void {
    if (this.#probing !== undefined || this.session.destroyed) return;
    this.#probing = { since: tick, bytesRead: this.#raw.bytesRead };
    this.session.ping((error) => {
      this.#probing = undefined;
      if (error !== null) return;
      for (const call of this.#calls) call.seen();
    });
  }

  /** Closes the connection when nothing has come on it for so long since it was asked by a PING. */
  #giveUpAfter(ticks: number, tick: number): void {
    if (this.#probing === undefined) return;
    const { bytesRead } = this.#raw;
    if (bytesRead !== this.#probing.bytesRead) {
      this.#probing = { since: tick, bytesRead };
    } else if (tick - this.#probing.since > ticks) {
      this.fault ??= timeoutError(this.authority, 'does not answer any more');
      this.#destroy(this.fault);
    }
  }

  #onGone(): void {
    if (this.#gone) return;
    this.#gone = true;
    this.#goneListener();
  }
}
