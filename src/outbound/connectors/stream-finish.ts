import type { StreamRule } from '../../base/catalogue/types.ts';
import { ELEMENT } from '../../base/json/json-picker.ts';
import { compilePath, EACH, type Path, valueAt } from './answer-paths.ts';
import { countOf } from './usage-places.ts';

/** Answers that are told apart in one stream; of one with more nobody can say any more that all of them are finished. */
const MAX_ANSWERS = 1024;

/** Member of an answer that says which of several it is. Without it the place in the list does. */
const INDEX: Path = ['index'];

/** A place where an answer says why it ended. */
interface FinishPlace {
  /** Of the list of answers; undefined: there is one answer, and `reason` begins at the event. */
  readonly list: Path | undefined;
  readonly reason: Path;
}

/** A member that is there to say something. */
export function says(value: unknown): boolean {
  return value !== undefined && value !== null && value !== false && value !== '';
}

/** The finish places of a format, prepared. */
export class FinishRule {
  readonly places: readonly FinishPlace[];
  readonly events: ReadonlySet<string>;

  constructor(rule: StreamRule) {
    this.places = rule.finishPaths.map(compilePath).map((path) => {
      const each = path.indexOf(EACH);
      return each === -1 ? { list: undefined, reason: path } : { list: path.slice(0, each), reason: path.slice(each + 1) };
    });
    this.events = new Set(rule.finishEvents);
  }
}

/**
 * Whether every answer that a stream has begun has said why it ended. Providers and servers that leave out the event with which their format ends a stream do say
 * that, and usage may still come behind it: so it ends nothing by itself, and tells only what the end of the body means.
 */
export class StreamFinish {
  readonly #rule: FinishRule;
  /** By index: whether that answer is finished. */
  readonly #answers = new Map<number, boolean>();
  #unfinished = 0;
  /** Reasons of answers whose index is not known. */
  #unnamed = 0;
  #isLost = false;

  constructor(rule: FinishRule) {
    this.#rule = rule;
  }

  get isFinished(): boolean {
    const isAny = this.#unnamed > 0 || this.#answers.size > 0;
    return isAny && this.#unfinished <= this.#unnamed && !this.#isLost;
  }

  /** The name of an event. */
  takeName(event: string): void {
    if (this.#rule.events.has(event)) this.#unnamed++;
  }

  /** The data of one event. */
  takeEvent(data: unknown): void {
    for (const { list, reason } of this.#rule.places) {
      if (list === undefined) this.takeReason(valueAt(data, reason));
      else this.#takeList(valueAt(data, list), reason);
    }
  }

  /** What stands where an answer that is not known says why it ended. */
  takeReason(value: unknown): void {
    if (says(value)) this.#unnamed++;
  }

  /** The index of an answer that is there. */
  takeIndex(value: unknown): void {
    const index = countOf(value);
    if (index !== undefined) this.#note(index, false);
  }

  /** What a picker is to take of an event that is too large to keep. */
  *picks(): Iterable<readonly [path: Path, take: (value: unknown) => void]> {
    for (const { list, reason } of this.#rule.places) {
      yield [list === undefined ? reason : [...list, ELEMENT, ...reason], (value) => this.takeReason(value)];
      if (list !== undefined) yield [[...list, ELEMENT, ...INDEX], (value) => this.takeIndex(value)];
    }
  }

  #takeList(list: unknown, why: Path): void {
    if (!Array.isArray(list)) return;
    for (let at = 0; at < list.length; at++) {
      const answer: unknown = list[at];
      // Asked of every event of a stream, nearly all of which have the index that is their place, and no reason.
      const own = valueAt(answer, INDEX);
      const reason = valueAt(answer, why);
      this.#note(own === at ? at : (countOf(own) ?? at), reason !== undefined && reason !== null && says(reason));
    }
  }

  /** An answer that was finished once stays so: some servers send further events of it, without a reason, to report usage. */
  #note(index: number, isFinished: boolean): void {
    const before = this.#answers.get(index);
    if (before === true || before === isFinished) return;
    if (before === undefined && this.#answers.size >= MAX_ANSWERS) {
      this.#isLost = true;
      return;
    }
    this.#answers.set(index, isFinished);
    if (before === undefined && !isFinished) this.#unfinished++;
    else if (before === false) this.#unfinished--;
  }
}
