import type { Price } from '../../base/catalogue/types.ts';
import type { Logger } from '../../base/lib/log.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import type { UnhashedRecord } from '../../record/canonical-record.ts';
import type { RecordMetering } from '../../record/metering.ts';
import type { DeferredCall } from '../../services/money/deferred-response.ts';
import type { Reservation } from '../../services/money/reservation.ts';
import type { Effect } from '../../storage/contract/store.ts';
import type { CallServices } from './call-services.ts';
import type { Closing, Ending, Settlement } from './settlement.ts';

type Ground = Pick<CallServices, 'budgets' | 'deferred' | 'intents' | 'lateRecords'> & { readonly log: Logger };

/** A response that goes on behind its answer, and what its end will need. */
interface Deferral {
  readonly call: DeferredCall;
  readonly price: Price;
  /** What the call is charged if nothing is ever heard of it. */
  readonly assumed: RecordMetering;
}

/**
 * What stands for a call until its record does: what was set aside for it, and the intent that the next start makes a record of (decisions 6.2, 6.8). Its record takes the
 * place of both in one commit. Of a call that has answered and whose record cannot be stored they stay, and its record is tried again.
 */
export class Hold implements Settlement {
  readonly #ground: Ground;
  readonly #recordId: string;
  #reservation: Reservation | undefined;
  #hasIntent = false;
  /** What is charged if the process ends now; kept for streams that may grow beyond it. */
  #intent: UnhashedRecord | undefined;
  #deferral: Deferral | undefined;
  #completedAt = 0;
  #orgId = '';

  constructor(ground: Ground, recordId: string) {
    this.#ground = ground;
    this.#recordId = recordId;
  }

  /** What is set aside. */
  get reservation(): Reservation | undefined {
    return this.#reservation;
  }

  get hasIntent(): boolean {
    return this.#hasIntent;
  }

  get needsRecord(): boolean {
    return this.#hasIntent;
  }

  /** From now on this is given up at the end of the call. */
  take(reservation: Reservation): void {
    this.#reservation = reservation;
  }

  /**
   * Stores the record that the call will have if nothing else is ever heard of it.
   * @param mayGrow it is needed again
   * @throws GatewayError `record_store_unavailable`
   */
  async intend(record: UnhashedRecord, mayGrow: boolean): Promise<void> {
    // From now on: what is committed behind it, while it is still being written, takes it away.
    this.#hasIntent = true;
    try {
      await this.#ground.intents.write(record);
    } catch (error) {
      this.#hasIntent = false;
      throw error;
    }
    if (mayGrow) this.#intent = record;
  }

  /** A followed stream has cost more than its intent says: from now on it is charged that. */
  grow(metering: UnhashedRecord['metering']): void {
    if (this.#intent) this.#ground.intents.grow({ ...this.#intent, metering });
  }

  /** The call has begun a response whose usage comes later: what was set aside stays so until then. */
  defer(call: DeferredCall, price: Price, assumed: RecordMetering): void {
    this.#deferral = { call, price, assumed };
  }

  get deferred(): DeferredCall | undefined {
    return this.#deferral?.call;
  }

  effects(record: ExecutionRecord, { completedAt }: Closing): readonly Effect[] {
    const { budgets, deferred, intents } = this.#ground;
    const effects: Effect[] = [];
    this.#completedAt = completedAt;
    this.#orgId = record.org_id;
    if (this.#deferral) effects.push(deferred.effect(record, { ...this.#deferral, completedAt }));
    // In one turn with the count: what the call cost stands in the place of what was set aside for it.
    else if (this.#reservation) budgets.release(this.#reservation);
    if (this.#hasIntent) effects.push(intents.settlement(record.record_id));
    return effects;
  }

  stored(): void {
    if (this.#deferral && this.#reservation)
      this.#ground.deferred.hold(this.#deferral.call, this.#reservation, this.#completedAt, this.#orgId);
    this.#reservation = undefined;
  }

  failed(record: ExecutionRecord, ending: Ending): void {
    if (this.#reservation && !this.#deferral) this.#ground.budgets.restore(this.#reservation);
    this.#giveBack(this.#withoutDeferral(record), ending);
  }

  abandoned(ending: Ending): void {
    this.#giveBack(undefined, ending);
  }

  /**
   * Gives up what stands for the call; once. A record that could not be stored is tried again when the call may have cost something, or has an intent. With an intent
   * what was set aside stays so until then, and the intent open, so that the next start makes a record if nothing else does (decision 6.8).
   */
  #giveBack(unstored: ExecutionRecord | undefined, { answered, started }: Ending): void {
    const [reservation, hasIntent] = [this.#reservation, this.#hasIntent];
    if (reservation === undefined && !hasIntent) return;
    const { budgets, intents, lateRecords, log } = this.#ground;
    this.#reservation = undefined;
    this.#hasIntent = false;
    const staysOpen = hasIntent && (answered || unstored !== undefined);
    if (reservation && !staysOpen) budgets.release(reservation);
    if (unstored && (hasIntent || answered)) {
      lateRecords.keep(unstored, { reservation: staysOpen ? reservation : undefined, hasIntent }, started);
    } else if (staysOpen) {
      log.warn(
        { record_id: this.#recordId },
        'an answered call has no record; what was set aside stays so until the next start charges it',
      );
    } else if (hasIntent) intents.remove(this.#recordId);
  }

  /** The client was never told of the response that its call has begun, or not to its end: it is charged now, at its estimate. */
  #withoutDeferral(record: ExecutionRecord): ExecutionRecord {
    if (this.#deferral === undefined) return record;
    const { usage_record_id: _, ...own } = record;
    return { ...own, metering: this.#deferral.assumed } as ExecutionRecord;
  }
}
