import type { ReasonCode } from '../base/model/reason-codes.ts';

/** The cap at which a stream was ended. */
export interface CapReached {
  readonly reasonCode: ReasonCode;
  /** For people: which cap it was, with its amount. */
  readonly cap: string;
  /** What the call had cost by then, pico-dollars. */
  readonly costPico: bigint;
  /** For the trace of a decision and the log; decimal text. */
  readonly attributes: Readonly<Record<string, string>>;
}
