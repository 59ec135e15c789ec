import type { DeferredRule } from '../../base/catalogue/dialect-rules.ts';
import type { StreamRule } from '../../base/catalogue/types.ts';
import { ELEMENT } from '../../base/json/json-picker.ts';
import { compilePath, EACH, type Path, valueAt } from './answer-paths.ts';
import { countOf } from './usage-tally.ts';

/**
 * Answers that are told apart in one stream; of one with more nobody can say any more that all of them are finished.
 */
const MAX_ANSWERS = 1024;

/** Member of an answer that says which of several it is. Without it the place in the list does. */
const INDEX = 'index';

interface Indexed {
  readonly [INDEX]?: unknown;
}

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
 * Whether every answer that a stream has begun has said why it ended. Providers and servers that leave out the event
 * with which their format ends a stream do say that, and usage may still come behind it: so it ends nothing by itself,
 * and tells only what the end of the body means.
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
      if (list !== undefined) yield [[...list, ELEMENT, INDEX], (value) => this.takeIndex(value)];
    }
  }

  #takeList(list: unknown, why: Path): void {
    if (!Array.isArray(list)) return;
    for (let at = 0; at < list.length; at++) {
      const answer: unknown = list[at];
      // Asked of every event of a stream, nearly all of which have the index that is their place, and no reason.
      const own = typeof answer === 'object' && answer !== null && Object.hasOwn(answer, INDEX) ? (answer as Indexed)[INDEX] : undefined;
      const reason = valueAt(answer, why);
      const index = own === at ? at : (countOf(own) ?? at);
      const isFinished = reason !== undefined && reason !== null && says(reason);
      if (this.#answers.get(index) !== isFinished) this.#note(index, isFinished);
    }
  }

  /**
   * An answer that was finished once stays so: some servers send further events of it, without a reason, to report
   * usage.
   */
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

const MAX_ID = 256;

/**
 * Which response an answer tells of, and whether that has ended: followed where a response may be made after the answer
 * to its call.
 */
export class ResponseState {
  /** Undefined while the answer has named none. */
  id: string | undefined;
  #status: string | undefined;
  readonly #open: readonly string[];
  /** Of id and status, in a response object. */
  readonly paths: readonly [id: Path, status: Path];
  /** The same in the data of an event. */
  readonly eventPaths: readonly [id: Path, status: Path];
  /** Stands in the text of every event that has a response object in it. */
  readonly needle: string;

  constructor(rule: DeferredRule) {
    this.#open = rule.open;
    this.paths = [compilePath(rule.id), compilePath(rule.status)];
    this.eventPaths = [
      [rule.inEvent, ...this.paths[0]],
      [rule.inEvent, ...this.paths[1]],
    ];
    this.needle = `"${rule.inEvent}"`;
  }

  /** Takes what stands at one of the two paths; later statuses win. */
  take(which: 0 | 1, value: unknown): void {
    if (typeof value !== 'string' || value === '') return;
    if (which === 1) this.#status = value;
    else if (value.length <= MAX_ID && value.isWellFormed()) this.id ??= value;
  }

  /** The data of one event of a stream. */
  takeEvent(data: unknown): void {
    this.take(0, valueAt(data, this.eventPaths[0]));
    this.take(1, valueAt(data, this.eventPaths[1]));
  }

  /** It says of a response that this is being made. */
  get isOpen(): boolean {
    return this.#status !== undefined && this.#open.includes(this.#status);
  }

  /** It says of a response that this has ended; nothing that was not said counts. */
  get hasEnded(): boolean {
    return this.#status !== undefined && !this.isOpen;
  }
}
