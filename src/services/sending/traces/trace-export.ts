import type { Listeners } from '../../../base/events/bus.ts';
import type { TracedCall } from '../../../base/events/traced-call.ts';
import { type Clock, pause, retryDelay } from '../../../base/lib/clock.ts';
import { every, type RunningJob } from '../../../base/lib/every.ts';
import { LineLimiter } from '../../../base/lib/line-limiter.ts';
import type { Logger } from '../../../base/lib/log.ts';
import { spansOf } from '../../../outbound/destinations/call-spans.ts';
import { type OtlpReceiver, postSpans } from '../../../outbound/destinations/otlp-sender.ts';
import type { WayOut } from '../../../outbound/destinations/way-out.ts';
import { SpanQueue } from './span-queue.ts';

/** Spans that come in that time go out together. */
const GATHER_MS = 1_000;
const TRIES = 5;
/** A receiver may ask for so much patience. */
const MAX_WAIT_MS = 60_000;
/** How long what waits may take to leave when the gateway stops. */
const FLUSH_MS = 5_000;

export interface TraceExportOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly door: Pick<WayOut, 'post'>;
  readonly receiver: OtlpReceiver;
  /** What stands before the spans of a batch. */
  readonly envelope: string;
}

/** What became of spans; `rejected` ones came with a batch that was taken, `dropped` ones found the queue full. */
export interface SpanCounts {
  exported: number;
  rejected: number;
  failed: number;
  dropped: number;
}

/**
 * Sends the spans of calls that are over, in batches, one after the other. No call waits for it, and what it holds is
 * bounded.
 */
export class TraceExport {
  readonly #options: TraceExportOptions;
  readonly #queue = new SpanQueue();
  readonly #limiter: LineLimiter;
  readonly #ending = new AbortController();
  readonly #closed = new AbortController();
  readonly #job: RunningJob;
  readonly counts: SpanCounts = { exported: 0, rejected: 0, failed: 0, dropped: 0 };

  constructor(options: TraceExportOptions) {
    this.#options = options;
    this.#limiter = new LineLimiter(options.clock);
    this.#job = every(options, { everyMs: () => undefined, run: () => this.#sendAll(), failed: 'spans could not be sent' });
  }

  get events(): Listeners {
    return { traced: (call) => this.#take(call) };
  }

  /** Sends what waits, for five seconds at most, and gives up the rest. */
  async close(): Promise<void> {
    // Nobody waits for a second try while the gateway stops.
    this.#closed.abort();
    const cancel = this.#options.clock.after(FLUSH_MS, () => this.#ending.abort());
    await this.#job.stop();
    await this.#sendAll();
    cancel();
  }

  #take(call: TracedCall): void {
    const spans = call.upstream === undefined ? 1 : 2;
    const { clock } = this.#options;
    const sharer = { address: call.callerIp, org: call.record?.org_id ?? '' };
    const dropped = this.#closed.signal.aborted ? undefined : this.#queue.makeRoom(sharer);
    if (dropped !== 0) {
      this.counts.dropped += dropped ?? spans;
      this.#warn('dropped', 'spans are dropped: the receiver of traces does not take them as fast as they come');
      if (dropped === undefined) return;
    }
    this.#queue.push(spansOf(call, { epochAtZero: clock.now() - clock.monotonic() }), spans, sharer);
    if (this.#queue.isFullBatch) void this.#job.now();
    else this.#job.within(GATHER_MS);
  }

  async #sendAll(): Promise<void> {
    for (let batch = this.#queue.take(); batch; batch = this.#queue.take()) await this.#send(batch.text, batch.spans);
  }

  async #send(text: string, spans: number): Promise<void> {
    const { door, receiver, envelope, clock } = this.#options;
    const { signal } = this.#ending;
    for (let tries = 1; ; tries += 1) {
      const outcome = await postSpans(door, receiver, { envelope, text }, { signal, now: clock.now() });
      if (outcome.kind === 'taken') {
        const rejected = Math.min(outcome.rejected, spans);
        this.counts.exported += spans - rejected;
        this.counts.rejected += rejected;
        if (outcome.said !== undefined || rejected > 0) this.#warn('rejected', 'the receiver of traces did not take all', outcome.said);
        return;
      }
      if (outcome.kind === 'refused' || tries >= TRIES || this.#closed.signal.aborted) {
        this.counts.failed += spans;
        this.#warn('failed', 'spans could not be sent', outcome.said);
        return;
      }
      await pause(clock, Math.min(outcome.afterMs ?? retryDelay(tries - 1), MAX_WAIT_MS), this.#closed.signal);
    }
  }

  #warn(kind: keyof SpanCounts, message: string, said?: string): void {
    const suppressed = this.#limiter.take(kind);
    if (suppressed === undefined) return;
    this.#options.log.warn(
      { outcome: kind, ...(said === undefined ? {} : { said }), ...(suppressed === 0 ? {} : { suppressed }) },
      message,
    );
  }
}
