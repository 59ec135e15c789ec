import { setImmediate as turn } from 'node:timers/promises';
import { type DecodeOutcome, type Decoder, type DecoderOptions, Gate } from '../decoder-gate.ts';
import { ZstdFrames, ZstdRefused } from './zstd-frames.ts';

/**
 * Work after which others get their turn: decoded bytes, and as many more for each frame and block. A few milliseconds.
 */
const TURN_WORK = 128 * 1024;
const WORK_PER_PART = 4096;
const NOTHING = new Uint8Array(0);

/** Decodes the content coding `zstd` (RFC 8878, RFC 9659) in the event loop, a few milliseconds at a time. */
export class ZstdDecoder implements Decoder {
  reason: string | undefined;
  readonly #maxWaiting: number;
  readonly #gate: Gate;
  readonly #frames: ZstdFrames;
  #outcome: DecodeOutcome | undefined;
  #running: Promise<void> = Promise.resolve();
  #busy = false;
  /** What is read from; `#at` is where. */
  #current: Uint8Array = NOTHING;
  #at = 0;
  #queue: Uint8Array[] = [];
  /** Bytes that were given and not read. */
  #waiting = 0;
  #work = 0;

  constructor(options: DecoderOptions, maxWaiting: number) {
    this.#maxWaiting = maxWaiting;
    this.#gate = new Gate(options);
    // The frames go on to write where they decoded to.
    this.#frames = new ZstdFrames((bytes) => this.#gate.pass(bytes.slice()));
  }

  async push(chunk: Uint8Array): Promise<void> {
    if (this.#outcome !== undefined || chunk.length === 0) return;
    if (this.#waiting > this.#maxWaiting) {
      this.#finish('capped');
      return;
    }
    this.#queue.push(chunk);
    this.#waiting += chunk.length;
    if (!this.#busy) this.#running = this.#run();
    await this.#running;
  }

  async end(): Promise<DecodeOutcome> {
    await this.#running;
    return this.#finish(this.#frames.whole && this.#waiting === 0 ? 'complete' : 'broken');
  }

  abort(): void {
    this.#finish('broken');
  }

  async #run(): Promise<void> {
    this.#busy = true;
    try {
      while (this.#outcome === undefined && this.#gather()) {
        this.#step();
        if (this.#work < TURN_WORK) continue;
        this.#work = 0;
        await turn();
      }
    } catch (error) {
      const refused = error instanceof ZstdRefused;
      if (refused) this.reason = error.message;
      this.#finish(refused ? 'refused' : 'broken');
    }
    this.#busy = false;
  }

  #step(): void {
    const frames = this.#frames;
    const { needs } = frames;
    const count = Math.min(needs, this.#current.length - this.#at);
    if (count < needs) frames.skip(count);
    else this.#work += frames.read(this.#current, this.#at) + WORK_PER_PART;
    this.#at += count;
    this.#waiting -= count;
    if (this.#gate.capped || (frames.announced ?? 0) > this.#gate.limit) this.#finish('capped');
  }

  /** Brings together what the next part needs; false while it has not come. */
  #gather(): boolean {
    const { needs, skipping } = this.#frames;
    const rest = this.#current.length - this.#at;
    if (rest >= needs || (skipping && rest > 0)) return true;
    if (this.#waiting < needs && !(skipping && this.#waiting > 0)) return false;
    const [only] = this.#queue;
    this.#current = rest === 0 && only !== undefined && this.#queue.length === 1 ? only : this.#joined();
    this.#at = 0;
    this.#queue = [];
    return true;
  }

  #joined(): Uint8Array {
    return Buffer.concat([this.#current.subarray(this.#at), ...this.#queue], this.#waiting);
  }

  /** The first outcome stands. */
  #finish(outcome: DecodeOutcome): DecodeOutcome {
    if (this.#outcome === undefined) {
      this.#outcome = outcome;
      this.#queue = [];
      this.#current = NOTHING;
      this.#at = 0;
    }
    return this.#outcome;
  }
}
