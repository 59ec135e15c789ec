import type { Dialect, SocketRule } from '../../base/catalogue/types.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { stopping } from '../../base/lib/stopping.ts';
import { byteOrderMark } from '../../base/lib/text.ts';
import { closePayload, frameOf, OPCODE, WebSocketFault, type WebSocketMessage } from '../../base/lib/websocket-frames.ts';
import type { ByteChannel } from '../../base/model/channel.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { type ClientEvent, readClientEvent } from '../../inbound/normalise/socket-event.ts';
import { readServerEvent, type ServerEvent } from '../../outbound/connectors/socket-events.ts';
import { clientOf } from '../body/buffer-budget.ts';
import type { LineGround } from '../parts/call-services.ts';
import type { Known } from '../parts/parts.ts';
import { type OpenCall, SocketCalls, type WhyEnded } from './calls.ts';
import { SocketLane } from './socket-lane.ts';

/** How long a side may take to close once it was told to (RFC 6455 §7.1.1). */
const CLOSE_MS = 5_000;
/** How long a server may take to end a call that it was told to stop. */
const CANCEL_MS = 2_000;
const POLICY_VIOLATION = 1008;
const GOING_AWAY = 1001;
const INTERNAL_ERROR = 1011;
const TRY_AGAIN = 1013;
const STOPPING = 'the gateway is stopping';

/**
 * A WebSocket whose calls are judged, metered and recorded one by one (decision 3.12). The client's events are read
 * before they go on; the event that ends a call is kept back until its record is stored (decision 7.9). Everything else
 * passes as it came, in order, with back-pressure.
 */
export class MeteredSocket {
  readonly #client: ByteChannel;
  readonly #upstream: ByteChannel;
  readonly #pipeline: LineGround;
  readonly #rule: SocketRule;
  readonly #dialect: Dialect;
  readonly #calls: SocketCalls;
  readonly #up: SocketLane;
  readonly #down: SocketLane;
  readonly #host: string;
  readonly #onClosed: () => void;
  #open = 2;
  /** Set when the socket has ended. */
  #why: WhyEnded | undefined;
  #draining = false;
  /** Messages that are judged, or wait for a person. */
  #pending = 0;
  #goneListeners: (() => void)[] = [];
  /** A close frame went this way, so that an end behind it is one in order. */
  #clientSaidClose = false;
  #upstreamSaidClose = false;
  #cancelDeadline: (() => void) | undefined;
  /** Called when the client takes more, and when nothing more is sent to it. */
  #onClientFree: () => void = () => undefined;

  constructor(handshake: Known, pipeline: LineGround, client: ByteChannel, upstream: ByteChannel, onClosed: () => void) {
    const { arrival, route, dressed } = handshake;
    const operation = route?.operation;
    const rule = operation?.dialect?.socket;
    if (operation?.dialect === undefined || rule === undefined || route === undefined || dressed === undefined)
      throw new GatewayError('internal', 'A WebSocket without a rule for its calls.');
    this.#client = client;
    this.#upstream = upstream;
    this.#pipeline = pipeline;
    this.#rule = rule;
    this.#dialect = rule.call ?? operation.dialect;
    this.#host = route.host;
    this.#onClosed = onClosed;
    const opened = { arrival, route: { ...route, path: dressed.path }, headers: dressed.headers };
    const heldBy = { onGone: (listener: () => void) => this.#onGone(listener), held: () => this.#up.held() };
    const ofCalls = { ...operation, dialect: this.#dialect, websocket: false };
    const endHeld = (why: GatewayError): void => this.endHeld(why);
    this.#calls = new SocketCalls({ ...opened, heldBy, endHeld }, pipeline, rule, ofCalls);
    const { settings, buffers } = pipeline;
    const owner = clientOf(arrival.callerIp, handshake.proof);
    this.#up = new SocketLane({
      maxBytes: settings.maxBodyBytes,
      hold: buffers.hold(owner),
      from: client,
      masked: true,
      onMessage: (message) => this.#watched(this.#fromClient(message)),
      onEnd: () => this.#clientLeft(!this.#clientSaidClose),
      onFault: (error) => this.#fault(error, { clientGone: true }),
    });
    this.#down = new SocketLane({
      maxBytes: settings.maxBodyBytes,
      hold: buffers.hold(owner),
      from: upstream,
      masked: false,
      onMessage: (message) => this.#watched(this.#fromUpstream(message)),
      onEnd: () => this.#upstreamLeft(!this.#upstreamSaidClose),
      onFault: (error) => this.#fault(error, { failure: this.#upstreamFault(error) }),
    });
  }

  start(): void {
    this.#upstream.open({
      onData: (chunk) => this.#down.push(chunk),
      onEnd: () => this.#down.end(),
      onDrain: () => this.#up.unblock(),
      // What came before still goes to the client.
      onClose: () => {
        this.#down.end();
        this.#closed();
      },
    });
    this.#client.open({
      onData: (chunk) => this.#up.push(chunk),
      onEnd: () => this.#up.end(),
      onDrain: () => {
        this.#onClientFree();
        this.#down.unblock();
      },
      onClose: (broken) => {
        this.#clientLeft(broken || !this.#clientSaidClose);
        this.#closed();
      },
      onShutdown: () => {
        this.#draining = true;
        this.#leaveWhenIdle();
      },
      onCut: () => this.#end(GOING_AWAY, STOPPING, { failure: stopping() }),
    });
  }

  /** Its caller is in quarantine, or its calls are stopped: nothing more is said on it. */
  endHeld(failure: GatewayError): void {
    this.#end(POLICY_VIOLATION, failure.message, { failure });
  }

  /** Of a call that waits for a person. */
  #onGone(listener: () => void): void {
    if (this.#why) listener();
    else this.#goneListeners.push(listener);
  }

  #watched(pending: Promise<void> | undefined): Promise<void> | undefined {
    return pending && this.#watch(pending);
  }

  /** A call that is judged while its socket ends must not be forgotten. */
  async #watch(pending: Promise<void>): Promise<void> {
    this.#pending += 1;
    try {
      await pending;
    } finally {
      this.#pending -= 1;
      if (this.#why) await this.#calls.abort(this.#why);
      else this.#leaveWhenIdle();
    }
  }

  #fromClient(message: WebSocketMessage): Promise<void> | undefined {
    const { opcode, payload } = message;
    if (opcode === OPCODE.close) this.#clientSaidClose = true;
    if (opcode === OPCODE.close) this.#limitClose();
    if (opcode >= OPCODE.close) {
      this.#toUpstream(opcode, payload);
      return undefined;
    }
    this.#pipeline.events.emit('webSocketMessage', 'up');
    let event: ClientEvent;
    try {
      event = readClientEvent(payload, this.#rule);
    } catch (error) {
      if (error instanceof GatewayError) return this.#calls.refuseEvent(error).then((call) => this.#refuse(call));
      throw error;
    }
    // What is sent is what was read (decision 3.20).
    const mark = byteOrderMark(payload);
    const sent = mark === 0 ? payload : payload.subarray(mark);
    const { create, updates, passes, cancel } = this.#rule;
    if (passes.includes(event.type) || event.type === cancel) {
      this.#toUpstream(opcode, sent);
      return undefined;
    }
    if (event.type === create) return this.#calls.ask(event).then((call) => this.#goOn(call, opcode, sent));
    if (!updates.includes(event.type)) return this.#calls.askUnknown(event).then((call) => this.#goOn(call, opcode, sent));
    const named = this.#calls.named(event);
    return this.#calls.askSettings(named).then((call) => this.#goOn(call, opcode, named === event ? sent : Buffer.from(named.text)));
  }

  async #goOn(call: OpenCall | undefined, opcode: number, payload: Buffer): Promise<void> {
    if (call && !call.allowed) await this.#refuse(call);
    else if (!this.#why) this.#toUpstream(opcode, call?.sendBytes ?? payload);
  }

  /** Tells the client, once that is on record, why its event was not sent on. */
  async #refuse(call: OpenCall): Promise<void> {
    const result = await this.#calls.close(call);
    if (this.#toClient(OPCODE.text, this.#calls.told(call, result)) || this.#why) return;
    // Else a client that reads nothing could have any number of refusals written.
    await new Promise<void>((resolve) => {
      this.#onClientFree = resolve;
    });
  }

  #fromUpstream({ opcode, payload }: WebSocketMessage): Promise<void> | undefined {
    if (opcode === OPCODE.close) this.#upstreamSaidClose = true;
    if (opcode === OPCODE.close) this.#limitClose();
    if (opcode >= OPCODE.close) {
      this.#toClient(opcode, payload);
      return undefined;
    }
    this.#pipeline.events.emit('webSocketMessage', 'down');
    const event = readServerEvent(payload, this.#rule, this.#dialect);
    if (event === undefined) {
      this.#toClient(opcode, payload);
      return undefined;
    }
    if (event.settings) this.#calls.learn(event.settings, payload.length, event.answersChange);
    const known = this.#calls.of(event);
    if (event.kind === 'side') return this.#calls.judgeSide().then((call) => this.#finish(call, event, opcode, payload));
    if (event.kind === 'error') return this.#failed(event, opcode, payload);
    if (known === undefined && (event.kind === 'started' || event.kind === 'done')) {
      const begun = this.#calls.begin(event);
      return begun instanceof Promise
        ? begun.then((call) => this.#pass(call, event, opcode, payload))
        : this.#pass(begun, event, opcode, payload);
    }
    return this.#pass(known, event, opcode, payload);
  }

  #pass(call: OpenCall | undefined, event: ServerEvent, opcode: number, payload: Buffer): Promise<void> | undefined {
    if (call && event.kind === 'done') return this.#finish(call, event, opcode, payload);
    if (call && !call.allowed) {
      if (event.kind === 'started') this.#cancel(event);
      return undefined;
    }
    if (call?.answer.stopped) return undefined;
    call?.answer.add(payload);
    this.#toClient(opcode, payload);
    return call && this.#calls.passes(call, event) ? this.#stopAtCap(call, event) : undefined;
  }

  /**
   * Stops a call that would pass its cap. Where the format can say so, its server ends it, and reports what it used;
   * else the socket ends with it.
   */
  #stopAtCap(call: OpenCall, event: ServerEvent): Promise<void> | undefined {
    if (this.#rule.cancel === undefined) return this.#endAtCap(call);
    this.#cancel(event);
    this.#pipeline.clock.after(CANCEL_MS, () => {
      if (this.#calls.has(call)) void this.#endAtCap(call);
    });
    return undefined;
  }

  async #endAtCap(call: OpenCall): Promise<void> {
    // What the server says while the record is stored would be taken for a call of its own.
    this.#down.stop();
    const result = await this.#calls.close(call);
    if (result.kind !== 'recorded') return this.#reset();
    this.#tellStopped(call, result.record);
    this.#end(POLICY_VIOLATION, 'a response was stopped at its cap', { clientGone: true });
  }

  #tellStopped(call: OpenCall, record: ExecutionRecord): void {
    if (call.answer.stopped) this.#toClient(OPCODE.text, this.#calls.toldStopped(call, record, call.answer.stopped));
  }

  /** Stops what the server began and policy refuses; a format without a way to say so ends the socket. */
  #cancel({ responseId }: ServerEvent): void {
    const { cancel } = this.#rule;
    if (cancel === undefined) this.#end(POLICY_VIOLATION, 'a call was refused by policy', { clientGone: true });
    else this.#toUpstream(OPCODE.text, Buffer.from(JSON.stringify({ type: cancel, ...(responseId ? { response_id: responseId } : {}) })));
  }

  async #finish(call: OpenCall, event: ServerEvent, opcode: number, payload: Buffer): Promise<void> {
    if (call.allowed) call.answer.add(payload);
    const result = await this.#calls.finish(call, event);
    if (result.kind === 'failed' && call.allowed) {
      // No acknowledged call without its record.
      this.#reset();
      return;
    }
    if (result.kind === 'recorded') this.#tellStopped(call, result.record);
    if (call.allowed) this.#toClient(opcode, payload);
    else this.#toClient(OPCODE.text, this.#calls.told(call, result));
    this.#leaveWhenIdle();
  }

  #failed(event: ServerEvent, opcode: number, payload: Buffer): Promise<void> | undefined {
    const call = this.#calls.failed(event);
    if (call) return this.#finish(call, { ...event, outcome: 'error' }, opcode, payload);
    this.#toClient(opcode, payload);
    return undefined;
  }

  #toUpstream(opcode: number, payload: Uint8Array): void {
    if (!send(this.#upstream, frameOf(opcode, payload, true))) this.#up.block();
  }

  /** @returns false when the client does not take more for now */
  #toClient(opcode: number, payload: Uint8Array): boolean {
    const more = send(this.#client, frameOf(opcode, payload, false));
    if (!more) this.#down.block();
    return more;
  }

  #clientLeft(broken: boolean): void {
    if (this.#why) return;
    this.#stop({ clientGone: true });
    this.#client.close();
    if (broken) this.#upstream.reset();
    else this.#upstream.close();
  }

  #upstreamLeft(broken: boolean): void {
    if (this.#why) return;
    this.#stop({ failure: new GatewayError('upstream_unreachable', `${this.#host} closed the WebSocket in the middle of an answer.`) });
    this.#upstream.close();
    if (broken) this.#client.reset();
    else this.#client.close();
  }

  /** What a side sent cannot be read or kept. */
  #fault(error: unknown, why: WhyEnded): void {
    if (error instanceof WebSocketFault) this.#end(error.code, error.message, why);
    else if (error instanceof GatewayError && error.code === 'overloaded') this.#end(TRY_AGAIN, 'all buffers are in use', why);
    else if (error instanceof GatewayError && error.code === 'record_store_unavailable')
      this.#end(TRY_AGAIN, 'no record can be stored', why);
    else if (error instanceof GatewayError && error.code === 'upstream_protocol') this.#end(INTERNAL_ERROR, error.message, why);
    else {
      this.#pipeline.log.error({ err: error }, 'a WebSocket failed unexpectedly');
      this.#end(INTERNAL_ERROR, 'a fault of the gateway', why);
    }
  }

  #upstreamFault(error: unknown): GatewayError {
    if (error instanceof GatewayError) return error;
    if (error instanceof WebSocketFault)
      return new GatewayError('upstream_protocol', `${this.#host} sent on the WebSocket ${error.message}.`);
    return new GatewayError('internal', 'The gateway failed to handle an event of a WebSocket; its log has the details.', { cause: error });
  }

  /** Closes both sides with a reason. */
  #end(code: number, reason: string, why: WhyEnded): void {
    if (this.#why) return;
    this.#stop(why);
    const payload = closePayload(code, reason);
    send(this.#client, frameOf(OPCODE.close, payload, false));
    send(this.#upstream, frameOf(OPCODE.close, closePayload(code === INTERNAL_ERROR ? GOING_AWAY : code, ''), true));
    this.#client.end();
    this.#upstream.end();
    this.#limitClose();
  }

  #leaveWhenIdle(): void {
    if (this.#draining && this.#calls.size === 0 && this.#pending === 0) this.#end(GOING_AWAY, STOPPING, { clientGone: true });
  }

  #reset(): void {
    if (this.#why) return;
    this.#stop({ clientGone: true });
    this.#client.reset();
    this.#upstream.reset();
  }

  #stop(why: WhyEnded): void {
    this.#why = why;
    for (const listener of this.#goneListeners) listener();
    this.#goneListeners = [];
    this.#onClientFree();
    this.#up.stop();
    this.#down.stop();
    void this.#calls.abort(why);
    // What still comes is read away, so that the end is seen.
    this.#client.resume();
    this.#upstream.resume();
  }

  #limitClose(): void {
    this.#cancelDeadline ??= this.#pipeline.clock.after(CLOSE_MS, () => {
      this.#reset();
      this.#client.reset();
      this.#upstream.reset();
    });
  }

  #closed(): void {
    if (--this.#open > 0) return;
    this.#cancelDeadline?.();
    this.#onClosed();
  }
}

function send(channel: ByteChannel, frames: readonly Uint8Array[]): boolean {
  let more = true;
  for (const part of frames) more = channel.write(part);
  return more;
}
