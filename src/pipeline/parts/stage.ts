import type { GatewayError } from '../../base/lib/gateway-error.ts';
import type { UnhashedRecord } from '../../record/canonical-record.ts';
import type { Pipeline } from './call-services.ts';
import type { Hold } from './hold.ts';
import type { Known, PartName, Parts } from './parts.ts';
import type { Refusal } from './refusal.ts';
import { LineEnd } from './refusal.ts';
import type { Settlement } from './settlement.ts';

class Answered extends LineEnd {}

/** The stage has answered by itself and the call leaves no record of its own: it repeats one that did. */
export const ANSWERED = new Answered();

class AtJudgement extends LineEnd {}

/**
 * The call is judged once more, from the question who calls on: it has waited, and what held when it came may not hold
 * any more. It is walked by the stages of `AGAIN`, whose parts stand in the place of those that were made before.
 */
export const JUDGE_AGAIN = new AtJudgement();

/** The end of the line, at a stage that has made something first, of which the record of the call is to tell. */
export class EndedWith<Made extends PartName = PartName> extends LineEnd {
  readonly end: Refusal | GatewayError;
  readonly made: Partial<Pick<Parts, Made>>;

  constructor(end: Refusal | GatewayError, made: Partial<Pick<Parts, Made>>) {
    super();
    this.end = end;
    this.made = made;
  }
}

/**
 * How a stage ends the line: a refusal is recorded; a GatewayError, thrown or {@link EndedWith}, ends it too (the
 * runner knows which codes are recorded).
 */
type End<Makes extends PartName> = Refusal | EndedWith<Makes> | typeof ANSWERED | typeof JUDGE_AGAIN;

/** What a stage makes; one that makes nothing goes on with undefined. */
type Made<Makes extends PartName> = [Makes] extends [never] ? undefined : Pick<Parts, Makes>;

export type StageResult<Makes extends PartName> = Made<Makes> | End<Makes>;

/** A call that has waited for a person on its open connection. */
export interface Waited {
  /** When it waits no longer, epoch milliseconds. */
  readonly until: number;
  /** How often it has waited. */
  readonly times: number;
  /** It has opened an approval, which names its record. */
  readonly hasOpened: boolean;
  /** Tells others that have waited for the same approval that this call has spent it. */
  readonly hasSpent?: () => void;
}

/** What a stage may ask of its line, and leave behind in it. */
export interface Control {
  /** What stands for the call until its record does; nothing is set aside in it at first. */
  readonly hold: Hold;
  /** Of a call that has waited for a person. */
  waited: Waited | undefined;
  /** For the end of the request. */
  settle(settlement: Settlement): void;
  /** For the end of the line, however it ends. */
  atEnd(letGo: () => void): void;
  /** No stage looks at this part any more. */
  drop(...parts: readonly PartName[]): void;
  /** The record of the call as it stands. */
  draft(): UnhashedRecord;
}

/** One step of the line, as the runner sees it. */
export interface Stage {
  readonly name: string;
  /** Parts that it needs. */
  readonly reads: readonly PartName[];
  /** Parts that it looks at where there are any. */
  readonly sees: readonly PartName[];
  readonly makes: readonly PartName[];
  run(parts: Known, pipeline: Pipeline, control: Control): StageEnd | Promise<StageEnd>;
}

/** What any stage may come back with. */
export type StageEnd = Partial<Parts> | Refusal | EndedWith | typeof ANSWERED | typeof JUDGE_AGAIN | undefined;

interface StageOf<Reads extends PartName, Sees extends PartName, Makes extends PartName> {
  readonly name: string;
  readonly reads: readonly Reads[];
  readonly sees?: readonly Sees[];
  readonly makes?: readonly Makes[];
  run(
    parts: Pick<Parts, Reads> & { readonly [Part in Sees]?: Parts[Part] | undefined },
    pipeline: Pipeline,
    control: Control,
  ): StageResult<Makes> | Promise<StageResult<Makes>>;
}

/**
 * A stage whose type says which parts it reads and makes: it cannot touch any other. Whether they are there is seen
 * when a line is put together (line/stages.ts).
 */
export function defineStage<Reads extends PartName, Sees extends PartName = never, Makes extends PartName = never>(
  stage: StageOf<Reads, Sees, Makes>,
): Stage {
  const { name, reads, sees = [], makes = [] } = stage;
  return { name, reads, sees, makes, run: stage.run as unknown as Stage['run'] };
}
