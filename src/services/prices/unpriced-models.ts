import type { EventBus } from '../../base/events/bus.ts';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { Shares } from '../../base/lib/shares.ts';
import { ownText, shorten } from '../../base/lib/text.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { CONTROL_BOUNDS } from '../../base/model/org-bounds.ts';
import { STRANGERS } from '../registers/sharers.ts';

/**
 * Names of models are what callers make of them: of the org with most of them the one that was charged least lately
 * gives way.
 */
const MOST_MODELS = CONTROL_BOUNDS.unpricedModels.all;

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
  /** The one that was charged least lately comes first. */
  readonly #models = new Map<string, { readonly model: UnpricedModel; readonly org: string }>();
  readonly #shares = new Shares(MOST_MODELS);
  readonly #knownOrg: (orgId: string) => boolean;
  readonly #endListening: () => void;

  /** @param ground.knownOrg whether somebody has laid down this org; default: all are known */
  constructor({
    clock,
    events,
    knownOrg = () => true,
  }: {
    readonly clock: Clock;
    readonly events: Pick<EventBus, 'subscribe'>;
    readonly knownOrg?: (orgId: string) => boolean;
  }) {
    this.#clock = clock;
    this.#knownOrg = knownOrg;
    this.#endListening = events.subscribe(['execution'], ({ record }) => this.#add(record));
  }

  /** The one that was called most first. */
  list(): readonly UnpricedModel[] {
    return Array.from(this.#models.values(), ({ model }) => model).sort((a, b) => b.calls - a.calls);
  }

  close(): void {
    this.#endListening();
  }

  #add({ metering, provider = '', model: asked, org_id: org }: ExecutionRecord): void {
    if (metering?.rate_source !== 'default') return;
    const passes = metering.passes?.filter(({ rate_source: source }) => source === 'default') ?? [];
    const names = passes.length === 0 ? [metering.model ?? asked] : passes.map(({ model }) => model ?? metering.model ?? asked);
    for (const name of new Set(names)) this.#addModel(org, provider, shorten(name ?? ''));
  }

  #addModel(callerOrg: string, provider: string, model: string): void {
    const key = ownText(`${provider}\n${model}`);
    const before = this.#models.get(key);
    const { org, model: known } = before ?? { org: this.#knownOrg(callerOrg) ? callerOrg : STRANGERS, model: undefined };
    if (before === undefined) this.#shares.take(org);
    else this.#models.delete(key);
    const calls = (known?.calls ?? 0) + 1;
    this.#models.set(key, { org, model: { provider, model: ownText(model), calls, last_at: timestamp(this.#clock.now()) } });
    if (this.#models.size > MOST_MODELS) this.#dropOne();
  }

  #dropOne(): void {
    const largest = this.#shares.largest();
    for (const [key, { org }] of this.#models) {
      if (org !== largest) continue;
      this.#models.delete(key);
      this.#shares.give(org);
      return;
    }
  }
}
