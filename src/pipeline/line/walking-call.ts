import type { RecordDraft } from '../../record/canonical-record.ts';
import { recordOf } from '../answer/record-of.ts';
import type { LineGround } from '../parts/call-services.ts';
import { Hold } from '../parts/hold.ts';
import type { Arrived, Known, PartName, Parts } from '../parts/parts.ts';
import type { Refusal } from '../parts/refusal.ts';
import type { Settlement } from '../parts/settlement.ts';
import type { Control, Stage, Waited } from '../parts/stage.ts';

type Kept = { [Name in PartName]: Parts[Name] | undefined } & { readonly arrival: Arrived };

/** All of them by name: objects that are alike from the beginning are what makes their members cheap to reach. */
const NOTHING: { readonly [Name in PartName]: undefined } = {
  arrival: undefined,
  claims: undefined,
  target: undefined,
  proof: undefined,
  caller: undefined,
  intake: undefined,
  received: undefined,
  action: undefined,
  content: undefined,
  snapshot: undefined,
  delegated: undefined,
  repeatable: undefined,
  offer: undefined,
  asked: undefined,
  facts: undefined,
  judgement: undefined,
  approving: undefined,
  attribution: undefined,
  mutation: undefined,
  mutated: undefined,
  route: undefined,
  dressed: undefined,
  cleared: undefined,
  hold: undefined,
  outgoing: undefined,
  answer: undefined,
  acceptance: undefined,
  onSocket: undefined,
  used: undefined,
};

/** One call while it walks its line: the parts that were made so far, and what is to be done at its end. */
export class WalkingCall implements Control {
  /** The parts so far; a field, because every stage asks for it. */
  readonly parts: Known;
  readonly hold: Hold;
  readonly #pipeline: LineGround;
  /** The same parts, for the line to add to. */
  readonly made: { [Name in PartName]: object | undefined };
  /** The first one is asked last. */
  readonly settlements: readonly Settlement[];
  readonly #settlements: Settlement[];
  readonly #letGo: (() => void)[] = [];
  #draft: RecordDraft | undefined;
  refusal: Refusal | undefined;
  waited: Waited | undefined;

  constructor(arrival: Arrived, pipeline: LineGround) {
    this.#pipeline = pipeline;
    const parts: Kept = { ...NOTHING, arrival: Object.freeze(arrival) };
    this.parts = parts;
    this.made = parts;
    this.hold = new Hold(pipeline, arrival.recordId);
    // Of every request, whatever becomes of it: a cap hears of all that a record says was spent.
    this.#settlements = [pipeline.counters, this.hold];
    this.settlements = this.#settlements;
  }

  /** What stands in the place of a stage has made these parts: from now on they are as they are. */
  take(made: Partial<Parts>, names: readonly PartName[]): void {
    for (const name of names) {
      const part = made[name];
      if (part !== undefined) this.made[name] = Object.freeze(part);
    }
  }

  settle(settlement: Settlement): void {
    this.#settlements.push(settlement);
  }

  atEnd(letGo: () => void): void {
    this.#letGo.push(letGo);
  }

  drop(...parts: readonly PartName[]): void {
    for (const part of parts) this.made[part] = undefined;
  }

  /** The call is judged again: what these stages have made counts no longer, but for the risk that was scored. */
  forget(stages: readonly Pick<Stage, 'makes'>[]): void {
    for (const { makes } of stages) for (const part of makes) if (part !== 'judgement') this.made[part] = undefined;
  }

  /** There is one draft; each time it is asked for, it is filled with what has become known. */
  draft(completedAt = this.#pipeline.clock.now()): RecordDraft {
    this.#draft = recordOf({ parts: this.parts, refusal: this.refusal, completedAt }, this.#pipeline, this.#draft);
    return this.#draft;
  }

  /** The line has ended. */
  end(): void {
    for (const letGo of this.#letGo.splice(0)) letGo();
  }
}
