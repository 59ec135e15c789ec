import { NO_ORG } from '../../../base/events/destination.ts';
import { type Clock, timestamp } from '../../../base/lib/clock.ts';
import { newestFirst, uuidv7 } from '../../../base/lib/ids.ts';
import type { DeadLetter } from '../../../base/model/export-destination.ts';
import type { ExportedEvent } from '../../../outbound/destinations/event-envelope.ts';
import type { Effect, Store } from '../../../storage/contract/store.ts';
import { type EntitiesPage, entityPage, type PageQuery, removeEntities } from '../../registers/entity-page.ts';
import { GroupIndex } from '../../registers/group-index.ts';
import type { Undelivered } from './export-sender.ts';
import { exportedRecord } from './exported-events.ts';

/** Under the keys of `newestFirst`. */
const SPACE = 'export_dead_letter';

/** A record is not kept a second time: its id is. */
type StoredLetter = DeadLetter & ({ readonly record_id: string } | { readonly event: ExportedEvent });

/** Events that no try could deliver, kept so that somebody can send them again. */
export class DeadLetters {
  readonly #store: Store;
  readonly #clock: Clock;

  readonly #byOrg: GroupIndex;
  readonly #byDestination: GroupIndex;

  constructor(store: Store, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
    this.#byOrg = new GroupIndex(store, SPACE, 'org');
    this.#byDestination = new GroupIndex(store, SPACE, 'destination');
  }

  /**
   * Names by org and destination what an older version has stored.
   * @throws Error when the store cannot be read or written
   */
  async open(): Promise<void> {
    await this.#byOrg.complete((value) => (value as StoredLetter).org_id ?? NO_ORG);
    await this.#byDestination.complete((value) => (value as StoredLetter).destination_id);
  }

  /** What keeps these. */
  effectsOf(destinationId: string, undelivered: readonly Undelivered[]): readonly Effect[] {
    const now = this.#clock.now();
    return undelivered.flatMap(({ event, error, attempts }): readonly Effect[] => {
      const id = uuidv7(now);
      const { event_type: type, org_id: org, payload } = event.envelope;
      const recordId = type === 'execution' ? payload['record_id'] : undefined;
      const letter: StoredLetter = {
        dead_letter_id: id,
        destination_id: destinationId,
        org_id: org,
        event_type: type,
        event_id: event.id,
        reason: error.reason,
        detail: error.message,
        attempts,
        at: timestamp(now),
        ...(typeof recordId === 'string' ? { record_id: recordId } : { event }),
      };
      return [
        { op: 'put', space: SPACE, key: newestFirst(id), value: letter },
        this.#byOrg.put(org ?? NO_ORG, id),
        this.#byDestination.put(destinationId, id),
      ];
    });
  }

  /** A page, the newest first; of an org, or all. */
  page(
    filter: { readonly orgId?: string | undefined; readonly destinationId?: string | undefined },
    query: PageQuery,
  ): Promise<EntitiesPage<DeadLetter>> {
    const take = (value: unknown): DeadLetter | undefined => {
      const letter = value as StoredLetter;
      const fits =
        (filter.orgId === undefined || letter.org_id === filter.orgId) &&
        (filter.destinationId === undefined || letter.destination_id === filter.destinationId);
      return fits ? shown(letter) : undefined;
    };
    if (filter.destinationId !== undefined) return this.#byDestination.page(filter.destinationId, query, take);
    return filter.orgId === undefined ? entityPage(this.#store, SPACE, query, take) : this.#byOrg.page(filter.orgId, query, take);
  }

  /** How many a destination has. */
  async countOf(destinationId: string): Promise<number> {
    return this.#byDestination.count(destinationId);
  }

  /**
   * The events of a destination, the oldest first, with what takes each away. Of a record that retention has removed
   * nothing is left to be sent.
   */
  async eventsOf(
    destinationId: string,
    limit: number,
  ): Promise<readonly { readonly event: ExportedEvent | undefined; readonly removal: readonly Effect[] }[]> {
    const letters = (await this.#of(destinationId)).slice(-limit).reverse();
    return Promise.all(
      letters.map(async (letter) => {
        const removal = this.#removal(letter);
        if ('event' in letter) return { event: letter.event, removal };
        const record = await this.#store.recordById(letter.record_id);
        return { event: record && exportedRecord(record.text), removal };
      }),
    );
  }

  /** What takes away all of a destination. */
  async removalOf(destinationId: string): Promise<readonly Effect[]> {
    return (await this.#of(destinationId)).flatMap((letter) => this.#removal(letter));
  }

  /** Removes those that are older. @returns how many */
  removeBefore(epochMs: number): Promise<number> {
    const isGone = (): boolean => true;
    return removeEntities(this.#store, SPACE, epochMs, isGone, (value) => this.#removal(value as StoredLetter).slice(1));
  }

  #removal({ dead_letter_id: id, org_id: org, destination_id: destinationId }: StoredLetter): readonly Effect[] {
    return [
      { op: 'delete', space: SPACE, key: newestFirst(id) },
      this.#byOrg.delete(org ?? NO_ORG, id),
      this.#byDestination.delete(destinationId, id),
    ];
  }

  /** The newest first. */
  async #of(destinationId: string): Promise<readonly StoredLetter[]> {
    const query = { after: undefined, limit: Number.POSITIVE_INFINITY };
    return (await this.#byDestination.page(destinationId, query, (value) => value as StoredLetter)).items;
  }
}

function shown(letter: StoredLetter): DeadLetter {
  const { dead_letter_id, destination_id, org_id, event_type, event_id, reason, detail, attempts, at } = letter;
  return { dead_letter_id, destination_id, org_id, event_type, event_id, reason, detail, attempts, at };
}
