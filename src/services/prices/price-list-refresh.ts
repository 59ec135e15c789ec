import { stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { PriceListSource } from '../../base/config/price-list-source.ts';
import { type Clock, retryDelay, timestamp } from '../../base/lib/clock.ts';
import { every, type RunningJob } from '../../base/lib/every.ts';
import { codeOf, GatewayError, messageOf } from '../../base/lib/gateway-error.ts';
import type { Logger } from '../../base/lib/log.ts';
import type { HealthWarning } from '../../base/model/not-ready.ts';
import { FolderWatch } from '../keeper/folder-watch.ts';
import type { ListSources, NamedSource } from './list-sources.ts';
import type { ComparedList, ListChange, PriceLists, TakenOutcome } from './price-lists.ts';

const HOUR_MS = 3_600_000;
/** The same reason is said again after this. */
const SAID_AGAIN_AFTER_MS = 24 * HOUR_MS;
/** Failures that the first delay stands for: about a minute. */
const FIRST_FAILURES = 6;

/** When the source was asked the last time, and what came of it. */
export interface LastRefresh {
  readonly at: string;
  readonly outcome: TakenOutcome['outcome'] | 'refused' | 'failed';
  /** Why it was refused, is older or has failed. */
  readonly detail?: string;
}

export interface PriceListRefreshOptions {
  readonly lists: PriceLists;
  readonly sources: ListSources;
  readonly clock: Clock;
  readonly log: Logger;
  /** `GW_PRICE_LIST`. */
  readonly source: PriceListSource;
  /** `GW_PRICE_LIST_REFRESH`, milliseconds. */
  readonly everyMs: number;
  /** As whom it changes the list. */
  readonly change: ListChange;
}

/**
 * Takes the list of the source that `GW_PRICE_LIST` names: of a file at the start and when it changes, of an address at
 * the start and from time to time. What cannot be had or used leaves the list in force, and is said in one line.
 */
export class PriceListRefresh {
  readonly #options: PriceListRefreshOptions;
  readonly #ending = new AbortController();
  #last: LastRefresh | undefined;
  #nextAt: number | undefined;
  /** Milliseconds to the next time that the address is asked; undefined: it is not asked yet. */
  #waitMs: number | undefined;
  #job: RunningJob | undefined;
  #watch: FolderWatch | undefined;
  #failures = 0;
  #said: { readonly detail: string; readonly at: number } | undefined;
  #looked = '';

  constructor(options: PriceListRefreshOptions) {
    this.#options = options;
  }

  /** The setting. */
  get source(): PriceListSource {
    return this.#options.source;
  }

  get everyMs(): number {
    return this.#options.everyMs;
  }

  get last(): LastRefresh | undefined {
    return this.#last;
  }

  /** When the address is asked next, epoch milliseconds; undefined: never. */
  get nextAt(): number | undefined {
    return this.#nextAt;
  }

  warnings(): readonly HealthWarning[] {
    const { outcome, detail = '' } = this.#last ?? {};
    return outcome === 'refused' || outcome === 'failed' ? [{ code: 'price_list_not_renewed', message: detail }] : [];
  }

  /** Resolves when a file was read; an address is not waited for. */
  async start(): Promise<void> {
    const { source, clock, log } = this.#options;
    if (source.kind === 'address') {
      const failed = 'the source of the price list could not be asked';
      this.#job = every(this.#options, { everyMs: () => this.#waitMs, run: () => this.#askNow(), failed });
      void this.#job.now();
    }
    if (source.kind !== 'file') return;
    await this.#look(source.path);
    const folders = (): readonly string[] => [dirname(source.path)];
    this.#watch = new FolderWatch({ folders, onChange: () => this.#look(source.path), clock, log });
  }

  /**
   * Takes what a source has now because somebody asks for it.
   * @param source default: that of the setting
   * @throws GatewayError as `ListSources.read` and `PriceLists.take`
   */
  async update(change: ListChange, source: PriceListSource = this.#options.source): Promise<TakenOutcome> {
    if (source.kind === 'shipped') return await this.#options.lists.backToShipped(change);
    const take = (): Promise<TakenOutcome> => this.#takeFrom(source, change, false);
    return source.name === this.#options.source.name ? await this.#note(take) : await take();
  }

  /** What it would change. @throws GatewayError as {@link update} */
  async compare(source: PriceListSource = this.#options.source): Promise<ComparedList> {
    const { lists, sources } = this.#options;
    if (source.kind === 'shipped') return await lists.compareShipped();
    const given = await sources.read(source, this.#ending.signal);
    return given === undefined ? await lists.compareShipped() : await lists.compare(given);
  }

  async close(): Promise<void> {
    this.#ending.abort();
    await this.#watch?.close();
    await this.#job?.stop();
  }

  async #askNow(): Promise<void> {
    const { source, everyMs, change, clock } = this.#options;
    if (source.kind !== 'address') return;
    const isDone = await this.#trying(() => this.#takeFrom(source, change, true));
    if (this.#ending.signal.aborted) return;
    this.#failures = isDone ? 0 : this.#failures + 1;
    this.#waitMs = isDone ? everyMs : retryDelay(FIRST_FAILURES + this.#failures - 1, Math.min(everyMs, HOUR_MS));
    this.#nextAt = clock.now() + this.#waitMs;
  }

  /** Reads the file, unless it is as it was when it was looked at last. */
  async #look(path: string): Promise<void> {
    const { source, change } = this.#options;
    if (source.kind !== 'file') return;
    const looked = await signOf(path);
    if (looked === this.#looked) return;
    this.#looked = looked;
    // What cannot be read now may be in half a minute, without another word of it.
    if (!(await this.#trying(() => this.#takeFrom(source, change, true))) && this.#last?.outcome === 'failed') this.#looked = '';
  }

  async #takeFrom(source: NamedSource, change: ListChange, unasked: boolean): Promise<TakenOutcome> {
    const { lists, sources } = this.#options;
    const { seen } = lists;
    const etag = unasked && seen?.name === source.name ? seen.etag : undefined;
    const given = await lists.had(() => sources.read(source, this.#ending.signal, etag));
    return given === undefined ? lists.same() : await lists.take(given, change, unasked);
  }

  /** @returns whether it was taken, or is in force already */
  async #trying(take: () => Promise<TakenOutcome>): Promise<boolean> {
    try {
      await this.#note(take);
      return true;
    } catch (error) {
      if (!this.#ending.signal.aborted) this.#say(messageOf(error));
      return false;
    }
  }

  async #note(take: () => Promise<TakenOutcome>): Promise<TakenOutcome> {
    const at = timestamp(this.#options.clock.now());
    try {
      const taken = await take();
      const { outcome, day } = taken;
      const detail = outcome === 'older' ? `it is of ${day}, and the one in force of a later day` : undefined;
      this.#last = { at, outcome, ...(detail === undefined ? {} : { detail }) };
      if (detail === undefined) this.#said = undefined;
      else this.#say(detail);
      return taken;
    } catch (error) {
      const isRefused = error instanceof GatewayError && error.code === 'invalid_price_list';
      this.#last = { at, outcome: isRefused ? 'refused' : 'failed', detail: messageOf(error) };
      throw error;
    }
  }

  /** One line, and not the same one each time. */
  #say(detail: string): void {
    const { clock, log, lists, source } = this.#options;
    const now = clock.monotonic();
    if (this.#said?.detail === detail && now - this.#said.at < SAID_AGAIN_AFTER_MS) return;
    this.#said = { detail, at: now };
    log.warn(
      { source: source.name, reason: detail },
      `the price list was not renewed; that of ${lists.inForce.date ?? 'before'} stays in force`,
    );
  }
}

/** Tells one state of a file from another. */
async function signOf(path: string): Promise<string> {
  try {
    const { mtimeMs, ctimeMs, size, ino } = await stat(path);
    return `${mtimeMs} ${ctimeMs} ${size} ${ino}`;
  } catch (error) {
    return codeOf(error);
  }
}
