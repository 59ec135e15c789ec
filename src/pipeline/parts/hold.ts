import type { Price } from '../../base/catalogue/types.ts';
import type { Logger } from '../../base/lib/log.ts';
import { type Maybe, when } from '../../base/lib/maybe.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import type { UnhashedRecord } from '../../record/canonical-record.ts';
import type { RecordMetering } from '../../record/metering.ts';
import type { Grant } from '../../services/money/allowance.ts';
import type { DeferredCall } from '../../services/money/deferred-usage.ts';
import { costOf, settleCost } from '../../services/money/record-cost.ts';
import type { Effect } from '../../storage/contract/store.ts';
import type { CallServices } from './call-services.ts';
import type { Closing, Ending, Settlement } from './settlement.ts';

type Ground = Pick<CallServices, 'allowance' | 'deferred' | 'intents' | 'lateRecords'> & { readonly log: Logger };

/** A response that goes on behind its answer, and what its end will need. */
interface Deferral {
  readonly call: DeferredCall;
  readonly price: Price;
  /** What the call is charged if nothing is ever heard of it. */
  readonly assumed: RecordMetering;
}

/**
 * What stands for a call until its record does: what was set aside for it, and the intent that the next start makes a
 * record of (decisions 6.2, 6.8). Its record takes the place of both in one commit. Of a call that has answered and
 * whose record cannot be stored they stay, and its record is tried again.
 */
export class Hold implements Settlement {
  readonly #ground: Ground;
  readonly #recordId: string;
  #grant: Grant | undefined;
  /** Nothing refuses it any more before it is forwarded. */
  #isMade = false;
  #hasIntent = false;
  /** What is charged if the process ends now; kept for streams that may grow beyond it. */
  #intent: UnhashedRecord | undefined;
  #deferral: Deferral | undefined;
  #completedAt = 0;
  #orgId = '';
  /** `effects` has put what the call cost in the place of its grant. */
  #isSettled = false;

  constructor(ground: Ground, recordId: string) {
    this.#ground = ground;
    this.#recordId = recordId;
  }

  /** What was taken for the call. */
  get grant(): Grant | undefined {
    return this.#grant;
  }

  get hasIntent(): boolean {
    return this.#hasIntent;
  }

  get needsRecord(): boolean {
    return this.#hasIntent;
  }

  /** From now on this is given up at the end of the call. @param isMade nothing refuses the call after this */
  take(grant: Grant, isMade: boolean): void {
    this.#grant = grant;
    this.#isMade = isMade;
  }

  /** Nothing refuses the call after this: its tokens are gone, whatever comes of it. */
  pass(): void {
    this.#isMade = true;
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

  effects(record: ExecutionRecord, { completedAt }: Closing): Maybe<readonly Effect[]> {
    const { allowance, deferred, intents } = this.#ground;
    const effects: Effect[] = this.#hasIntent ? [intents.settlement(record.record_id)] : [];
    this.#completedAt = completedAt;
    this.#orgId = record.org_id;
    if (this.#deferral) return [...effects, deferred.effect(record, { ...this.#deferral, completedAt })];
    // In one turn with the count: what the call cost stands in the place of what was set aside for it.
    const granted = this.#grant !== undefined;
    if (!granted && costOf(record) === undefined) return effects;
    this.#isSettled = true;
    const settled = settleCost(allowance, this.#recordId, record, { granted, at: completedAt, isMade: this.#isMade });
    return effects.length === 0 ? settled : when(settled, (counted) => [...effects, ...counted]);
  }

  stored(): Maybe<void> {
    const { allowance, deferred } = this.#ground;
    if (this.#deferral && this.#grant) return deferred.hold(this.#deferral.call, this.#recordId, this.#completedAt, this.#orgId);
    return this.#isSettled ? allowance.stored(this.#recordId) : undefined;
  }

  failed(record: ExecutionRecord, ending: Ending): Maybe<void> {
    const undone = this.#isSettled ? this.#ground.allowance.failed(this.#recordId) : undefined;
    return when(undone, () => this.#giveBack(this.#withoutDeferral(record), ending));
  }

  abandoned(ending: Ending): Maybe<void> {
    return this.#giveBack(undefined, ending);
  }

  /**
   * Gives up what stands for the call; once. A record that could not be stored is tried again when the call may have
   * cost something, or has an intent. With an intent what was set aside stays so until then, and the intent open, so
   * that the next start makes a record if nothing else does (decision 6.8).
   */
  #giveBack(unstored: ExecutionRecord | undefined, { answered, started }: Ending): Maybe<void> {
    const [granted, hasIntent] = [this.#grant !== undefined || this.#isSettled, this.#hasIntent];
    if (!granted && !hasIntent) return undefined;
    const { allowance, intents, lateRecords, log } = this.#ground;
    this.#grant = undefined;
    this.#isSettled = false;
    this.#hasIntent = false;
    const staysOpen = hasIntent && (answered || unstored !== undefined);
    const given = granted && !staysOpen ? allowance.giveBack(this.#recordId, this.#isMade) : undefined;
    if (unstored && (hasIntent || answered)) {
      lateRecords.keep(unstored, { granted: granted && staysOpen, hasIntent }, started);
    } else if (staysOpen) {
      log.warn(
        { record_id: this.#recordId },
        'an answered call has no record; what was set aside stays so until the next start charges it',
      );
    } else if (hasIntent) intents.remove(this.#recordId);
    return given;
  }

  /**
   * The client was never told of the response that its call has begun, or not to its end: it is charged now, at its
   * estimate.
   */
  #withoutDeferral(record: ExecutionRecord): ExecutionRecord {
    if (this.#deferral === undefined) return record;
    const { usage_record_id: _, ...own } = record;
    return { ...own, metering: this.#deferral.assumed } as ExecutionRecord;
  }
}
