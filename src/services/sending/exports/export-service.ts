import type { EventBus } from '../../../base/events/bus.ts';
import { GatewayError } from '../../../base/lib/gateway-error.ts';
import { uuidv7 } from '../../../base/lib/ids.ts';
import type { Logger } from '../../../base/lib/log.ts';
import type { ExportEventName } from '../../../base/model/export-destination.ts';
import { type DeliveryError, deliveryError } from '../../../outbound/destinations/delivery-error.ts';
import type { Effect, Store } from '../../../storage/contract/store.ts';
import { type Commit, commitAlone } from '../../registers/commit.ts';
import type { Outbox } from '../outbox.ts';
import { DeadLetters } from './dead-letters.ts';
import { readExportConfig } from './export-config.ts';
import { ExportCounts } from './export-counts.ts';
import {
  type DestinationStoreOptions,
  destinationsOf,
  ExportDestinations,
  type GivenDestination,
  type OpenDestination,
} from './export-destinations.ts';
import { type ExportPlace, ExportRunner, outboxIdOf } from './export-runner.ts';
import { type ExportSenderOptions, type ExportTarget, sendOnce, targetOf } from './export-sender.ts';
import { testEvent } from './exported-events.ts';
import { hasRecordCursor, RecordExport, recordCursorRemoval, recordsSince } from './record-export.ts';

/** Ids of destinations that settings name. */
export const CONFIGURABLE = ['setting-webhook', 'setting-syslog'] as const;
/** By node: whether it takes over the destinations of its org that are of no node. */
const INHERITANCE = 'export_inheritance';
/** Letters that are sent again at once. */
const AGAIN = 200;

/** A destination that the operator has named in a setting; every event of every org goes there. */
export interface StaticDestination {
  readonly id: (typeof CONFIGURABLE)[number];
  readonly target: ExportTarget;
}

export interface ExportServiceOptions extends DestinationStoreOptions, ExportSenderOptions {
  readonly log: Logger;
  readonly events: Pick<EventBus, 'subscribe'>;
  readonly outbox: Pick<Outbox, 'add' | 'remove' | 'reconsider' | 'oldestFor'>;
  readonly configured: readonly StaticDestination[];
  /** `inherit_org_defaults` of this node at the start. */
  readonly inherits: boolean;
}

interface Running {
  readonly runner: ExportRunner;
  /** Undefined while it takes no records. */
  records: RecordExport | undefined;
}

export type ExportTest =
  | { readonly delivered: true; readonly detail: string }
  | { readonly delivered: false; readonly error: DeliveryError };

/** All that an org wants of a node. */
export interface GivenExports {
  readonly destinations: readonly GivenDestination[];
  /** `inherit_org_defaults` */
  readonly inherits: boolean;
}

/** What was said last of `inherit_org_defaults` of a node; true when nothing was. */
export async function inheritanceOf(store: Pick<Store, 'get'>, nodeId: string): Promise<boolean> {
  return (await store.get(INHERITANCE, nodeId)) !== false;
}

function inheritanceEffect(nodeId: string, inherits: boolean): Effect {
  return { op: 'put', space: INHERITANCE, key: nodeId, value: inherits };
}

/**
 * Events to systems: destinations, what goes where, and what could not be delivered (specification, "SIEM export",
 * "Export destination"; decision 11.3).
 */
export class ExportService {
  readonly deadLetters: DeadLetters;
  readonly counts = new ExportCounts();
  readonly #options: ExportServiceOptions;
  readonly #ending = new AbortController();
  readonly #running = new Map<string, Running>();
  #destinations: ExportDestinations | undefined;
  #closing: Promise<unknown> = Promise.resolve();
  #endListening: (() => void) | undefined;
  /** What is there by now has its cursors; what is sent to from now on begins now. */
  #opened = false;
  #inherits: boolean;

  private constructor(options: ExportServiceOptions) {
    this.#options = options;
    this.#inherits = options.inherits;
    this.deadLetters = new DeadLetters(options.store, options.clock);
  }

  static async open(options: ExportServiceOptions): Promise<ExportService> {
    const service = new ExportService(options);
    await service.deadLetters.open();
    service.#destinations = await ExportDestinations.open(options, (id, now) => service.#changed(id, now));
    const { store, nodeId, clock, configured } = options;
    for (const id of CONFIGURABLE) {
      const given = configured.find((one) => one.id === id);
      if (given === undefined) {
        // What comes back later begins anew.
        if (await hasRecordCursor(store, id, nodeId)) await store.commit(undefined, [recordCursorRemoval(id, nodeId)]);
        continue;
      }
      const { target } = given;
      const since = await recordsSince(store, id, nodeId, clock.now());
      service.#run({ id, orgId: undefined, kind: target.kind, since, target: () => target, takes: () => true });
    }
    for (const destination of service.destinations.all()) service.#changed(destination.id, destination);
    service.#opened = true;
    return service;
  }

  get destinations(): ExportDestinations {
    if (this.#destinations === undefined) throw new TypeError('the destinations are not read yet');
    return this.#destinations;
  }

  /** Takes a destination away, with what is kept for it. False when the org has no such. */
  async remove(orgId: string, id: string, commit?: Commit): Promise<boolean> {
    const { nodeId } = this.#options;
    if (this.destinations.get(orgId, id) === undefined) return false;
    const left = [recordCursorRemoval(id, nodeId), ...(await this.deadLetters.removalOf(id))];
    return this.destinations.remove(orgId, id, left, commit);
  }

  /** @throws GatewayError `invalid_request` for a destination that {@link replaceAll} would not take */
  check({ id, kind, config }: GivenDestination): void {
    readExportConfig(kind, config, this.#options.mayBePlain);
    if (CONFIGURABLE.some((one) => one === id))
      throw new GatewayError('invalid_request', 'The export destination is not valid.', {
        details: [{ path: 'id', message: 'is that of a destination which a setting names' }],
      });
  }

  /**
   * Whoever owns the destinations of an org says that these are all, and whether this node takes over those of no node;
   * in one commit, in force at once. What stays goes on where it was; what is gone goes with what is kept for it.
   * @throws GatewayError `invalid_request`; then nothing has changed
   */
  async replaceAll(orgId: string, { destinations, inherits }: GivenExports, commit?: Commit): Promise<void> {
    const { nodeId } = this.#options;
    const before = this.#inherits;
    const left = async (gone: readonly string[]): Promise<readonly Effect[]> => {
      const letters = await Promise.all(gone.map((id) => this.deadLetters.removalOf(id)));
      this.#inherits = inherits;
      return [...gone.map((id) => recordCursorRemoval(id, nodeId)), ...letters.flat(), inheritanceEffect(nodeId, inherits)];
    };
    try {
      await this.destinations.replaceAll(orgId, destinations, left, commit);
    } catch (error) {
      this.#inherits = before;
      throw error;
    }
    this.#settle();
  }

  /**
   * Sends an event that says that it is one to see whether it arrives, once. Undefined when the org has no such
   * destination.
   */
  async test(orgId: string, id: string): Promise<ExportTest | undefined> {
    const destination = this.destinations.open(id);
    if (destination?.org_id !== orgId) return undefined;
    const { clock, mayBePlain } = this.#options;
    const now = clock.now();
    try {
      const event = testEvent(uuidv7(now), orgId, now);
      const detail = await sendOnce(this.#options, targetOf(destination, mayBePlain), event, this.#ending.signal);
      return { delivered: true, detail };
    } catch (error) {
      return { delivered: false, error: deliveryError(error) };
    }
  }

  /**
   * Sends the letters of a destination again, the oldest first, at most 200. What arrives is none any more.
   * @returns how many arrived, and how many there are still; undefined when this node sends nothing there
   */
  async sendAgain(id: string, commit: Commit = commitAlone(this.#options.store)): Promise<{ delivered: number; left: number } | undefined> {
    const running = this.#running.get(id);
    if (running === undefined) return undefined;
    const letters = await this.deadLetters.eventsOf(id, AGAIN);
    const events = letters.flatMap(({ event }) => event ?? []);
    const dead = await running.runner.send(events, this.#ending.signal);
    if (letters.length > 0) await commit(id, [...letters.flatMap(({ removal }) => removal), ...dead]);
    running.runner.recount();
    return { delivered: events.length - dead.length, left: await this.deadLetters.countOf(id) };
  }

  /** How far behind each destination is: the age of the oldest event that it has not got, seconds. */
  lags(): readonly (readonly [destination: string, seconds: number])[] {
    const now = this.#options.clock.now();
    return [...this.#running].map(([id, { records }]) => {
      const oldest = Math.min(records?.oldest ?? now, this.#options.outbox.oldestFor(outboxIdOf(id)) ?? now);
      return [id, Math.max(0, now - oldest) / 1_000] as const;
    });
  }

  /**
   * Removes records by `remove`, and counts as dropped those that a destination was not sent yet.
   * @param epochMs what was committed before it goes
   */
  async countingUnsent(epochMs: number, remove: () => Promise<number>): Promise<number> {
    const late = [...this.#running].flatMap(([id, { records }]) =>
      records !== undefined && (records.oldest ?? epochMs) < epochMs ? [{ id, records }] : [],
    );
    const before = await Promise.all(late.map(({ records }) => records.unsentBefore(epochMs)));
    const removed = await remove();
    const after = await Promise.all(late.map(({ records }) => records.unsentBefore(epochMs)));
    for (const [at, { id }] of late.entries()) this.counts.drop(id, 'retention', (before[at] ?? 0) - (after[at] ?? 0));
    return removed;
  }

  async close(): Promise<void> {
    this.#ending.abort();
    this.#endListening?.();
    await Promise.all([...this.#running.values()].map(async ({ records }) => records?.close()));
    await this.#closing;
  }

  /** A destination is there, gone or another: which this node sends to, and which events, follows anew. */
  #changed(id: string, now: OpenDestination | undefined): void {
    if (this.#destinations === undefined) return;
    if (now === undefined) this.#stop(id);
    else if (!this.#running.has(id)) {
      const { org_id: orgId, created_at: since } = now;
      const open = (): OpenDestination => this.destinations.open(id) ?? now;
      const place: ExportPlace = {
        id,
        orgId,
        get kind() {
          return open().kind;
        },
        since: Date.parse(since),
        target: () => targetOf(open(), this.#options.mayBePlain),
        takes: (type) => this.#takes(id, type),
      };
      this.#run(place);
    }
    this.#settle();
  }

  #takes(id: string, type: ExportEventName): boolean {
    const { nodeId } = this.#options;
    const destination = this.destinations.open(id);
    if (destination === undefined || destination.event_types?.includes(type) === false) return false;
    return destinationsOf(this.destinations.all(), nodeId, this.#inherits).includes(destination);
  }

  #run(place: ExportPlace): void {
    const { store, outbox } = this.#options;
    const runner = new ExportRunner(place, { store, sender: this.#options, deadLetters: this.deadLetters, counts: this.counts });
    this.#running.set(place.id, { runner, records: undefined });
    outbox.add(runner);
    if (place.orgId === undefined) this.#startRecords(place.id, place.orgId, place.since);
  }

  /** Begins and ends the export of records, as each destination wants them now. */
  #settle(): void {
    this.#options.outbox.reconsider();
    for (const [id, running] of this.#running) {
      const destination = this.destinations.open(id);
      if (destination === undefined) continue;
      const takes = this.#takes(id, 'execution');
      if (takes && running.records === undefined)
        this.#startRecords(id, destination.org_id, this.#opened ? this.#options.clock.now() : Date.parse(destination.created_at));
      else if (!takes && running.records !== undefined) this.#stopRecords(running);
    }
    this.#listen();
  }

  #startRecords(destinationId: string, orgId: string | undefined, since: number): void {
    const running = this.#running.get(destinationId);
    if (running === undefined) return;
    const { store, clock, log, nodeId } = this.#options;
    const send: ConstructorParameters<typeof RecordExport>[0]['send'] = (events, signal) => running.runner.send(events, signal);
    running.records = new RecordExport({ store, clock, log, nodeId, destinationId, orgId, since, anew: this.#opened, send });
    this.#listen();
  }

  #stopRecords(running: Running): void {
    const { records } = running;
    running.records = undefined;
    this.#closing = Promise.all([this.#closing, records?.close()]);
  }

  #stop(id: string): void {
    const running = this.#running.get(id);
    if (running === undefined) return;
    this.#running.delete(id);
    this.counts.forget(id);
    this.#stopRecords(running);
    this.#options.outbox
      .remove(outboxIdOf(id))
      .catch((error: unknown) =>
        this.#options.log.warn({ err: error }, 'what a destination has left behind could not be removed; the next start tries again'),
      );
  }

  /** Nobody listens to requests while no destination takes records. */
  #listen(): void {
    const wanted = [...this.#running.values()].some(({ records }) => records !== undefined);
    if (wanted === (this.#endListening !== undefined)) return;
    this.#endListening?.();
    this.#endListening = wanted
      ? this.#options.events.subscribe(['execution', 'usageSettled'], () => {
          for (const { records } of this.#running.values()) records?.wake();
        })
      : undefined;
  }
}
