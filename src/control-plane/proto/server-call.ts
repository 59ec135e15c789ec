import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import type { MethodDefinition } from '@grpc/grpc-js';
import type { Clock } from '../../base/lib/clock.ts';
import type { Logger } from '../../base/lib/log.ts';
import { CALL_BOUNDS, type CallBound } from './call-bounds.ts';
import type { CallRoom, HeldRoom } from './call-room.ts';
import { FramedMessage } from './framed-message.ts';
import type { CallingNode, Peer } from './peer.ts';
import { MAX_MESSAGE_BYTES } from './protocol.ts';
import { ProtocolError, type ProtocolFault, statusOf } from './protocol-error.ts';

/** Within this a message has come whole. */
const MESSAGE_MS = 10_000;
/** An answer that is not read for so long is cut. */
const ANSWER_MS = 30_000;
/** When to come again, where a place is a matter of moments. */
const AGAIN_MS = 1_000;
const TYPE = 'application/grpc';
const PREFIX_BYTES = 5;

/** Who may call, and who is told of calls that nobody carries out. */
export interface CallGuard<Names extends string> {
  /**
   * Asked before anything of the message is read.
   * @returns undefined: a call that needs no certificate
   * @throws ProtocolError
   */
  admit(name: Names, peer: Peer): CallingNode | undefined;
  /** A call has ended before its handler was asked. */
  refused(name: Names, fault: ProtocolFault): void;
}

type Handler = (
  request: unknown,
  peer: Peer,
  out: { send(message: unknown): Promise<void>; readonly signal: AbortSignal },
) => Promise<unknown>;

/** A call of a service. */
export interface CallKind {
  readonly name: string;
  readonly method: MethodDefinition<unknown, unknown>;
  readonly handler: Handler;
  readonly guard: CallGuard<string>;
}

export interface ServerCallGround {
  readonly log: Logger;
  readonly clock: Pick<Clock, 'after'>;
  readonly room: CallRoom;
}

/** One call on its stream: who calls, then its message in its bounds, then what carries it out, then its answer. */
export class ServerCall {
  readonly #ground: ServerCallGround;
  readonly #kind: CallKind;
  readonly #stream: ServerHttp2Stream;
  readonly #peer: Peer;
  readonly #ending = new AbortController();
  #places: HeldRoom | undefined;
  #leaveLine: () => void = () => undefined;
  #cancelTimer: () => void = () => undefined;
  /** Nothing more of the message is taken. */
  #isAsked = false;
  /**
   * What carries it out has begun and not ended: it goes on where the caller leaves, and holds its places meanwhile.
   */
  #isRunning = false;
  #isClosed = false;

  constructor(ground: ServerCallGround, kind: CallKind, stream: ServerHttp2Stream, peer: Peer) {
    this.#ground = ground;
    this.#kind = kind;
    this.#stream = stream;
    this.#peer = peer;
  }

  begin(headers: IncomingHttpHeaders): void {
    const { guard, name } = this.#kind;
    this.#stream.once('close', () => this.#over());
    try {
      judgeHead(headers);
      const caller = guard.admit(name, this.#peer);
      this.#places = this.#ground.room.admit(caller, this.#peer);
      if (this.#places === undefined) throw full();
      this.#read(caller, boundOf(name));
    } catch (error) {
      this.#refuse(error);
    }
  }

  #read(caller: CallingNode | undefined, bound: CallBound): void {
    const message = new FramedMessage(bound);
    const stream = this.#stream;
    this.#cancelTimer = this.#ground.clock.after(MESSAGE_MS, () =>
      this.#refuse(new ProtocolError('DEADLINE_EXCEEDED', `the message did not come within ${MESSAGE_MS / 1_000} s`)),
    );
    stream.on('data', (piece: Buffer) => {
      if (this.#isAsked || stream.destroyed) return;
      this.#guarded(() => {
        message.take(piece);
        if (this.#places?.hold(message.size) === false) throw full();
      });
    });
    stream.once('end', () => {
      if (this.#isAsked || stream.destroyed || stream.aborted) return;
      this.#guarded(() => {
        const bytes = message.whole();
        this.#cancelTimer();
        this.#isAsked = true;
        if (caller === undefined || bound.answersMuch !== true) this.#carryOut(bytes);
        else this.#leaveLine = this.#ground.room.waitForAnswer(caller, () => this.#carryOut(bytes));
      });
    });
  }

  #carryOut(bytes: Buffer): void {
    const { method, handler, name } = this.#kind;
    let request: unknown;
    try {
      request = method.requestDeserialize(bytes);
    } catch {
      this.#refuse(new ProtocolError('INVALID_ARGUMENT', 'the message cannot be read'), true);
      return;
    }
    // A stream lasts: what it holds of all is its one message, which has been read.
    if (method.responseStream) this.#places?.leave();
    this.#isRunning = true;
    const out = { send: (message: unknown) => this.#send(message), signal: this.#ending.signal };
    Promise.resolve()
      .then(() => handler(request, this.#peer, out))
      .then((response) => (method.responseStream ? this.#end() : this.#answer(response)))
      .catch((error: unknown) => this.#fail(this.#known(error, name)))
      .finally(() => {
        this.#isRunning = false;
        if (this.#isClosed) this.#over();
      });
  }

  async #send(message: unknown): Promise<void> {
    const stream = this.#stream;
    if (stream.destroyed || stream.closed) return;
    this.#respond();
    if (stream.write(this.#framed(message)) || this.#ending.signal.aborted) return;
    await new Promise<void>((resolve) => {
      stream.once('drain', resolve);
      stream.once('close', resolve);
    });
  }

  #answer(response: unknown): void {
    if (this.#stream.destroyed || this.#stream.closed) return;
    const framed = this.#framed(response);
    this.#respond();
    this.#stream.write(framed);
    this.#end();
  }

  /** @throws ProtocolError RESOURCE_EXHAUSTED */
  #framed(message: unknown): Buffer {
    const bytes = this.#kind.method.responseSerialize(message);
    if (bytes.length > MAX_MESSAGE_BYTES)
      throw new ProtocolError('RESOURCE_EXHAUSTED', `the answer has ${bytes.length} bytes, more than a message may have`);
    const framed = Buffer.allocUnsafe(PREFIX_BYTES + bytes.length);
    framed.writeUInt8(0, 0);
    framed.writeUInt32BE(bytes.length, 1);
    framed.set(bytes, PREFIX_BYTES);
    return framed;
  }

  #respond(): void {
    if (this.#stream.headersSent) return;
    this.#stream.respond(
      { ':status': 200, 'content-type': `${TYPE}+proto`, 'grpc-encoding': 'identity', 'grpc-accept-encoding': 'identity' },
      { waitForTrailers: true },
    );
  }

  #end(error?: ProtocolError): void {
    const stream = this.#stream;
    if (stream.destroyed || stream.closed) return;
    this.#respond();
    stream.once('wantTrailers', () => stream.sendTrailers(statusFields(error)));
    stream.end();
    this.#cancelTimer = this.#ground.clock.after(ANSWER_MS, () => stream.close(constants.NGHTTP2_CANCEL));
  }

  #fail(error: ProtocolError): void {
    if (this.#stream.headersSent) this.#end(error);
    else this.#refuse(error, true);
  }

  /**
   * Before anything was answered: the caller may stop sending.
   * @param isCounted whoever carries it out has counted it
   */
  #refuse(error: unknown, isCounted = false): void {
    const known = this.#known(error, this.#kind.name);
    this.#cancelTimer();
    this.#isAsked = true;
    if (!isCounted) this.#kind.guard.refused(this.#kind.name, known.fault);
    if (!this.#stream.destroyed && !this.#stream.closed) endWith(this.#stream, known);
    this.#over();
  }

  #guarded(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#refuse(error);
    }
  }

  #known(error: unknown, name: string): ProtocolError {
    if (error instanceof ProtocolError) return error;
    this.#ground.log.error({ err: error, call: name }, 'a call of a gateway could not be carried out');
    return new ProtocolError('INTERNAL', 'internal error');
  }

  #over(): void {
    this.#isClosed = true;
    this.#cancelTimer();
    this.#ending.abort();
    if (this.#isRunning) return;
    this.#leaveLine();
    this.#places?.leave();
  }
}

/** Answers a stream that is no call. */
export function refuseStream(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, why: string): void {
  if (isGrpc(headers)) endWith(stream, new ProtocolError('UNIMPLEMENTED', why));
  else {
    stream.respond({ ':status': constants.HTTP_STATUS_UNSUPPORTED_MEDIA_TYPE }, { endStream: true });
    stream.close(constants.NGHTTP2_NO_ERROR);
  }
}

function endWith(stream: ServerHttp2Stream, error: ProtocolError): void {
  stream.respond(
    { ':status': 200, 'content-type': `${TYPE}+proto`, 'grpc-accept-encoding': 'identity', ...statusFields(error) },
    { endStream: true },
  );
  // What is still on its way is not waited for (RFC 9113, section 8.1).
  stream.close(constants.NGHTTP2_NO_ERROR);
}

function statusFields(error: ProtocolError | undefined): Record<string, string> {
  if (error === undefined) return { 'grpc-status': '0' };
  const { fault, message, retryAfterMs } = error;
  return {
    'grpc-status': String(statusOf(fault)),
    'grpc-message': encodeURI(message.replace(/\p{Surrogate}/gu, '')),
    ...(retryAfterMs === undefined ? {} : { 'grpc-retry-pushback-ms': String(Math.ceil(retryAfterMs)) }),
  };
}

function judgeHead(headers: IncomingHttpHeaders): void {
  if (headers[':method'] !== 'POST' || !isGrpc(headers)) throw new ProtocolError('UNIMPLEMENTED', 'this port speaks gRPC');
  const { 'grpc-encoding': coding } = headers;
  // Also of a message that does not say in its own first byte that it is compressed.
  if (coding !== undefined && coding !== 'identity')
    throw new ProtocolError('UNIMPLEMENTED', 'messages are taken uncompressed (identity) alone');
}

function isGrpc(headers: IncomingHttpHeaders): boolean {
  return headers['content-type']?.startsWith(TYPE) === true;
}

function boundOf(name: string): CallBound {
  const bounds: Readonly<Record<string, CallBound>> = CALL_BOUNDS;
  const bound = bounds[name];
  if (bound === undefined) throw new TypeError(`nothing bounds ${name}`);
  return bound;
}

function full(): ProtocolError {
  return new ProtocolError('RESOURCE_EXHAUSTED', 'as many calls are under way as are carried out at a time; try again', {
    retryAfterMs: AGAIN_MS,
  });
}
