import type { Events } from '../../base/events/bus.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Logger } from '../../base/lib/log.ts';
import { ERROR_CODES } from '../../base/model/error-codes.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { CONTROL_BOUNDS } from '../../base/model/org-bounds.ts';
import type { UnhashedRecord } from '../../record/canonical-record.ts';
import type { Intents } from './intents.ts';
import { type CostGround, storeCost } from './record-cost.ts';

const CODE = 'record_store_unavailable';
const MESSAGE =
  'The record could not be written when the call ended, so that its answer was not given to its end; it is charged what it cost.';
/** How long after a failure the store is asked again. */
const RETRY_MS = 1_000;
/**
 * Records that no intent stands for may wait up to this number: each is a few kilobytes. Of the others there are no
 * more than calls whose intent could be stored.
 */
const MAX_WITHOUT_INTENT = CONTROL_BOUNDS.lateRecords.all;

interface Ground extends CostGround {
  readonly intents: Pick<Intents, 'settlement'>;
  readonly events: Events;
  readonly log: Logger;
}

/** What stands for the call until its record is stored. */
export interface KeptRecord {
  /** What was set aside stays so, under the id of the record. */
  readonly granted: boolean;
  readonly hasIntent: boolean;
}

interface Late extends KeptRecord {
  readonly record: UnhashedRecord;
}

/**
 * Records of metered calls that could not be stored when the call ended. What was set aside under a cap stays so until
 * the store works again; then the record and its cost take the place of intent and reservation, in one commit. A commit
 * that was refused never becomes visible (storage contract), so the intent is open until exactly one of them does this:
 * the commit here, or the next start. A call without an intent (no cap holds it, and nothing of its answer has left)
 * has its record wait in memory alone.
 */
export class LateRecords {
  readonly #ground: Ground;
  readonly #waiting: Late[] = [];
  #armed = false;

  constructor(ground: Ground) {
    this.#ground = ground;
  }

  /** @param started the client has the head of the answer; else it is told of the failure */
  keep(record: ExecutionRecord, { granted, hasIntent }: KeptRecord, started: boolean): void {
    if (!hasIntent && this.#waiting.length >= MAX_WITHOUT_INTENT) {
      this.#ground.log.error(
        { record_id: record.record_id },
        'the record of an answered call is lost: too many wait until they can be written',
      );
      return;
    }
    this.#waiting.push({ record: asFailed(record, started), granted, hasIntent });
    this.#ground.log.warn({ record_id: record.record_id }, 'the record of a call could not be written; it is tried again');
    this.#retry();
  }

  #retry(): void {
    if (this.#armed) return;
    this.#armed = true;
    this.#ground.clock.after(RETRY_MS, () => {
      this.#armed = false;
      void this.#storeAll();
    });
  }

  async #storeAll(): Promise<void> {
    for (const late of this.#waiting.splice(0)) {
      const again = !this.#ground.store.writable || (await this.#commit(late)) === 'later';
      if (again) this.#waiting.push(late);
    }
    if (this.#waiting.length > 0) this.#retry();
  }

  async #commit({ record: unhashed, granted, hasIntent }: Late): Promise<'later' | undefined> {
    try {
      const record = await storeCost(
        this.#ground,
        unhashed,
        { id: unhashed.record_id, granted },
        hasIntent ? [this.#ground.intents.settlement(unhashed.record_id)] : [],
      );
      this.#ground.events.emit('execution', { record, durationMs: record.latency_ms });
    } catch (error) {
      if (error instanceof GatewayError && error.code === CODE) return 'later';
      this.#ground.log.error(
        { err: error, record_id: unhashed.record_id },
        'a late record is refused; where an intent stands for its call, the next start charges what was set aside',
      );
    }
    return undefined;
  }
}

/**
 * What a call was that policy let through and whose answer could not be acknowledged; one that failed by itself stays
 * what it was.
 */
function asFailed(record: ExecutionRecord, started: boolean): UnhashedRecord {
  if (record.decision !== 'allow' && record.decision !== 'downgrade') return record as UnhashedRecord;
  return {
    ...(record as UnhashedRecord),
    decision: 'error',
    reason: MESSAGE,
    reason_codes: [CODE],
    status_code: started ? record.status_code : ERROR_CODES[CODE].status,
    stream_outcome: record.stream_outcome && 'aborted',
    error: { code: CODE, message: MESSAGE },
  };
}
