import type { StreamRule } from '../../base/catalogue/types.ts';
import { ByteCollector } from '../../base/lib/byte-collector.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { Sha256, sha256Hex } from '../../base/lib/sha256.ts';
import type { ReplySink } from '../../base/model/arrival.ts';
import { UsageHider } from '../../outbound/connectors/usage-hider.ts';
import type { BufferHold } from '../body/buffer-budget.ts';
import type { AnswerCopy } from '../parts/answer-copy.ts';
import { HOLD_BYTES } from './send.ts';

type Framing = StreamRule['framing'];

const LF = 0x0a;
const LINE_ENDS = 0x0a0a;
const RETURNS = 0x0d0d;
const CRLF_TWICE = 0x0d0a0d0a;

/**
 * The bytes of an answer on their way to its client: counted, hashed and copied as it is given them, those that wait
 * for the record held. What comes of a question for usage that the client has not asked is taken out.
 */
export class ClientBytes {
  /**
   * Not yet handed to the client: the whole answer while it is held, the tail from the terminal event on while it
   * streams.
   */
  readonly held: HeldBytes;
  readonly #reply: ReplySink;
  readonly #copy: AnswerCopy | undefined;
  readonly #onTail: (fits: boolean) => void;
  /** Only a stream is hashed piece by piece; what is held is hashed at once, which costs a third. */
  #hash: Sha256 | undefined;
  /** Set for a stream whose usage the client did not ask for. */
  #hider: UsageHider | undefined;
  /** The head has left as that of a stream, and the body is none: it is held as any small answer. */
  #holdsBody = false;
  /** Given to the client, or held for it. */
  count = 0;
  /** The last four bytes of that; before the first one, as behind an event. */
  #last = LINE_ENDS;

  /** @param onTail told of each piece that is held from the terminal event on; `fits` false: there is no room for it */
  constructor(reply: ReplySink, held: HeldBytes, copy: AnswerCopy | undefined, onTail: (fits: boolean) => void) {
    this.#reply = reply;
    this.held = held;
    this.#copy = copy;
    this.#onTail = onTail;
  }

  /** Bytes are written from now on, those that were held first. */
  begin(hidesUsage: boolean): void {
    this.#hash = new Sha256();
    if (hidesUsage) this.#hider = new UsageHider();
  }

  /** Writes what was held before `begin`. @returns as `write` of the reply */
  writeFirst(): boolean {
    return this.#write(this.#hash);
  }

  /** Writes what was held since, and ends the answer, with these pieces and trailers behind it. */
  finish(trailers: readonly string[], more: readonly Uint8Array[] = []): void {
    this.#write();
    for (const piece of more) this.#reply.write(piece);
    this.#reply.end(trailers);
  }

  /** What was begun as a stream is none. */
  holdBody(): void {
    this.#holdsBody = true;
    this.#hider = undefined;
  }

  /** Counts, hashes and copies what the client is given. */
  note(bytes: Uint8Array): void {
    this.count += bytes.length;
    for (let at = Math.max(0, bytes.length - 4); at < bytes.length; at++) this.#last = (this.#last << 8) | (bytes[at] ?? 0);
    this.#copy?.push(bytes);
    this.#hash?.update(bytes);
  }

  /**
   * Notes bytes and passes them on.
   * @param terminalAt offset from which they belong to the terminal event; -1 for none of them
   * @returns as `write` of the reply
   */
  carry(chunk: Uint8Array, terminalAt: number): boolean {
    if (this.#hider) return this.#carryHiding(chunk, terminalAt, this.#hider);
    this.note(chunk);
    return this.pass(chunk, terminalAt);
  }

  /** Passes on bytes that were noted. */
  pass(chunk: Uint8Array, terminalAt: number): boolean {
    if (terminalAt < 0) return this.#holdsBody ? this.#hold(chunk) : this.#reply.write(chunk);
    if (terminalAt > 0) this.#reply.write(chunk.subarray(0, terminalAt));
    return this.#holdTail(terminalAt === 0 ? chunk : chunk.subarray(terminalAt));
  }

  /** Whether what was given ends with an event: a blank line, where events have one behind them, else a line. */
  endsWithEvent(framing: Framing): boolean {
    if (framing === 'ndjson') return (this.#last & 0xff) === LF;
    const pair = this.#last & 0xffff;
    return framing === 'sse' && (pair === LINE_ENDS || pair === RETURNS || this.#last === CRLF_TWICE);
  }

  /** Nothing more comes: of a line that never ended its beginning goes too. */
  end(): void {
    const begun = this.#hider?.flush();
    if (begun) this.keep(begun);
  }

  /** Notes bytes and holds them. */
  keep(bytes: Uint8Array): void {
    this.note(bytes);
    this.held.push(bytes);
  }

  /** Of all that was noted. */
  get sha256(): string {
    return this.#hash?.hex() ?? sha256Hex(this.held.whole);
  }

  /** A line that has begun waits for its end. */
  #carryHiding(chunk: Uint8Array, terminalAt: number, hider: UsageHider): boolean {
    const passed = hider.push(terminalAt < 0 ? chunk : chunk.subarray(0, terminalAt));
    this.note(passed);
    const more = passed.length === 0 || this.#reply.write(passed);
    if (terminalAt < 0) return more;
    const tail = Buffer.concat([hider.flush(), chunk.subarray(terminalAt)]);
    this.note(tail);
    return this.#holdTail(tail);
  }

  #holdTail(bytes: Uint8Array): boolean {
    this.#onTail(this.held.pushCounted(bytes));
    return true;
  }

  #hold(chunk: Uint8Array): boolean {
    this.held.push(chunk);
    if (!this.held.isLarge) return true;
    this.#holdsBody = false;
    return this.#write();
  }

  #write(hash?: Sha256): boolean {
    const held = this.held.take();
    hash?.update(held);
    return held.length === 0 || this.#reply.write(held);
  }
}

/**
 * Bytes of one answer that its client is not given yet. Those beyond the usual are counted against the budget that all
 * bodies share, and the client's part of it.
 */
export class HeldBytes {
  readonly #bytes = new ByteCollector();
  readonly #maxBytes: number;
  readonly #openHold: () => BufferHold;
  #hold: BufferHold | undefined;
  #taken: Uint8Array | undefined;

  /**
   * @param maxBytes that may be held, whatever the budget has
   * @param openHold asked for when it is needed, which is seldom
   */
  constructor(maxBytes: number, openHold: () => BufferHold) {
    this.#maxBytes = maxBytes;
    this.#openHold = openHold;
  }

  get isLarge(): boolean {
    return this.#bytes.size > HOLD_BYTES;
  }

  push(bytes: Uint8Array): void {
    this.#bytes.push(bytes);
  }

  /** Pushes bytes. @returns false when there is no room for them */
  pushCounted(bytes: Uint8Array): boolean {
    this.#bytes.push(bytes);
    if (!this.isLarge) return true;
    if (this.#bytes.size > this.#maxBytes) return false;
    try {
      this.#hold ??= this.#openHold();
      this.#hold.take(bytes.length);
      return true;
    } catch (error) {
      if (error instanceof GatewayError) return false;
      throw error;
    }
  }

  /** What was pushed since it was last taken. */
  take(): Uint8Array {
    return this.#bytes.take();
  }

  /** All of an answer that is held to its end. */
  get whole(): Uint8Array {
    this.#taken ??= this.#bytes.take();
    return this.#taken;
  }

  /** Nothing is counted any more. */
  giveBack(): void {
    this.#hold?.keep(0);
  }
}
