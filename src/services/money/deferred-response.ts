import type { Price } from '../../base/catalogue/types.ts';
import type { Usage } from '../../base/model/usage.ts';
import type { RecordMetering } from '../../record/metering.ts';

/** A response that was begun, from when its answer is known. */
export interface DeferredCall {
  readonly key: string;
  /** Of the record that will say what it cost. */
  readonly usageRecordId: string;
}

/** What is kept of it until it has ended. */
export interface Deferral {
  readonly call: DeferredCall;
  /** In force when the call came. */
  readonly price: Price;
  /** What it is charged if nothing is ever heard of it. */
  readonly assumed: RecordMetering;
  /** Of the call, epoch milliseconds. */
  readonly completedAt: number;
}

/** What somebody was told who asked for a response that has ended. */
export interface EndedResponse {
  /** That told it. */
  readonly host: string;
  readonly responseId: string;
  /** Undefined: it was cancelled or failed, and the provider reports nothing. */
  readonly usage: Usage | undefined;
  readonly model: string | undefined;
}
