import type { Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import type { Clock } from '../../base/lib/clock.ts';
import type { GatewayError } from '../../base/lib/gateway-error.ts';
import type { CallInLane, NextTurn, Waiting } from './lane.ts';
import { KEEP_ALIVE_MARGIN_MS, KEEP_ALIVE_MAX_MS, KEEP_ALIVE_MS, type Lane, type LaneOptions, type LaneOwner } from './lane.ts';
import { type BodyEvents, BodyWriter, OutgoingBody } from './request-body.ts';
import { expectsBody, originFields, requestHead } from './request-head.ts';
import type { ResponseSink } from './response-parser.ts';
import { HEAD_TOO_LARGE, ResponseParser } from './response-parser.ts';
import { answerError, lostError, NOT_HTTP, SWITCHED, TOO_LARGE } from './upstream-error.ts';

/** Bodies up to this size are copied behind their head, so that both are one write. */
const COPIED_BYTES = 16_384;
/**
 * Larger ones go piece by piece: node:tls encrypts what it is given in one go, which stops everything else, and keeps
 * as much memory until the connection is closed.
 */
const PIECE_BYTES = 262_144;
const TURNS_BETWEEN = 4;

/**
 * One connection with our own HTTP/1.1 on it (ADR 5). A request is written once or never: what was given a call and
 * finds its connection gone before anything was written connects anew, anything later fails the call.
 */
export class DirectLane implements Lane, Waiting, ResponseSink, BodyEvents {
  call: CallInLane | undefined;
  expiresAt: number | undefined;

  readonly #owner: LaneOwner;
  readonly #options: LaneOptions;
  readonly #nextTurn: NextTurn;
  readonly #clock: Clock;
  readonly #fields: string;
  readonly #parser = new ResponseParser(this);
  #socket: Socket | undefined;
  /** The request's head, until it is written. */
  #head = '';
  /** The streamed body that is under way. */
  #writer: BodyWriter | undefined;
  /** The upstream may be unsure where this call ends. */
  #lastCall = false;
  #fault: Error | undefined;
  #closed = false;

  constructor(owner: LaneOwner, options: LaneOptions, nextTurn: NextTurn, clock: Clock) {
    this.#owner = owner;
    this.#options = options;
    this.#nextTurn = nextTurn;
    this.#clock = clock;
    this.#fields = originFields(options);
  }

  run(call: CallInLane): void {
    this.call = call;
    call.lane = this;
    try {
      this.#head = requestHead(call, this.#options.parent, this.#fields);
    } catch (error) {
      call.starting = true;
      call.fail(error as GatewayError);
      call.starting = false;
      this.#release(this.#socket !== undefined);
      return;
    }
    if (this.#socket === undefined) this.#connect();
    else this.#nextTurn.add(this);
  }

  close(): Promise<void> {
    this.#closed = true;
    this.#parser.stop();
    this.#socket?.destroy();
    return Promise.resolve();
  }

  breakConnection(): void {
    this.#release(false);
  }

  resume(): void {
    this.#parser.resume();
    // The end of the answer may have given the connection to nobody or to another call.
    this.#socket?.resume();
  }

  /** Everything is read that had come when the call was given. */
  turned(): void {
    if (this.#closed) return;
    // A broken socket tells of its end only later in the turn.
    if (this.#socket?.destroyed) this.#socket = undefined;
    if (this.#socket === undefined && !this.call?.done) this.#connect();
    else this.#send();
  }

  onInterim(status: number, rawHeaders: readonly string[]): void {
    if (status === 101) this.#refuse(SWITCHED);
    // Nobody here asks whether to continue.
    else if (status !== 100) this.call?.informed(status, rawHeaders);
  }

  onHead(status: number, rawHeaders: readonly string[]): void {
    this.call?.headed(status, rawHeaders);
  }

  onBody(bytes: Uint8Array): boolean {
    const goesOn = this.call?.received(bytes) ?? false;
    if (!goesOn) this.#socket?.pause();
    return goesOn;
  }

  onEnd(trailers: readonly string[]): void {
    const { call } = this;
    const { framing, hasExcess } = this.#parser;
    const isWhole = this.#socket !== undefined && this.#writer === undefined && !hasExcess && !this.#lastCall;
    this.#release(isWhole && framing?.keepsAlive === true && this.#keepUntil(framing.timeout));
    call?.ended(trailers);
  }

  moved(): void {
    this.call?.moved();
  }

  written(): void {
    this.#writer = undefined;
    this.call?.bodyLeft();
  }

  failed(error: unknown): void {
    this.#break(error);
  }

  #connect(): void {
    this.#options.connect().then(this.#onConnected, this.#onUnconnected);
  }

  readonly #onConnected = (socket: Socket): void => {
    if (this.#closed) {
      socket.destroy();
      return;
    }
    this.#socket = socket;
    this.#fault = undefined;
    socket.on('data', this.#onData);
    socket.on('drain', this.#onDrain);
    socket.on('end', this.#onFin);
    socket.once('error', (error) => this.#onFault(socket, error));
    socket.once('close', () => this.#onClose(socket));
    // What happened to it before is not told again.
    if (socket.destroyed) this.#break(lostError(this.#options.authority, 'sent', socket.errored));
    else this.#send();
  };

  readonly #onUnconnected = (error: unknown): void => this.#break(error);

  readonly #onData = (chunk: Buffer): void => {
    // Bytes that belong to no request.
    if (this.call === undefined || this.call.phase === 'connecting' || this.#parser.isOver) {
      this.#lose();
      return;
    }
    this.#parser.execute(chunk);
    const { fault } = this.#parser;
    if (fault !== undefined) this.#refuse(fault === HEAD_TOO_LARGE ? TOO_LARGE : NOT_HTTP, fault);
  };

  readonly #onDrain = (): void => this.#writer?.drained();

  readonly #onFin = (): void => {
    if (!this.#isAwaited) this.#lose();
    else if (!this.#parser.finish()) this.#socket?.destroy();
  };

  #onFault(socket: Socket, error: Error): void {
    if (socket === this.#socket) this.#fault = error;
  }

  #onClose(socket: Socket): void {
    if (socket !== this.#socket) return;
    if (this.#isAwaited) this.#break(lostError(this.#options.authority, this.call?.phase ?? 'sent', this.#fault));
    else this.#lose();
  }

  /** True while a call that was sent has not heard the end of its answer. */
  get #isAwaited(): boolean {
    return this.call !== undefined && this.call.phase !== 'connecting' && !this.#parser.isOver;
  }

  /** The connection is gone, or must go, under no call. One that waits to be written on it connects anew. */
  #lose(): void {
    const socket = this.#socket;
    this.#socket = undefined;
    socket?.destroy();
    if (this.call === undefined) this.#owner.disconnected(this);
  }

  #send(): void {
    const { call } = this;
    const socket = this.#socket;
    if (call === undefined || socket === undefined || call.done) {
      this.expiresAt ??= this.#clock.monotonic() + KEEP_ALIVE_MS;
      this.#release(socket !== undefined);
      return;
    }
    const { method, bodyLength } = call.request;
    const { held } = call;
    const head = this.#head;
    this.#head = '';
    // Some send a body in answer to HEAD, or read the body of a GET as the next request.
    this.#lastCall = method === 'HEAD' || (!expectsBody(method) && (call.stream ?? held) !== undefined);
    call.sent();
    this.#parser.begin(method === 'HEAD');
    if (call.stream !== undefined) {
      this.#stream(socket, head, call.stream, bodyLength);
    } else if (held !== undefined && held.length > PIECE_BYTES) {
      this.#stream(socket, head, new OutgoingBody(pieces(held)), held.length);
    } else if (held !== undefined) {
      writeWhole(socket, `${head}content-length: ${held.length}\r\n\r\n`, held);
      call.bodyLeft();
    } else {
      socket.write(expectsBody(method) ? `${head}content-length: 0\r\n\r\n` : `${head}\r\n`, 'latin1');
    }
  }

  #stream(socket: Socket, head: string, body: OutgoingBody, length: number | undefined): void {
    this.#writer = new BodyWriter(socket, head, body, length, this);
    this.#writer.pull();
  }

  #refuse(what: string, detail?: string): void {
    this.#break(answerError(this.#options.authority, what, detail === undefined ? undefined : new Error(detail)));
  }

  #break(error: unknown): void {
    const { call } = this;
    this.#release(false);
    call?.broke(error);
  }

  /** @returns false when the upstream is about to close the connection */
  #keepUntil(timeout: number | undefined): boolean {
    const ms = timeout === undefined ? KEEP_ALIVE_MS : Math.min(timeout * 1_000 - KEEP_ALIVE_MARGIN_MS, KEEP_ALIVE_MAX_MS);
    this.expiresAt = this.#clock.monotonic() + ms;
    return ms > 0;
  }

  /** The call is over; a connection that is not whole is closed by the owner. */
  #release(reusable: boolean): void {
    if (this.call === undefined) return;
    this.call = undefined;
    this.#writer?.stop();
    this.#writer = undefined;
    if (!reusable) this.#parser.stop();
    this.#owner.free(this, reusable);
  }
}

function writeWhole(socket: Socket, head: string, body: Uint8Array): void {
  if (body.length <= COPIED_BYTES) {
    const bytes = Buffer.allocUnsafe(head.length + body.length);
    bytes.write(head, 0, 'latin1');
    bytes.set(body, head.length);
    socket.write(bytes);
    return;
  }
  socket.cork();
  socket.write(head, 'latin1');
  socket.write(body);
  socket.uncork();
}

/**
 * Between two pieces what has come is read, and everybody else has his turn: an upstream that closes without reading to
 * the end has said why, and a write would only find the connection broken.
 */
async function* pieces(body: Uint8Array): AsyncGenerator<Uint8Array, void> {
  for (let at = 0; at < body.length; at += PIECE_BYTES) {
    for (let turns = 0; at > 0 && turns < TURNS_BETWEEN; turns += 1) await turn();
    yield body.subarray(at, at + PIECE_BYTES);
  }
}
