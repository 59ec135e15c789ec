import { randomUUID } from 'node:crypto';
import type { ShippedCatalogue } from '../../../base/catalogue/catalogue.ts';
import type { EventBus } from '../../../base/events/bus.ts';
import { type Clock, timestamp } from '../../../base/lib/clock.ts';
import { every, type RunningJob } from '../../../base/lib/every.ts';
import type { Logger } from '../../../base/lib/log.ts';
import { packageVersion } from '../../../base/lib/package-root.ts';
import type { ExecutionRecord } from '../../../base/model/execution-record.ts';
import { type SendReport, TELEMETRY_SCHEMA, type TelemetryReport } from '../../../base/model/telemetry-report.ts';
import type { Store } from '../../../storage/contract/store.ts';
import { ShippedNames } from './shipped-names.ts';
import { UsageWindow } from './usage-window.ts';

/** No receiver makes it shorter. */
const HOUR_MS = 3_600_000;
/** No receiver makes it longer. */
const LONGEST_MS = 7 * 24 * HOUR_MS;
/** Of a preview where nothing is collected. */
const PAGE = 500;
const MOST_RECORDS = 5_000;

/** Why nothing is sent, or where it goes. */
export type TelemetryState =
  | { readonly sending: false; readonly why: string }
  | { readonly sending: true; readonly url: string; readonly send: SendReport };

export interface UsageTelemetryOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: Pick<EventBus, 'subscribe'>;
  readonly store: Pick<Store, 'records'>;
  readonly nodeId: string;
  readonly catalogue: () => ShippedCatalogue;
  readonly state: TelemetryState;
}

export interface TelemetryPreview {
  readonly sending: boolean;
  /** Why nothing is sent. */
  readonly why?: string;
  readonly url: string | null;
  readonly interval_seconds: number;
  readonly next_at: string | null;
  /**
   * `window`: what is counted since the last report. `records`: nothing is counted, these are of the last hour's
   * records, the newest 5,000 at most.
   */
  readonly basis: 'window' | 'records';
  readonly last: { readonly at: string; readonly delivered: boolean; readonly detail: string } | null;
  readonly report: TelemetryReport;
}

/**
 * Counts what requests used and reports it once an hour, where somebody has named a place for that (specification,
 * "Usage telemetry"; decision 12.6). Without one it listens to nothing.
 */
export class UsageTelemetry {
  readonly #options: UsageTelemetryOptions;
  readonly #instanceId = randomUUID();
  readonly #high = new Set<string>();
  readonly #ending = new AbortController();
  #window: { readonly from: number; readonly usage: UsageWindow } | undefined;
  #intervalMs = HOUR_MS;
  #nextAt: number | undefined;
  #last: TelemetryPreview['last'] = null;
  readonly #job: RunningJob | undefined;
  readonly #endListening: (() => void) | undefined;

  constructor(options: UsageTelemetryOptions) {
    this.#options = options;
    const { state, events } = options;
    if (!state.sending) return;
    this.#window = this.#begin();
    this.#endListening = events.subscribe(['execution', 'usageSettled'], ({ record }) => this.#window?.usage.add(record));
    this.#nextAt = options.clock.now() + this.#intervalMs;
    this.#job = every(options, {
      everyMs: () => this.#intervalMs,
      run: () => this.#flush(state.send),
      failed: 'a usage report could not be made, and what it counted is dropped',
    });
  }

  /** What would be sent now. */
  async preview(): Promise<TelemetryPreview> {
    const { state, clock } = this.#options;
    const now = clock.now();
    const shown = {
      interval_seconds: this.#intervalMs / 1_000,
      next_at: this.#nextAt === undefined ? null : timestamp(this.#nextAt),
      last: this.#last,
    };
    if (state.sending && this.#window !== undefined)
      return { sending: true, url: state.url, ...shown, basis: 'window', report: this.#report(this.#window, now) };
    const from = now - HOUR_MS;
    const recent = { from, usage: await this.#recent(from) };
    const why = state.sending ? 'the gateway is stopping' : state.why;
    return { sending: false, why, url: null, ...shown, basis: 'records', report: this.#report(recent, now) };
  }

  /** What is counted by now is sent to nobody. */
  async close(): Promise<void> {
    this.#ending.abort();
    this.#endListening?.();
    this.#window = undefined;
    await this.#job?.stop();
  }

  #begin(): { readonly from: number; readonly usage: UsageWindow } {
    const { clock, catalogue } = this.#options;
    const from = clock.now();
    return { from, usage: new UsageWindow(new ShippedNames(catalogue()), this.#high) };
  }

  /** The window is over whatever becomes of its report: nothing is sent a second time. */
  async #flush(send: SendReport): Promise<void> {
    const { clock, log } = this.#options;
    const ended = this.#window;
    if (ended === undefined) return;
    this.#window = this.#begin();
    const report = this.#report(ended, this.#window.from);
    const { delivered, detail, pauseMs = 0 } = await send(report, this.#ending.signal);
    if (this.#ending.signal.aborted) return;
    this.#last = { at: timestamp(clock.now()), delivered, detail };
    if (!delivered) log.warn({ detail }, 'a usage report could not be sent, and what it counted is dropped');
    this.#intervalMs = Math.min(Math.max(HOUR_MS, pauseMs), LONGEST_MS);
    this.#nextAt = clock.now() + this.#intervalMs;
  }

  #report({ from, usage }: { readonly from: number; readonly usage: UsageWindow }, until: number): TelemetryReport {
    return {
      schema: TELEMETRY_SCHEMA,
      instance_id: this.#instanceId,
      version: packageVersion(),
      window_start: timestamp(from),
      window_end: timestamp(until),
      ...usage.counts(),
    };
  }

  /** Of records: only where somebody asks, and nothing is collected. */
  async #recent(from: number): Promise<UsageWindow> {
    const { store, nodeId, catalogue } = this.#options;
    const found: ExecutionRecord[] = [];
    for (let after: string | undefined; found.length < MOST_RECORDS; ) {
      const page = await store.records({
        limit: PAGE,
        since: from,
        node_id: nodeId,
        newestFirst: true,
        ...(after === undefined ? {} : { after }),
      });
      // What is stored was written by this program.
      for (const { text } of page) found.push(JSON.parse(text) as ExecutionRecord);
      after = page.at(-1)?.position;
      if (page.length < PAGE) break;
    }
    const usage = new UsageWindow(new ShippedNames(catalogue()), new Set());
    for (const record of found.reverse()) usage.add(record);
    return usage;
  }
}
