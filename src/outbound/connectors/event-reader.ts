import type { DeltaRule } from '../../base/catalogue/dialect-rules.ts';
import type { Dialect, StreamRule } from '../../base/catalogue/types.ts';
import { ELEMENT, JsonPicker } from '../../base/json/json-picker.ts';
import type { Usage } from '../../base/model/usage.ts';
import {
  compilePath,
  compileValuePath,
  EACH,
  type Path,
  type PathTree,
  pathTree,
  type ValuePath,
  type ValueSink,
  valueAt,
  walkTree,
} from './answer-paths.ts';
import { placePicks, rootPaths } from './answer-reader.ts';
import { type SeenUsage, typeOf } from './seen-usage.ts';
import type { ResponseState } from './stream-finish.ts';
import { FinishRule, StreamFinish, says } from './stream-finish.ts';
import { modelName, type UsageReader, usageReader } from './usage-reader.ts';
import { UsageTally } from './usage-tally.ts';

/** Members that name an event inside its data, where the format does not name it outside. */
const TYPE_PATHS: readonly Path[] = [['type'], ['event_type'], ['event']];

/** What a stream rule asks of each event, prepared so that most events are dismissed by a few text searches. */
interface CompiledRule {
  readonly doneData: string | undefined;
  readonly doneEvents: ReadonlySet<string>;
  readonly donePaths: readonly Path[];
  readonly finish: FinishRule;
  readonly errorEvents: ReadonlySet<string>;
  /** Of usage objects in the data of an event, and of the answers around them. */
  readonly usageRoots: readonly ValuePath[];
  readonly answerRoots: readonly Path[];
  readonly errorPaths: readonly Path[];
  readonly modelPaths: readonly Path[];
  /** What each of the numbers of these trees means. */
  readonly meanings: readonly Meaning[];
  /** Of events that hold output of a stream that is followed. */
  readonly withOutput: EventTrees;
  readonly withoutOutput: EventTrees;
  /**
   * Quoted names: of usage, error and end members, of end members alone, of the model's members, and of the events that
   * end the stream or say an error.
   */
  readonly memberNeedles: readonly string[];
  readonly donePathNeedles: readonly string[];
  readonly modelNeedles: readonly string[];
  readonly doneNeedles: readonly string[];
  readonly errorNeedles: readonly string[];
  /** An event's name, in its data or outside, may end the stream or say an error. */
  readonly isNamedInside: boolean;
  readonly finishNeedles: readonly string[];
  /** Quoted names of the members by which answers are told apart, or say why they ended. */
  readonly tellingNeedles: readonly string[];
}

/** All of the paths above at once, and those of them that may stand in an event without any of the `memberNeedles`. */
interface EventTrees {
  readonly all: PathTree;
  readonly rest: PathTree;
}

/**
 * What a value of an event is for: a usage object by its root, a place of the answer by its number, output, or a member
 * that says something.
 */
interface Meaning {
  readonly kind: 'done' | 'error' | 'model' | 'output' | 'place' | 'usage';
  readonly number: number;
}

/**
 * Refusing a broken JSON text costs more than a thousand bytes of an intact one; in a stream with so many of them only
 * names are looked at.
 */
const MAX_BROKEN = 100;

/** By the rule for output that is followed beside it. */
const compiled = new WeakMap<StreamRule, Map<DeltaRule | undefined, CompiledRule>>();

function compiledOf(rule: StreamRule, reader: UsageReader | undefined, deltas: DeltaRule | undefined): CompiledRule {
  let known = compiled.get(rule);
  if (known === undefined) {
    known = new Map();
    compiled.set(rule, known);
  }
  let made = known.get(deltas);
  if (made === undefined) {
    made = compileRule(rule, reader, deltas);
    known.set(deltas, made);
  }
  return made;
}

function compileRule(rule: StreamRule, reader: UsageReader | undefined, deltas: DeltaRule | undefined): CompiledRule {
  const usageRoots = reader === undefined ? [] : rule.usageRoots.map(compileValuePath);
  const answerRoots = reader === undefined ? [] : answersAround(rule.usageRoots, reader);
  const donePaths = rule.donePaths.map(compilePath);
  const errorPaths = rule.errorPaths.map(compilePath);
  const modelPaths = rule.modelPaths.map(compilePath);
  const finish = new FinishRule(rule);
  const places = [...(reader?.places ?? []).entries()].slice(reader?.inUsage);
  const plain = (kind: Meaning['kind'], steps: Path) =>
    [
      { kind, number: 0 },
      { steps, only: undefined },
    ] as const;
  const meant: (readonly [Meaning, ValuePath])[] = [
    ...usageRoots.map((path, number) => [{ kind: 'usage', number }, path] as const),
    ...answerRoots.flatMap((root) =>
      places.map(
        ([number, { path }]) =>
          [
            { kind: 'place', number },
            { ...path, steps: [...root, ...path.steps] },
          ] as const,
      ),
    ),
    ...donePaths.map((steps) => plain('done', steps)),
    ...errorPaths.map((steps) => plain('error', steps)),
    ...modelPaths.map((steps) => plain('model', steps)),
    ...(deltas?.paths ?? []).map((path) => plain('output', compilePath(path))),
  ];
  const treesOf = (kinds: ReadonlySet<Meaning['kind']>, more: readonly Meaning['kind'][]): PathTree =>
    pathTree(meant.flatMap(([{ kind }, path], at) => (kinds.has(kind) || more.includes(kind) ? [[at, path] as const] : [])));
  const doneNeedles = rule.doneEvents.map((name) => `"${name}"`);
  const errorNeedles = rule.errorEvents.map((name) => `"${name}"`);
  return {
    meanings: meant.map(([meaning]) => meaning),
    withOutput: { all: treesOf(ALL_KINDS, ['output']), rest: treesOf(REST_KINDS, ['output']) },
    withoutOutput: { all: treesOf(ALL_KINDS, []), rest: treesOf(REST_KINDS, []) },
    finish,
    doneData: rule.doneData,
    doneEvents: new Set(rule.doneEvents),
    donePaths,
    errorEvents: new Set(rule.errorEvents),
    usageRoots,
    answerRoots,
    errorPaths,
    modelPaths,
    memberNeedles: [...new Set([...usageNeedles(usageRoots, reader), ...lastNames([...errorPaths, ...donePaths])])],
    donePathNeedles: lastNames(donePaths),
    modelNeedles: lastNames(modelPaths),
    doneNeedles,
    errorNeedles,
    isNamedInside: doneNeedles.length + errorNeedles.length > 0,
    finishNeedles: rule.finishEvents.map((name) => `"${name}"`),
    tellingNeedles: lastNames(finish.places.map(({ list, reason }) => list ?? reason)),
  };
}

const ALL_KINDS: ReadonlySet<Meaning['kind']> = new Set(['usage', 'place', 'done', 'error', 'model']);
const REST_KINDS: ReadonlySet<Meaning['kind']> = new Set(['place', 'model']);

/** An event that is itself the usage object is known by its counts. */
function usageNeedles(roots: readonly ValuePath[], reader: UsageReader | undefined): readonly string[] {
  const own = roots.some(({ steps }) => steps.length === 0) ? (reader?.places.slice(0, reader.inUsage) ?? []).map(({ path }) => path) : [];
  return lastNames([...roots, ...own].map(({ steps }) => steps.filter((step): step is string => typeof step === 'string')));
}

/**
 * Where the answer stands in an event of which the usage object is known: before the path that the usage has in an
 * answer. What is one of several choices is not an answer of its own.
 */
function answersAround(usageRoots: readonly string[], { firstRoot }: UsageReader): readonly Path[] {
  const own = firstRoot.join('.');
  const prefixes = usageRoots.flatMap((root) => {
    if (root === own) return [''];
    if (own === '') return [root];
    return root.endsWith(`.${own}`) && !root.includes(EACH) ? [root.slice(0, -own.length - 1)] : [];
  });
  return [...new Set(prefixes)].map(compilePath);
}

function lastNames(paths: readonly Path[]): readonly string[] {
  return [...new Set(paths.filter((path) => path.length > 0).map((path) => `"${path.at(-1) ?? ''}"`))];
}

/**
 * Understands the events of one stream: gathers usage, model, error, end, and what it has said so far. Knows nothing of
 * framing.
 */
export class EventReader implements ValueSink {
  /** The last model that the stream named, and whether it said its end or an error. */
  model: string | undefined;
  done = false;
  failed = false;
  /** Data that ends the stream. */
  readonly doneData: string | undefined;
  /** {@link endsByData} may be true of other data than that. */
  readonly mayEndInside: boolean;
  readonly #rule: CompiledRule;
  readonly #usageReader: UsageReader | undefined;
  /** Of all usage objects so far. */
  readonly #tally: UsageTally | undefined;
  /** Changes of the tally that were told to `#seen`. */
  #toldAt = 0;
  /**
   * Broken texts, of those that matter, that may tell whether all answers are finished, and that are read only to
   * follow the stream: that must not make it end otherwise.
   */
  readonly #broken = { mattering: 0, telling: 0, followed: 0 };
  /** Set when what the stream says is followed while it runs. */
  readonly #seen: SeenUsage | undefined;
  readonly #except: ReadonlySet<string>;
  /** Set when the response may go on after the stream. */
  readonly #state: ResponseState | undefined;
  readonly #finish: StreamFinish;

  constructor(dialect: Dialect, rule: StreamRule, seen?: SeenUsage, state?: ResponseState) {
    this.#seen = seen;
    this.#except = seen?.except ?? NO_NAMES;
    this.#state = state;
    this.#usageReader = dialect.usage === undefined ? undefined : usageReader(dialect.usage);
    this.#tally = this.#usageReader && new UsageTally(this.#usageReader);
    this.#rule = compiledOf(rule, this.#usageReader, seen?.rule);
    this.#finish = new StreamFinish(this.#rule.finish);
    this.doneData = this.#rule.doneData;
    this.mayEndInside = this.#rule.doneEvents.size > 0 || this.#rule.donePaths.length > 0;
  }

  /** True when this format says by an event that it ends. */
  get hasTerminal(): boolean {
    return this.doneData !== undefined || this.mayEndInside;
  }

  /** Every answer that was begun has said why it ended: a body that ends now has lacked nothing. */
  get finished(): boolean {
    return this.#finish.isFinished;
  }

  get usage(): Usage | undefined {
    return this.#tally?.usage;
  }

  /** A name that ends the stream, known before the data is there. */
  endsByName(event: string): boolean {
    return this.#rule.doneEvents.has(event);
  }

  /** Whether the text is exactly the prefix, at most one space and the data that ends the stream. */
  isDoneData(text: string, prefix: string): boolean {
    const done = this.doneData;
    if (done === undefined || text.length < prefix.length + done.length || text.length > prefix.length + 1 + done.length) return false;
    return text === `${prefix} ${done}` || text === prefix + done;
  }

  /** Whether this data, perhaps not all of it yet, already ends the stream. Cheap for all other data. */
  endsByData(data: string): boolean {
    if (data === this.doneData) return true;
    if (!this.mayEndInside) return false;
    if (this.#rule.donePathNeedles.length > 0 && this.#endsByMember(data)) return true;
    const type = this.#rule.doneEvents.size === 0 ? '' : leadingType(data);
    if (type !== undefined) return this.#rule.doneEvents.has(type);
    if (!this.#rule.doneNeedles.some((needle) => data.includes(needle))) return false;
    return this.#namedIn(this.#parsed(data, 'mattering', false), this.#rule.doneEvents);
  }

  #endsByMember(data: string): boolean {
    const rule = this.#rule;
    if (!rule.donePathNeedles.some((needle) => hasMember(data, needle))) return false;
    const value = this.#parsed(data, 'mattering', false);
    return rule.donePaths.some((path) => says(valueAt(value, path)));
  }

  /** One whole event. */
  read(data: string, event: string): void {
    const rule = this.#rule;
    if (data === this.doneData) {
      this.done = true;
      return;
    }
    if (event !== '') this.#name(event);
    const type = rule.isNamedInside ? leadingType(data) : '';
    if (type !== undefined && type !== '' && type !== event) this.#name(type);
    const matters = this.#matters(data, type === undefined);
    const value = matters ? this.#parsed(data, 'mattering', this.#seen !== undefined) : this.#valueOf(data);
    if (value === undefined) return;
    const isExcepted = this.#except.size > 0 && this.#except.has(type || event || typeOf(value));
    const trees = isExcepted ? rule.withoutOutput : rule.withOutput;
    this.#tally?.nextEvent();
    walkTree(value, matters ? trees.all : trees.rest, this);
    this.#state?.takeEvent(value);
    this.#finish.takeEvent(value);
    if (type === undefined) this.#takeNames(value);
    if (this.#seen !== undefined && this.#tally !== undefined && this.#tally.changes !== this.#toldAt)
      this.#report(this.#seen, this.#tally);
  }

  #report(seen: SeenUsage, tally: UsageTally): void {
    this.#toldAt = tally.changes;
    seen.report(tally.usage);
  }

  /** A value at one of the paths of an event. @param at its number in the trees */
  addPicked(at: number, value: unknown): void {
    const meaning = this.#rule.meanings[at];
    switch (meaning?.kind) {
      case 'model':
        if (value !== this.model) this.#addModel(value);
        break;
      case 'output':
        this.#seen?.addPicked(0, value);
        break;
      case 'error':
        this.#addError(value);
        break;
      case 'done':
        this.#addEnd(value);
        break;
      case 'usage':
        this.#tally?.addUsage(value, meaning.number);
        break;
      case 'place':
        this.#tally?.addPicked(meaning.number, value);
        break;
      default:
    }
  }

  /**
   * For an event, or a whole array of them, that is too large to keep: feed the picker with its data.
   * @param prefix where an event stands in the text
   */
  picker(prefix: Path = []): JsonPicker {
    const rule = this.#rule;
    const uses: ((value: unknown) => void)[] = [];
    const paths: Path[] = [];
    const add = (list: readonly Path[], use: (value: unknown) => void): void => {
      for (const path of list) {
        paths.push([...prefix, ...path]);
        uses.push(use);
      }
    };
    const [tally, reader] = [this.#tally, this.#usageReader];
    if (tally !== undefined && reader !== undefined) {
      // A list of events passes as one text: each usage object stands for the event that it is in.
      for (const [root, path] of rootPaths(rule.usageRoots).entries()) {
        add([path], (value) => {
          tally.nextEvent();
          tally.addUsage(value, root);
        });
      }
      const around = placePicks(reader);
      for (const root of rule.answerRoots) for (const { path, use } of around) add([[...root, ...path]], (value) => use(tally, value));
    }
    add(rule.donePaths, (value) => this.#addEnd(value));
    add(rule.errorPaths, (value) => this.#addError(value));
    add(rule.modelPaths, (value) => this.#addModel(value));
    for (const [path, take] of this.#finish.picks()) add([path], take);
    add(TYPE_PATHS, (value) => this.#name(value));
    const state = this.#state;
    if (state) for (const which of [0, 1] as const) add([state.eventPaths[which]], (value) => state.take(which, value));
    const seen = this.#seen;
    if (seen) add(seen.paths.map(ofElements), (value) => seen.addPicked(0, value));
    return new JsonPicker(paths, (path, value) => uses[path]?.(value), seen && utf8Text);
  }

  /** The event's name, outside or inside the data. */
  #name(event: unknown): void {
    if (typeof event !== 'string') return;
    if (this.#rule.doneEvents.has(event)) this.done = true;
    if (this.#rule.errorEvents.has(event)) this.failed = true;
    this.#finish.takeName(event);
  }

  /** Names that stand somewhere inside of the data. */
  #takeNames(value: unknown): void {
    const { doneEvents, errorEvents, finish } = this.#rule;
    if (this.#namedIn(value, doneEvents)) this.done = true;
    if (this.#namedIn(value, errorEvents)) this.failed = true;
    if (this.#namedIn(value, finish.events)) this.#finish.takeReason(true);
  }

  #namedIn(value: unknown, names: ReadonlySet<string>): boolean {
    if (names.size === 0) return false;
    return TYPE_PATHS.some((path) => {
      const type = valueAt(value, path);
      return typeof type === 'string' && names.has(type);
    });
  }

  /**
   * An event without anything that counts, for those who follow the stream or ask whether its answers are finished;
   * undefined: nobody asks.
   */
  #valueOf(data: string): unknown {
    if (this.#seen !== undefined && this.#broken.followed < MAX_BROKEN)
      return data === '' ? undefined : this.#parsed(data, 'followed', true);
    for (const needle of this.#rule.tellingNeedles) if (hasMember(data, needle)) return this.#parsed(data, 'telling', false);
    return undefined;
  }

  /** @param isText its texts are read, which are bytes until then */
  #parsed(data: string, as: 'mattering' | 'telling' | 'followed', isText: boolean): unknown {
    if (this.#broken[as] >= MAX_BROKEN) return undefined;
    try {
      return JSON.parse(isText && NOT_ASCII.test(data) ? utf8Text(data) : data);
    } catch {
      this.#broken[as]++;
      return undefined;
    }
  }

  /** Whether it may hold something that counts, ends the stream or fails it. */
  #matters(data: string, typeUnknown: boolean): boolean {
    const rule = this.#rule;
    // Most events have none of the names, and nothing more is asked of these.
    for (const needle of rule.memberNeedles) if (data.includes(needle) && hasMember(data, needle)) return true;
    if (this.#state !== undefined && hasMember(data, this.#state.needle)) return true;
    if (this.model === undefined) for (const needle of rule.modelNeedles) if (hasMember(data, needle)) return true;
    if (!typeUnknown) return false;
    return holdsAny(data, rule.doneNeedles) || holdsAny(data, rule.errorNeedles) || holdsAny(data, rule.finishNeedles);
  }

  #addError(value: unknown): void {
    if (says(value)) this.failed = true;
  }

  #addEnd(value: unknown): void {
    if (says(value)) this.done = true;
  }

  #addModel(value: unknown): void {
    this.model = modelName(value) ?? this.model;
    if (this.#seen) this.#seen.model = this.model;
  }
}

function ofElements(path: Path): Path {
  return path.map((name) => (name === EACH ? ELEMENT : name));
}

const SPACE = 0x20;
const COLON = 0x3a;
const NO_NAMES: ReadonlySet<string> = new Set();
const TYPE_FIRST = '{"type":"';

/**
 * The event's name where it stands first in its data, as most providers write it; undefined when one would have to look
 * closer.
 */
function leadingType(data: string): string | undefined {
  if (!data.startsWith(TYPE_FIRST)) return undefined;
  const end = data.indexOf('"', TYPE_FIRST.length);
  return end === -1 || end - TYPE_FIRST.length > 64 ? undefined : data.slice(TYPE_FIRST.length, end);
}

/**
 * Is there a member of this name with a value other than null and false? A quoted name cannot stand inside a JSON text,
 * there its quotes are escaped.
 */
function hasMember(data: string, quotedName: string): boolean {
  for (let found = data.indexOf(quotedName); found !== -1; found = data.indexOf(quotedName, found + 1)) {
    let at = found + quotedName.length;
    while (data.charCodeAt(at) <= SPACE) at++;
    if (data.charCodeAt(at) !== COLON) continue;
    at++;
    while (data.charCodeAt(at) <= SPACE) at++;
    const first = data.charCodeAt(at);
    if (first !== 0x6e && first !== 0x66) return true;
  }
  return false;
}

function holdsAny(data: string, needles: readonly string[]): boolean {
  return needles.some((needle) => data.includes(needle));
}

const NOT_ASCII = /[\u0080-\u00ff]/;

/** What a text says whose characters are bytes of UTF-8, as this room reads them. */
function utf8Text(text: string): string {
  return NOT_ASCII.test(text) ? Buffer.from(text, 'latin1').toString('utf8') : text;
}

/** Watches the decoded bytes of one streamed answer go by; never changes them. Never throws on any input. */
export interface StreamTap {
  /**
   * Feeds bytes. Returns the offset in `chunk` from which bytes belong to the dialect's terminal event (`[DONE]`,
   * `message_stop`, …) or lie behind it, or -1 while it has not begun in this or an earlier chunk. Once it returned an
   * offset, later calls return 0.
   */
  push(chunk: Uint8Array): number;
  /** The upstream's body ended. */
  end(): void;
  /**
   * Complete: a terminal event was seen, or the dialect has none and the body ended cleanly. Error: an error object was
   * in the stream.
   */
  readonly outcome: 'open' | 'complete' | 'error';
  /** Usage so far; undefined when the provider gave none. */
  readonly usage: Usage | undefined;
  /** The model that the answer names. */
  readonly model: string | undefined;
  /**
   * Offset in the last chunk behind the event at which the stream is to end (see StreamWatch); -1 while it may go on.
   * Nothing behind it is read.
   */
  readonly stopsAt: number;
}
