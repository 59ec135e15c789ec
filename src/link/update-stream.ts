import type { Events } from '../base/events/bus.ts';
import { type Clock, pause, retryDelay } from '../base/lib/clock.ts';
import { messageOf } from '../base/lib/gateway-error.ts';
import type { Logger } from '../base/lib/log.ts';
import type { Update, Versions } from '../control-plane/proto/messages.ts';
import type { Channel, RemoteName } from './link-ports.ts';

const ALL: readonly RemoteName[] = ['policy', 'workloads', 'credentials', 'export_config', 'addons', 'api_keys', 'keys', 'overlays'];
/** Updates that wait for what they named; what comes above that is told together with the last of them. */
const MAX_WAITING = 1_024;
/** Between two tries. */
const LONGEST_RETRY_MS = 16_000;

/** An update that is not in force yet. */
interface WaitingUpdate {
  readonly sequence: number;
  /** When it happened, milliseconds since the epoch; undefined where that says nothing. */
  readonly at: number | undefined;
  /** What it named and is not there yet. */
  readonly lacks: Set<RemoteName>;
}

export interface UpdateStreamOptions {
  readonly channel: Pick<Channel, 'updates'>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: Events;
  /** Of what is in force. */
  readonly versions: () => Versions;
  /** Fetches these, and tells the control plane. @returns those that could not be brought in; never rejects */
  readonly bringIn: (names: readonly RemoteName[]) => Promise<readonly RemoteName[]>;
}

/**
 * How a managed gateway hears of changes: one stream, which goes on behind the last update that is wholly in force
 * (decision 13.9). What an update names is fetched at once, and again until it is there; while something is fetched,
 * what is named meanwhile waits for the next round.
 */
export class UpdateStream {
  readonly #options: UpdateStreamOptions;
  readonly #ending = new AbortController();
  readonly #waiting: WaitingUpdate[] = [];
  #running: Promise<void> | undefined;
  #fetching: Promise<void> | undefined;
  /** The last update that came. */
  #last = 0;
  /** Ends the pause that is under way. */
  #news: () => void = () => undefined;

  constructor(options: UpdateStreamOptions) {
    this.#options = options;
  }

  /** The last update of which everything is in force, and everything of those before it. */
  get taken(): number {
    return Math.max(0, Math.min(this.#last, ...this.#waiting.map(({ sequence }) => sequence - 1)));
  }

  /** Opens the stream, and opens it again whenever it breaks. */
  start(): void {
    this.#running ??= this.#run();
  }

  async close(): Promise<void> {
    this.#ending.abort();
    await this.#running;
    await this.#fetching;
  }

  async #run(): Promise<void> {
    const { channel, log, versions } = this.#options;
    const { signal } = this.#ending;
    let failures = 0;
    while (!signal.aborted) {
      try {
        for await (const update of channel.updates({ after: String(this.taken), versions: versions() }, signal)) {
          failures = 0;
          this.#take(update);
        }
        log.debug({}, 'the stream of updates has ended');
      } catch (error) {
        if (!signal.aborted) log.warn({ failures }, `the stream of updates broke: ${messageOf(error)}`);
      }
      await this.#pause(failures);
      failures += 1;
    }
  }

  #take({ sequence: number, at: text, kind, resync, org }: Update): void {
    const sequence = Number(number);
    if (!Number.isSafeInteger(sequence)) return;
    // After a resync the numbers may begin anew.
    this.#last = resync ? sequence : Math.max(this.#last, sequence);
    if (resync) this.#waiting.length = 0;
    const names = resync ? ALL : ALL.filter((name) => org?.stale?.[name] === true);
    const at = kind === 'alive' ? undefined : Date.parse(text);
    if (names.length > 0) this.#await({ sequence, at, lacks: new Set(names) });
    // The state of the org itself is in force with the message.
    else if (kind === 'changed') this.#tellLag(at);
  }

  #await(update: WaitingUpdate): void {
    const known = this.#waiting.findIndex(({ sequence }) => sequence === update.sequence);
    const place = known === -1 && this.#waiting.length >= MAX_WAITING ? MAX_WAITING - 1 : known;
    const before = this.#waiting[place];
    // Another object: what a round under way brings in may be older than what is named now.
    if (before === undefined) this.#waiting.push(update);
    else this.#waiting[place] = { ...before, lacks: new Set([...before.lacks, ...update.lacks]) };
    this.#news();
    this.#fetching ??= this.#fetch();
  }

  /** Rounds of fetching, until nothing is lacking. */
  async #fetch(): Promise<void> {
    let failures = 0;
    try {
      while (this.#waiting.length > 0 && !this.#ending.signal.aborted) {
        const round = [...this.#waiting];
        const isWhole = await this.#bringIn(round);
        const hasNews = this.#waiting.some((update) => !round.includes(update));
        if (isWhole) failures = 0;
        // What came meanwhile is not kept waiting for what cannot be had.
        else if (!hasNews) await this.#pause(failures++, true);
      }
    } finally {
      this.#fetching = undefined;
    }
  }

  /** True when nothing that these updates named is lacking any more. */
  async #bringIn(round: readonly WaitingUpdate[]): Promise<boolean> {
    const names = new Set(round.flatMap(({ lacks }) => [...lacks]));
    const missing = new Set(await this.#options.bringIn([...names]));
    for (const { lacks } of round) for (const name of names) if (!missing.has(name)) lacks.delete(name);
    this.#settle();
    return missing.size === 0;
  }

  #settle(): void {
    const done = this.#waiting.filter(({ lacks }) => lacks.size === 0);
    for (const { at } of done) this.#tellLag(at);
    const left = this.#waiting.filter(({ lacks }) => lacks.size > 0);
    this.#waiting.splice(0, this.#waiting.length, ...left);
  }

  #tellLag(at: number | undefined): void {
    const { clock, events } = this.#options;
    if (at === undefined || Number.isNaN(at)) return;
    // Clocks may differ.
    events.emit('configSynced', Math.max(0, clock.now() - at) / 1_000);
  }

  /** Until it is time to try again, or it is over. @param orNews or another update has come */
  #pause(failures: number, orNews = false): Promise<void> {
    const news = new AbortController();
    if (orNews) this.#news = () => news.abort();
    const signal = AbortSignal.any([this.#ending.signal, news.signal]);
    return pause(this.#options.clock, retryDelay(failures, LONGEST_RETRY_MS), signal);
  }
}
