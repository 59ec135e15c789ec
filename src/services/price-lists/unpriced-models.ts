import type { EventBus } from '../../base/events/bus.ts';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { Lru } from '../../base/lib/lru.ts';
import { ownText } from '../../base/lib/own-text.ts';
import { shorten } from '../../base/lib/shorten.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';

/** Names of models are what callers make of them: those that were charged last are kept. */
const MOST_MODELS = 100;

/** A model that the price list does not know, and that was called. */
export interface UnpricedModel {
  readonly provider: string;
  readonly model: string;
  readonly calls: number;
  readonly last_at: string;
}

/** Which models were charged at the default rates since the start of this gateway. */
export class UnpricedModels {
  readonly #clock: Clock;
  readonly #models = new Lru<string, UnpricedModel>({ max: MOST_MODELS });
  readonly #endListening: () => void;

  constructor({ clock, events }: { readonly clock: Clock; readonly events: Pick<EventBus, 'subscribe'> }) {
    this.#clock = clock;
    this.#endListening = events.subscribe(['execution'], ({ record }) => this.#add(record));
  }

  /** The one that was called most first. */
  list(): readonly UnpricedModel[] {
    return Array.from(this.#models.entries(), ([, model]) => model).sort((a, b) => b.calls - a.calls);
  }

  close(): void {
    this.#endListening();
  }

  #add({ metering, provider = '', model: asked }: ExecutionRecord): void {
    if (metering?.rate_source !== 'default') return;
    const passes = metering.passes?.filter(({ rate_source: source }) => source === 'default') ?? [];
    const names = passes.length === 0 ? [metering.model ?? asked] : passes.map(({ model }) => model ?? metering.model ?? asked);
    for (const name of new Set(names)) this.#addModel(provider, shorten(name ?? ''));
  }

  #addModel(provider: string, model: string): void {
    const key = `${provider}\n${model}`;
    const calls = (this.#models.peek(key)?.calls ?? 0) + 1;
    this.#models.set(ownText(key), { provider, model: ownText(model), calls, last_at: timestamp(this.#clock.now()) });
  }
}
