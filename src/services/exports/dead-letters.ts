import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { newestFirst } from '../../base/lib/newest-first.ts';
import { uuidv7 } from '../../base/lib/uuidv7.ts';
import type { DeadLetter } from '../../base/model/export-destination.ts';
import type { ExportedEvent } from '../../outbound/destinations/event-envelope.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import { type EntitiesPage, entityPage, type PageQuery, removeEntities } from '../entity-page.ts';
import type { Undelivered } from './export-sender.ts';
import { exportedRecord } from './exported-events.ts';

/** Under the keys of `newestFirst`. */
const SPACE = 'export_dead_letter';
const PAGE = 500;

/** A record is not kept a second time: its id is. */
type StoredLetter = DeadLetter & ({ readonly record_id: string } | { readonly event: ExportedEvent });

/** Events that no try could deliver, kept so that somebody can send them again. */
export class DeadLetters {
  readonly #store: Store;
  readonly #clock: Clock;

  constructor(store: Store, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  /** What keeps these. */
  effectsOf(destinationId: string, undelivered: readonly Undelivered[]): readonly Effect[] {
    const now = this.#clock.now();
    return undelivered.map(({ event, error, attempts }): Effect => {
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
      return { op: 'put', space: SPACE, key: newestFirst(id), value: letter };
    });
  }

  /** A page, the newest first; of an org, or all. */
  page(
    filter: { readonly orgId?: string | undefined; readonly destinationId?: string | undefined },
    query: PageQuery,
  ): Promise<EntitiesPage<DeadLetter>> {
    return entityPage(this.#store, SPACE, query, (value) => {
      const letter = value as StoredLetter;
      const fits =
        (filter.orgId === undefined || letter.org_id === filter.orgId) &&
        (filter.destinationId === undefined || letter.destination_id === filter.destinationId);
      return fits ? shown(letter) : undefined;
    });
  }

  /** How many a destination has. */
  async countOf(destinationId: string): Promise<number> {
    return (await this.#of(destinationId)).length;
  }

  /** The events of a destination, the oldest first, with what takes each away. Of a record that retention has removed nothing is left to be sent. */
  async eventsOf(
    destinationId: string,
    limit: number,
  ): Promise<readonly { readonly event: ExportedEvent | undefined; readonly removal: Effect }[]> {
    const letters = (await this.#of(destinationId)).slice(-limit).reverse();
    return Promise.all(
      letters.map(async (letter) => {
        const removal: Effect = { op: 'delete', space: SPACE, key: newestFirst(letter.dead_letter_id) };
        if ('event' in letter) return { event: letter.event, removal };
        const record = await this.#store.recordById(letter.record_id);
        return { event: record && exportedRecord(record.text), removal };
      }),
    );
  }

  /** What takes away all of a destination. */
  async removalOf(destinationId: string): Promise<readonly Effect[]> {
    return (await this.#of(destinationId)).map(({ dead_letter_id: id }) => ({ op: 'delete', space: SPACE, key: newestFirst(id) }));
  }

  /** Removes those that are older. @returns how many */
  removeBefore(epochMs: number): Promise<number> {
    return removeEntities(this.#store, SPACE, epochMs, () => true);
  }

  /** The newest first. */
  async #of(destinationId: string): Promise<readonly StoredLetter[]> {
    const found: StoredLetter[] = [];
    for (let after: string | undefined; ; ) {
      const rows = await this.#store.list(SPACE, { limit: PAGE, ...(after === undefined ? {} : { after }) });
      for (const { value } of rows) if ((value as StoredLetter).destination_id === destinationId) found.push(value as StoredLetter);
      after = rows.at(-1)?.key;
      if (rows.length < PAGE) return found;
    }
  }
}

function shown(letter: StoredLetter): DeadLetter {
  const { dead_letter_id, destination_id, org_id, event_type, event_id, reason, detail, attempts, at } = letter;
  return { dead_letter_id, destination_id, org_id, event_type, event_id, reason, detail, attempts, at };
}
