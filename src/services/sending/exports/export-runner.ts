import type { Destination, DurableEvent, DurableName } from '../../../base/events/destination.ts';
import type { ExportEventName, ExportKind } from '../../../base/model/export-destination.ts';
import { CONTROL_BOUNDS } from '../../../base/model/org-bounds.ts';
import type { ExportedEvent } from '../../../outbound/destinations/event-envelope.ts';
import type { Effect, Store } from '../../../storage/contract/store.ts';
import type { DeadLetters } from './dead-letters.ts';
import type { ExportCounts } from './export-counts.ts';
import { type ExportSenderOptions, type ExportTarget, sendAll } from './export-sender.ts';
import { EXPORTED, exportedEvent } from './exported-events.ts';

/** Letters of one destination; what cannot be delivered beyond them is dropped, and counted. */
const MAX_DEAD = CONTROL_BOUNDS.deadLetters.one;

export interface ExportRunnerOptions {
  readonly store: Store;
  readonly sender: ExportSenderOptions;
  readonly deadLetters: DeadLetters;
  readonly counts: ExportCounts;
}

/** One place that events go to, as it is now. */
export interface ExportPlace {
  readonly id: string;
  /** Undefined: events of every org. */
  readonly orgId: string | undefined;
  readonly kind: ExportKind;
  /** What happened earlier is not for it, milliseconds since the epoch. */
  readonly since: number;
  readonly target: () => ExportTarget;
  /** Whether it takes events of this name now. */
  readonly takes: (type: ExportEventName) => boolean;
}

/**
 * Sends to one place, keeps what is dead, and counts. It is the place's destination of durable events; records come
 * from elsewhere.
 */
export class ExportRunner implements Destination {
  readonly id: string;
  readonly since: number;
  readonly #options: ExportRunnerOptions;
  readonly #place: ExportPlace;
  /** Letters that there are; undefined until somebody asks. */
  #dead: number | undefined;

  constructor(place: ExportPlace, options: ExportRunnerOptions) {
    this.id = outboxIdOf(place.id);
    this.since = place.since;
    this.#place = place;
    this.#options = options;
  }

  wants(name: DurableName, orgId: string | undefined): boolean {
    const { orgId: own, takes } = this.#place;
    const type = EXPORTED[name];
    return type !== undefined && (own === undefined || orgId === undefined || own === orgId) && takes(type);
  }

  async deliver(batch: readonly DurableEvent[], signal: AbortSignal): Promise<void> {
    const events = batch.flatMap((event) => exportedEvent(event) ?? []);
    const effects = await this.send(events, signal);
    if (effects.length > 0) await this.#options.store.commit(undefined, effects);
  }

  /** Sends with all tries. @returns what keeps what is dead @throws DeliveryError when the gateway stops */
  async send(events: readonly ExportedEvent[], signal: AbortSignal): Promise<readonly Effect[]> {
    const { sender, deadLetters, counts } = this.#options;
    const { id } = this.#place;
    const { delivered, retried, dead } = await sendAll(sender, this.#place, events, signal);
    counts.add(id, { delivered, retried });
    if (dead.length === 0) return [];
    this.#dead ??= await deadLetters.countOf(id);
    const kept = dead.slice(0, Math.max(0, MAX_DEAD - this.#dead));
    this.#dead += kept.length;
    counts.add(id, { dead: kept.length });
    counts.drop(id, 'dead_letters_full', dead.length - kept.length);
    return deadLetters.effectsOf(id, kept);
  }

  /** Some letters are gone. */
  recount(): void {
    this.#dead = undefined;
  }
}

/** What the place of a destination in the outbox is kept by. */
export function outboxIdOf(id: string): string {
  return `export-${id}`;
}
