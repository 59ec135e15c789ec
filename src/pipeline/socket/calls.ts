import type { Operation, SocketRule } from '../../base/catalogue/types.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { uuidv7 } from '../../base/lib/ids.ts';
import { when } from '../../base/lib/maybe.ts';
import type { WaitingClient } from '../../base/model/arrival.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { type CallEvent, type ClientEvent, callParams, saidIn, withEventId, withoutModel } from '../../inbound/normalise/socket-event.ts';
import { proxiedRefusal } from '../../inbound/reply/envelope.ts';
import { refusalBody } from '../../outbound/connectors/provider-error.ts';
import { endsHere } from '../../outbound/connectors/seen-usage.ts';
import { errorEvent, type ServerEvent, sideModels } from '../../outbound/connectors/socket-events.ts';
import { type FollowedCall, type FollowedStream, followStream } from '../answer/followed-stream.ts';
import { intendAnswer } from '../answer/intent.ts';
import { errorShape, stopMembers, stopText } from '../answer/send.ts';
import { orSeen, orUnreported } from '../answer/used.ts';
import { beginSocketCall } from '../line/begin.ts';
import { closeCall, type RunResult, walkLine } from '../line/run-call.ts';
import type { WalkingCall } from '../line/walking-call.ts';
import type { LineGround } from '../parts/call-services.ts';
import type { CapReached } from '../parts/cap-reached.ts';
import { callUnderWay } from '../parts/known.ts';
import type { IntendedCall, OpenedSocket, Used } from '../parts/parts.ts';
import { LineEnd } from '../parts/refusal.ts';
import { SocketAnswer } from '../parts/socket-answer.ts';
import { UnconfirmedSettings } from './unconfirmed-settings.ts';

/** One call on the socket, from its judgement to its record. */
export interface OpenCall {
  readonly call: WalkingCall;
  /** The client's event as it is sent, where that is another one by now. */
  readonly sendBytes: Uint8Array | undefined;
  readonly answer: SocketAnswer;
  /** The client's names for it, when it gave any. */
  readonly eventId: string | undefined;
  readonly lane: string | undefined;
  /** Monotonic milliseconds. */
  readonly startedAt: number;
  /** Bytes of the shared budget that its params hold. */
  readonly held: number;
  /** Policy let it through. */
  readonly allowed: boolean;
  /** Why it ends without a record. */
  readonly failure: GatewayError | undefined;
  /** What it costs while it runs. */
  readonly followed: FollowedStream | undefined;
  /** Ends the watch over it. */
  readonly unwatch: () => void;
}

/** Why calls end that are not over. */
export type WhyEnded = { readonly clientGone: true } | { readonly failure: GatewayError };

/** Calls of one socket that may be under way; each holds its params. */
const MAX_CALLS = 100;
/** Of the event that tells settings: they are kept, and are part of each call that policy is asked about. */
const MAX_SETTINGS = 1_048_576;

/** Judges the calls of one metered WebSocket, finds the events that belong to them, and leaves a record of each. */
export class SocketCalls {
  readonly #opened: OpenedSocket;
  readonly #pipeline: LineGround;
  readonly #rule: SocketRule;
  readonly #operation: Operation;
  readonly #endHeld: (why: GatewayError) => void;
  /** Let through, and not yet begun by the server. */
  readonly #asked: OpenCall[] = [];
  readonly #begun = new Map<string, OpenCall>();
  #settings: Readonly<Record<string, unknown>> = {};
  /** Bytes of the shared budget that these hold. */
  #settingsHeld = 0;
  readonly #unconfirmed: UnconfirmedSettings;
  /** Waits where its own event does; what the server has begun cannot. */
  readonly #heldBy: WaitingClient;
  /** Of the session, or of the call before. */
  #model: string | undefined;

  /** @param endHeld ends the socket, because a call on it is held while it is under way */
  constructor(
    { heldBy, endHeld, ...opened }: OpenedSocket & { readonly heldBy: WaitingClient; readonly endHeld: (why: GatewayError) => void },
    pipeline: LineGround,
    rule: SocketRule,
    operation: Operation,
  ) {
    this.#endHeld = endHeld;
    this.#opened = opened;
    this.#heldBy = heldBy;
    this.#pipeline = pipeline;
    this.#rule = rule;
    this.#unconfirmed = new UnconfirmedSettings(pipeline.buffers, MAX_SETTINGS);
    this.#operation = operation;
    this.#model = opened.route.model;
  }

  get size(): number {
    return this.#asked.length + this.#begun.size;
  }

  /** Whether a call that has begun is not over yet. */
  has(call: OpenCall): boolean {
    return [...this.#begun.values()].includes(call);
  }

  /**
   * The server has told the settings of the calls to come.
   * @param bytes of the event
   * @param answersChange they are the answer to a change that the client asked for
   * @throws GatewayError `overloaded`, and `upstream_protocol` for settings that are too large to be part of each call
   */
  learn(settings: Readonly<Record<string, unknown>>, bytes: number, answersChange: boolean): void {
    const { buffers } = this.#pipeline;
    if (bytes > MAX_SETTINGS)
      throw new GatewayError('upstream_protocol', 'The upstream told settings on the WebSocket that are too large.');
    buffers.take(bytes);
    buffers.give(this.#settingsHeld);
    this.#settingsHeld = bytes;
    this.#settings = settings;
    if (answersChange) this.#unconfirmed.answered();
    const { model } = settings;
    if (typeof model === 'string') this.#model = model;
  }

  /** Judges what a client event asks for. */
  async ask(event: ClientEvent): Promise<OpenCall> {
    const { create, createIn } = this.#rule;
    const said = saidIn(event, createIn);
    if (this.#hasSession && this.#namesAnother(said)) return this.refuseEvent(anotherModel());
    const named = this.named(event);
    const call = { ...named, paramsIn: createIn, modelIsFixed: this.#hasSession };
    const own = event.type === create && createIn === '' ? event.bytes : undefined;
    // The server may refuse a change that it was told and not answered yet: the call must be allowed with it and
    // without it.
    if (own === undefined && this.#unconfirmed.any) {
      const before = await this.#judgeOnly(this.#paramsOf(this.#settings, said), call);
      if (!before.allowed) return before;
    }
    const judged = await this.#judge(own ?? this.#paramsOf(this.#unconfirmed.over(this.#settings), said), call);
    if (!judged.allowed) return judged;
    const asked = named === event ? judged : { ...judged, sendBytes: judged.sendBytes ?? Buffer.from(named.text) };
    this.#asked.push(asked);
    if (!this.#hasSession) this.#model = asked.call.parts.route?.model ?? this.#model;
    return asked;
  }

  /** The event under a name, where errors tell which event they are about: formats with other events than calls do. */
  named(event: ClientEvent): ClientEvent {
    return this.#hasSession ? withEventId(event, `gw_${uuidv7(this.#pipeline.clock.now())}`) : event;
  }

  /** Calls go by settings that their client can change, one of them the model. */
  get #hasSession(): boolean {
    return this.#rule.updates.length > 0;
  }

  #namesAnother(said: unknown): boolean {
    const named = stringAt(said, 'model');
    return named !== undefined && this.#model !== undefined && named.toLowerCase() !== this.#model.toLowerCase();
  }

  #paramsOf(settings: Readonly<Record<string, unknown>>, said: unknown): Uint8Array {
    return encoded(callParams(settings, this.#hasSession ? withoutModel(said) : said, this.#model));
  }

  /**
   * Judges an event that nobody understands: what it asks for is hidden, so that it passes only where no rule needs to
   * know that.
   */
  askUnknown(event: ClientEvent): Promise<OpenCall> {
    return this.#judgeOnly(encoded({}), { ...event, paramsIn: '', modelIsFixed: true }, { ...this.#operation, known: false });
  }

  /**
   * Judges a change of the settings, an event that is {@link named}, once for each model that it names anew; undefined
   * when it names none.
   */
  async askSettings(event: ClientEvent): Promise<OpenCall | undefined> {
    const session = saidIn(event, 'session');
    const model = stringAt(session, 'model');
    let judged: OpenCall | undefined;
    if (model !== undefined && model !== this.#model) {
      const body = encoded(callParams(this.#settings, session, model));
      judged = await this.#judgeOnly(body, { ...event, paramsIn: 'session', modelIsFixed: false });
      if (!judged.allowed) return judged;
    }
    const before = sideModels(this.#settings, this.#rule);
    for (const side of sideModels(session, this.#rule)) {
      if (before.includes(side)) continue;
      const sideJudged = await this.#judgeOnly(encoded({ model: side, stream: true }), {
        ...event,
        paramsIn: 'session',
        modelIsFixed: true,
      });
      if (!sideJudged.allowed) return sideJudged;
      judged ??= sideJudged;
    }
    if (this.#unconfirmed.add(stringAt(event.value, 'event_id') ?? '', session, event.bytes.length)) return judged;
    return this.refuseEvent(new GatewayError('overloaded', 'Too many changes of the settings wait for an answer of the server.'));
  }

  /** A client event that cannot be read in one way only: recorded, never forwarded. */
  refuseEvent(error: GatewayError): Promise<OpenCall> {
    return this.#judgeOnly(error, undefined);
  }

  /** The call that an event belongs to; undefined for events of the session, and for calls that are not known yet. */
  of(event: ServerEvent): OpenCall | undefined {
    if (event.responseId !== undefined) return this.#begun.get(event.responseId);
    if (!event.type.startsWith('response.')) return undefined;
    const [only] = this.#begun.values();
    if (this.#begun.size === 1) return only;
    return [...this.#begun.values()].find(({ lane }) => lane === event.lane);
  }

  /**
   * The server has begun a call: one that the client asked for, or one by itself, which is judged now. Of one that goes
   * on behind this event nothing is to be passed before it is certain that it will have a record (decision 6.8).
   * @throws GatewayError `upstream_protocol` for one more than may be under way, and for one that cannot be told apart
   * from another
   */
  begin(event: ServerEvent): OpenCall | Promise<OpenCall> {
    if (this.#begun.size >= MAX_CALLS || this.#begun.has(keyOf(event)))
      throw new GatewayError('upstream_protocol', 'The upstream began responses on the WebSocket without an end.');
    const asked = this.#takeAsked(event);
    const begun = asked ? this.#began(asked, event) : this.#judgeBegun(event);
    if (event.kind === 'done') return begun;
    return when(begun, (call) => this.#intended(call));
  }

  #intended(call: OpenCall): OpenCall | Promise<OpenCall> {
    const intended = call.allowed ? judgedCall(call.call) : undefined;
    return (intended && intendAnswer(intended, this.#pipeline.settings)?.then(() => call)) || call;
  }

  /** What the server reports of a model beside the calls is a call that is over. */
  judgeSide(): Promise<OpenCall> {
    const model = sideModels(this.#settings, this.#rule)[0];
    return this.#judge(encoded(model === undefined ? { stream: true } : { model, stream: true }), undefined);
  }

  /** The call that an error of the server ended before it began. */
  failed(event: ServerEvent): OpenCall | undefined {
    if (event.causedBy !== undefined) this.#unconfirmed.refused(event.causedBy);
    const at = this.#asked.findIndex(({ eventId, lane }) =>
      event.causedBy === undefined && !this.#hasSession ? lane === event.lane : eventId === event.causedBy,
    );
    return at === -1 ? undefined : this.#asked.splice(at, 1)[0];
  }

  /** Records a call that is over, with what it used. */
  finish(call: OpenCall, end: Pick<ServerEvent, 'usage' | 'model' | 'outcome'>): Promise<RunResult> {
    const { answer } = call;
    answer.streamOutcome = answer.stopped ? 'aborted' : end.outcome;
    call.followed?.seen.report(end.usage);
    return this.close(call, { usage: end.usage, approximated: false, model: end.model });
  }

  /** Ends the call, whatever became of it. */
  close(open: OpenCall, reported: Used = NOTHING_USED): Promise<RunResult> {
    const { call, answer } = open;
    open.unwatch();
    const seen = open.followed?.seen;
    const judged = judgedCall(call);
    const used = orSeen(reported, seen, answer);
    const isAnswered = judged !== undefined && call.parts.onSocket !== undefined;
    call.take({ used: isAnswered ? orUnreported(used, { ...judged, deferring: false }, answer, seen) : used }, ['used']);
    for (const [id, other] of this.#begun) if (other === open) this.#begun.delete(id);
    this.#pipeline.buffers.give(open.held);
    return closeCall(call, this.#pipeline, open.failure);
  }

  /** The socket is gone: every call that is not over ends as aborted (decision 6.4). */
  async abort(why: WhyEnded): Promise<void> {
    this.#pipeline.buffers.give(this.#settingsHeld);
    this.#settingsHeld = 0;
    this.#unconfirmed.forget();
    const calls = [...this.#asked.splice(0), ...this.#begun.values()];
    await Promise.all(
      calls.map((call) => {
        if ('clientGone' in why) call.answer.clientGone = true;
        else call.answer.failure = why.failure;
        return this.close(call);
      }),
    );
  }

  /** Whether the call is to end behind this event, because it would pass a cap. */
  passes({ followed, answer }: OpenCall, { data, type }: ServerEvent): boolean {
    if (followed === undefined || answer.stopped) return false;
    followed.seen.add(data, type);
    if (endsHere(followed)) answer.stopped = followed.reached;
    return answer.stopped !== undefined;
  }

  /** The event that tells the client that a call was ended at its cap. */
  toldStopped({ call, eventId, lane }: OpenCall, record: ExecutionRecord, reached: CapReached): Buffer {
    const text = stopText(reached);
    const body = { ...refusalBody(errorShape(call.parts), text), ...stopMembers(record, reached.reasonCode) };
    return Buffer.from(errorEvent(body, text.status, aboutCall(eventId, lane)));
  }

  /** The event that tells the client of a refusal. */
  told({ call, eventId, lane }: OpenCall, result: RunResult): Buffer {
    const about = aboutCall(eventId, lane);
    if (result.kind === 'recorded' && result.refusal) {
      const body = proxiedRefusal(result.record, result.refusal, errorShape(call.parts), refusalBody);
      return Buffer.from(errorEvent(body as Readonly<Record<string, unknown>>, result.refusal.status, about));
    }
    const error = result.kind === 'failed' ? result.error : new GatewayError('internal', 'The gateway could not complete this call.');
    const { code, message, status } = error;
    return Buffer.from(errorEvent(refusalBody('openai', { status, type: code, message }), status, about));
  }

  #takeAsked(event: ServerEvent): OpenCall | undefined {
    const at = this.#asked.findIndex(({ lane }) => lane === event.lane);
    return at === -1 ? undefined : this.#asked.splice(at, 1)[0];
  }

  async #judgeBegun(event: ServerEvent): Promise<OpenCall> {
    const model = event.model ?? this.#model;
    return this.#began(await this.#judge(encoded(callParams(this.#settings, { ...(model ? { model } : {}) }, model)), undefined), event);
  }

  #began(call: OpenCall, event: ServerEvent): OpenCall {
    call.answer.headLatencyMs = this.#pipeline.clock.monotonic() - call.startedAt;
    // Also of a call that is refused at its beginning the provider may report what it used.
    call.call.take({ onSocket: { answer: call.answer } }, ['onSocket']);
    this.#begun.set(keyOf(event), call);
    return call;
  }

  async #judge(
    body: Uint8Array | GatewayError,
    event: CallEvent | undefined,
    settingsOnly = false,
    operation = this.#operation,
  ): Promise<OpenCall> {
    const { buffers, clock } = this.#pipeline;
    const startedAt = clock.monotonic();
    const held = body instanceof GatewayError ? 0 : body.length;
    const room = this.size < MAX_CALLS && buffers.tryTake(held);
    const full = room
      ? undefined
      : new GatewayError('overloaded', 'Too many calls of this WebSocket are under way; try again in a moment.');
    const heldBy = event === undefined ? undefined : this.#heldBy;
    const call = beginSocketCall({ opened: this.#opened, operation, body: full ?? body, event, settingsOnly }, this.#pipeline, heldBy);
    const end = await walkLine(call, this.#pipeline);
    // No event has an idempotency key, so nothing is answered again.
    const failure = end instanceof LineEnd ? undefined : end;
    const allowed = failure === undefined && call.refusal === undefined;
    const answer = new SocketAnswer();
    answer.times = { sentAt: startedAt, firstAt: undefined, endedAt: undefined };
    if (allowed) call.take({ onSocket: { answer } }, ['onSocket']);
    const judged = allowed ? judgedCall(call) : undefined;
    return {
      call,
      sendBytes: call.parts.outgoing?.bytes,
      answer,
      eventId: stringAt(event?.value, 'event_id'),
      lane: stringAt(event?.value, 'stream_id'),
      startedAt,
      held: room ? held : 0,
      allowed,
      failure,
      followed: judged && followStream(judged, this.#pipeline),
      unwatch: allowed && !settingsOnly ? this.#watch(call) : NOT_WATCHED,
    };
  }

  /** Its model may be another than that of the handshake. */
  #watch({ parts: { arrival, claims, route } }: WalkingCall): () => void {
    if (claims === undefined) return NOT_WATCHED;
    return this.#pipeline.running.watch(callUnderWay(arrival, claims, route), this.#endHeld);
  }

  /** Judges what is no call of its own: if it is allowed it leaves no record. */
  async #judgeOnly(body: Uint8Array | GatewayError, event: CallEvent | undefined, operation?: Operation): Promise<OpenCall> {
    const judged = await this.#judge(body, event, true, operation);
    if (!judged.allowed) return judged;
    this.#pipeline.buffers.give(judged.held);
    return { ...judged, held: 0 };
  }
}

const NOT_WATCHED = (): void => undefined;
const NOTHING_USED: Used = { usage: undefined, approximated: false, model: undefined };

/** What follows a call that policy has let through; undefined for one that did not come so far. */
function judgedCall(call: WalkingCall): (FollowedCall & IntendedCall) | undefined {
  const { arrival, claims, judgement, route, hold } = call.parts;
  return claims && judgement && route && hold && { arrival, claims, judgement, route, hold, draft: () => call.draft() };
}

/** What a call that has begun is known by. */
function keyOf({ responseId, lane }: ServerEvent): string {
  return responseId ?? lane ?? '';
}

function anotherModel(): GatewayError {
  return new GatewayError('ambiguous_body', 'The event names another model than its session has.');
}

function aboutCall(eventId: string | undefined, lane: string | undefined): { eventId?: string; lane?: string } {
  return { ...(eventId === undefined ? {} : { eventId }), ...(lane === undefined ? {} : { lane }) };
}

function encoded(params: Readonly<Record<string, unknown>>): Uint8Array {
  return Buffer.from(JSON.stringify(params));
}

function stringAt(value: unknown, name: string): string | undefined {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
  const found: unknown = Reflect.get(value, name);
  return typeof found === 'string' && found !== '' ? found : undefined;
}
