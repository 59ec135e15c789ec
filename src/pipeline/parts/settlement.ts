import type { Maybe } from '../../base/lib/maybe.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import type { Effect } from '../../storage/contract/store.ts';
import type { Delivered } from './delivered.ts';
import type { Refusal } from './refusal.ts';

/** What policy has changed of the model that was asked for. */
export interface ReplacedModel {
  readonly originalModel: string | undefined;
  readonly substitutedModel: string | undefined;
}

/** How the request ended, for the settlements of a record that is about to be stored. */
export interface Closing {
  /** Epoch milliseconds, as the record has it. */
  readonly completedAt: number;
  readonly refusal: Refusal | undefined;
  /** What came back of the call. */
  readonly delivered: Delivered | undefined;
  readonly replaced: ReplacedModel | undefined;
}

/** How far the answer had come of a call whose record could not be stored, or that leaves none. */
export interface Ending {
  /** The upstream had begun to answer. */
  readonly answered: boolean;
  /** The client has the head of the answer: from then on only a reset can tell it of a failure. */
  readonly started: boolean;
}

/**
 * What a stage leaves behind for the end of the request. The runner asks all of them for their effects, commits these
 * with the record in one write, and then tells each of them exactly one thing: that it is stored, that it could not be,
 * or that there is no record. A verb that has to ask elsewhere returns a promise, which is awaited.
 */
export interface Settlement {
  /**
   * What it stands for is lost without a record: a refused call has one of its own then, whatever the budget of its
   * address says (decision 7.11).
   */
  readonly needsRecord?: boolean;
  /** What is to be committed with the record. What it counts in memory it counts here, in one turn with all others. */
  effects?(record: ExecutionRecord, closing: Closing): Maybe<readonly Effect[]>;
  stored?(): Maybe<void>;
  /** The record could not be stored: all is as it was before `effects`. */
  failed?(record: ExecutionRecord, ending: Ending): Maybe<void>;
  /** The request leaves no record; `effects` was not asked. */
  abandoned?(ending: Ending): Maybe<void>;
  /**
   * The call is counted by the record of others, and nothing is committed. Default: as {@link abandoned}.
   * @param record as it would have been
   */
  summed?(record: ExecutionRecord): Maybe<void>;
}
