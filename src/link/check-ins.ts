import type { Clock } from '../base/lib/clock.ts';
import { retryDelay } from '../base/lib/clock.ts';
import { every, type RunningJob } from '../base/lib/every.ts';
import { messageOf } from '../base/lib/gateway-error.ts';
import type { Logger } from '../base/lib/log.ts';
import { packageVersion } from '../base/lib/package-root.ts';
import { ProtocolError } from '../control-plane/proto/protocol-error.ts';
import type { ContactBook } from './contact-book.ts';
import type { ControlPlaneChannel } from './control-plane-channel.ts';
import type { Channel } from './link-ports.ts';
import type { RemoteFetches } from './remote-fetches.ts';

/** `GW_CHECKIN_IDLE_THRESHOLD` below this counts as this (specification, "Deployment modes"). */
const LEAST_IDLE_MS = 30_000;
/** Between two that callers have given rise to. */
const LEAST_BETWEEN_MS = 1_000;
/** While nobody answers. */
const LONGEST_RETRY_MS = 15_000;

export interface CheckInOptions {
  readonly channel: Pick<ControlPlaneChannel, keyof Channel | 'nextTurn' | 'carriedAt'>;
  readonly contact: Pick<ContactBook, 'failed'>;
  readonly fetches: RemoteFetches;
  /** The bundle in force, as it was signed; undefined: there is none. */
  readonly signedBundle?: (() => { readonly sequence: number; readonly kid: string } | undefined) | undefined;
  readonly clock: Clock;
  readonly log: Logger;
  /** `GW_CHECKIN_IDLE_THRESHOLD`, milliseconds. */
  readonly idleMs: number;
}

/**
 * When the gateway tells the control plane what it has, and fetches what is newer there (decision 13.8). One at a time;
 * after each round of fetching another.
 */
export class CheckIns {
  readonly counts = { ok: 0, failed: 0, refused: 0 };
  readonly #options: CheckInOptions;
  readonly #idleMs: number;
  readonly #job: RunningJob;
  #isRunning = false;
  /** The next one is asked for, and not only due. */
  #isAsked = false;
  #begunAt = Number.NEGATIVE_INFINITY;
  #failures = 0;
  #closed = false;

  constructor(options: CheckInOptions) {
    this.#options = options;
    this.#idleMs = Math.max(options.idleMs, LEAST_IDLE_MS);
    this.#job = every(options, {
      everyMs: () => (this.#begunAt === Number.NEGATIVE_INFINITY ? undefined : this.#dueIn()),
      run: () => (this.#isAsked || this.#failures > 0 || this.#dueIn() <= 0 ? this.#run() : undefined),
      failed: 'the control plane could not be told what this gateway has',
    });
  }

  /** The first one. Resolves when it and what it led to have ended, well or not. */
  start(): Promise<void> {
    this.#isAsked = true;
    return this.#job.now();
  }

  /** At once, unless one is under way; a second after the last one began at the soonest. Waits for nothing. */
  soon(): void {
    if (this.#closed || this.#isRunning || this.#isAsked) return;
    this.#isAsked = true;
    const wait = this.#begunAt + LEAST_BETWEEN_MS - this.#options.clock.monotonic();
    if (wait <= 0) void this.#job.now();
    else this.#job.within(wait);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#job.stop();
  }

  /** Never rejects. */
  async #run(): Promise<void> {
    const { channel, fetches, clock } = this.#options;
    this.#isRunning = true;
    this.#isAsked = false;
    this.#begunAt = clock.monotonic();
    try {
      // What other answers have said is stale.
      if (fetches.dueIn === 0) await fetches.round(channel);
      while (!this.#closed && (await this.#checkIn())) {
        if (this.#closed || !(await fetches.round(channel))) return;
      }
    } finally {
      this.#isRunning = false;
    }
  }

  async #checkIn(): Promise<boolean> {
    const { channel, fetches, contact, signedBundle } = this.#options;
    fetches.toldFrom(channel.nextTurn);
    try {
      const { sequence = 0, kid = '' } = signedBundle?.() ?? {};
      await channel.call('CheckIn', {
        versions: fetches.versions(),
        gateway_version: packageVersion(),
        policy_sequence: String(sequence),
        policy_kid: kid,
      });
      this.counts.ok += 1;
      this.#failures = 0;
      return true;
    } catch (error) {
      if (this.#closed) return false;
      const revoked = error instanceof ProtocolError && error.fault === 'PERMISSION_DENIED';
      this.counts[revoked ? 'refused' : 'failed'] += 1;
      this.#failures += 1;
      // Told when to come again: that is contact, though nothing was said of the org.
      if (error instanceof ProtocolError && error.retryAfterMs !== undefined) return false;
      await contact.failed(messageOf(error), revoked);
      if (revoked) await fetches.erase();
      return false;
    }
  }

  #dueIn(): number {
    const { clock, channel, fetches } = this.#options;
    if (this.#failures > 0) return retryDelay(this.#failures - 1, LONGEST_RETRY_MS);
    const idle = Math.max(0, channel.carriedAt + this.#idleMs - clock.monotonic());
    return Math.min(idle, fetches.dueIn ?? idle);
  }
}
