import type { Usage } from '../base/model/usage.ts';

/** A response that was begun, from when its answer is known. */
export interface DeferredCall {
  readonly key: string;
  /** Of the record that will say what it cost. */
  readonly usageRecordId: string;
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
