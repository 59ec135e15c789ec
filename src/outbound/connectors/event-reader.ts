import type { Dialect, StreamRule } from '../../base/catalogue/types.ts';
import { ELEMENT, JsonPicker, parsed } from '../../base/json/json-picker.ts';
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
import type { ResponseState } from './response-state.ts';
import type { SeenUsage } from './seen-usage.ts';
import { FinishRule, StreamFinish, says } from './stream-finish.ts';
import { modelName, type UsageReader, usageReader } from './usage-reader.ts';
import { UsageTally } from './usage-tally.ts';
import { utf8Text } from './utf8-text.ts';

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
  /** All of these and `donePaths` at once, what each of its numbers means, and what of it may stand in an event without any of the `memberNeedles`. */
  readonly tree: PathTree;
  readonly meanings: readonly Meaning[];
  readonly restTree: PathTree;
  /** Quoted names: of usage, error and end members, of end members alone, of the model's members, and of the events that end the stream or say an error. */
  readonly memberNeedles: readonly string[];
  readonly donePathNeedles: readonly string[];
  readonly modelNeedles: readonly string[];
  readonly doneNeedles: readonly string[];
  readonly errorNeedles: readonly string[];
  readonly finishNeedles: readonly string[];
  /** Quoted names of the members by which answers are told apart, or say why they ended. */
  readonly tellingNeedles: readonly string[];
}

/** What a value of an event is for: a usage object by its root, a place of the answer by its number, or a member that says something. */
type Meaning = { readonly usage: number } | { readonly place: number } | 'done' | 'error' | 'model';

/** Refusing a broken JSON text costs more than a thousand bytes of an intact one; in a stream with so many of them only names are looked at. */
const MAX_BROKEN = 100;

const compiled = new WeakMap<StreamRule, CompiledRule>();

function compileRule(rule: StreamRule, reader: UsageReader | undefined): CompiledRule {
  const known = compiled.get(rule);
  if (known !== undefined) return known;
  const usageRoots = reader === undefined ? [] : rule.usageRoots.map(compileValuePath);
  const answerRoots = reader === undefined ? [] : answersAround(rule.usageRoots, reader);
  const donePaths = rule.donePaths.map(compilePath);
  const errorPaths = rule.errorPaths.map(compilePath);
  const modelPaths = rule.modelPaths.map(compilePath);
  const finish = new FinishRule(rule);
  const places = [...(reader?.places ?? []).entries()].slice(reader?.inUsage);
  const meant: (readonly [Meaning, ValuePath])[] = [
    ...usageRoots.map((path, usage) => [{ usage }, path] as const),
    ...answerRoots.flatMap((root) => places.map(([place, { path }]) => [{ place }, { ...path, steps: [...root, ...path.steps] }] as const)),
    ...donePaths.map((steps) => ['done', { steps, only: undefined }] as const),
    ...errorPaths.map((steps) => ['error', { steps, only: undefined }] as const),
    ...modelPaths.map((steps) => ['model', { steps, only: undefined }] as const),
  ];
  const numbered = meant.map(([, path], at) => [at, path] as const);
  const made: CompiledRule = {
    tree: pathTree(numbered),
    meanings: meant.map(([meaning]) => meaning),
    restTree: pathTree(numbered.filter(([at]) => isRest(meant[at]?.[0]))),
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
    doneNeedles: rule.doneEvents.map((name) => `"${name}"`),
    errorNeedles: rule.errorEvents.map((name) => `"${name}"`),
    finishNeedles: rule.finishEvents.map((name) => `"${name}"`),
    tellingNeedles: lastNames(finish.places.map(({ list, reason }) => list ?? reason)),
  };
  compiled.set(rule, made);
  return made;
}

function isRest(meaning: Meaning | undefined): boolean {
  return meaning === 'model' || (typeof meaning === 'object' && 'place' in meaning);
}

/** An event that is itself the usage object is known by its counts. */
function usageNeedles(roots: readonly ValuePath[], reader: UsageReader | undefined): readonly string[] {
  const own = roots.some(({ steps }) => steps.length === 0) ? (reader?.places.slice(0, reader.inUsage) ?? []).map(({ path }) => path) : [];
  return lastNames([...roots, ...own].map(({ steps }) => steps.filter((step): step is string => typeof step === 'string')));
}

/**
 * Where the answer stands in an event of which the usage object is known: before the path that the usage has in an answer. What is one of several choices is not an answer
 * of its own.
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

/** Understands the events of one stream: gathers usage, model, error and end. Knows nothing of framing. */
export class EventReader {
  readonly #rule: CompiledRule;
  readonly #usageReader: UsageReader | undefined;
  /** Of all usage objects so far. */
  readonly #tally: UsageTally | undefined;
  #model: string | undefined;
  #failed = false;
  #done = false;
  /** Broken texts, of those that matter, that may tell whether all answers are finished, and that are read only to follow the stream: that must not make it end otherwise. */
  readonly #broken = { mattering: 0, telling: 0, followed: 0 };
  /** Set when what the stream says is followed while it runs. */
  readonly #seen: SeenUsage | undefined;
  /** Set when the response may go on behind the stream. */
  readonly #state: ResponseState | undefined;
  readonly #finish: StreamFinish;
  readonly #sink: ValueSink = { addPicked: (at, value) => this.#takeAs(this.#rule.meanings[at], value) };

  constructor(dialect: Dialect, rule: StreamRule, seen?: SeenUsage, state?: ResponseState) {
    this.#seen = seen;
    this.#state = state;
    this.#usageReader = dialect.usage === undefined ? undefined : usageReader(dialect.usage);
    this.#tally = this.#usageReader && new UsageTally(this.#usageReader);
    this.#rule = compileRule(rule, this.#usageReader);
    this.#finish = new StreamFinish(this.#rule.finish);
  }

  /** True when this format says by an event that it ends. */
  get hasTerminal(): boolean {
    return this.#rule.doneData !== undefined || this.#rule.doneEvents.size > 0 || this.#rule.donePaths.length > 0;
  }

  get done(): boolean {
    return this.#done;
  }

  get failed(): boolean {
    return this.#failed;
  }

  /** Every answer that was begun has said why it ended: a body that ends now has lacked nothing. */
  get finished(): boolean {
    return this.#finish.isFinished;
  }

  get model(): string | undefined {
    return this.#model;
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
    const done = this.#rule.doneData;
    if (done === undefined || text.length < prefix.length + done.length || text.length > prefix.length + 1 + done.length) return false;
    return text === `${prefix} ${done}` || text === prefix + done;
  }

  /** Whether this data, perhaps not all of it yet, already ends the stream. Cheap for all other data. */
  endsByData(data: string): boolean {
    if (data === this.#rule.doneData) return true;
    if (this.#rule.donePathNeedles.length > 0 && this.#endsByMember(data)) return true;
    const type = this.#rule.doneEvents.size === 0 ? '' : leadingType(data);
    if (type !== undefined) return this.#rule.doneEvents.has(type);
    if (!this.#rule.doneNeedles.some((needle) => data.includes(needle))) return false;
    return this.#namedIn(this.#parsed(data), this.#rule.doneEvents);
  }

  #endsByMember(data: string): boolean {
    const rule = this.#rule;
    if (!rule.donePathNeedles.some((needle) => hasMember(data, needle))) return false;
    const value = this.#parsed(data);
    return rule.donePaths.some((path) => says(valueAt(value, path)));
  }

  /** One whole event. */
  read(data: string, event: string): void {
    const rule = this.#rule;
    if (data === rule.doneData) {
      this.#done = true;
      return;
    }
    if (event !== '') this.#name(event);
    const type = rule.doneNeedles.length + rule.errorNeedles.length === 0 ? '' : leadingType(data);
    if (type !== undefined && type !== event) this.#name(type);
    const matters = this.#matters(data, type === undefined);
    const value = matters ? this.#parsed(this.#seen === undefined ? data : utf8Text(data)) : this.#valueOf(data);
    if (value === undefined) return;
    this.#take(value, matters ? rule.tree : rule.restTree);
    this.#finish.takeEvent(value);
    if (type === undefined) this.#takeNames(value);
    this.#seen?.add(value, type === undefined || type === '' ? event : type);
    this.#seen?.report(this.usage);
  }

  #take(value: unknown, tree: PathTree): void {
    this.#tally?.nextEvent();
    walkTree(value, tree, this.#sink);
    this.#state?.takeEvent(value);
  }

  #takeAs(meaning: Meaning | undefined, value: unknown): void {
    if (meaning === 'model') this.#addModel(value);
    else if (meaning === 'error') this.#addError(value);
    else if (meaning === 'done') this.#addEnd(value);
    else if (meaning !== undefined && 'usage' in meaning) this.#tally?.addUsage(value, meaning.usage);
    else if (meaning !== undefined) this.#tally?.addPicked(meaning.place, value);
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
    if (this.#rule.doneEvents.has(event)) this.#done = true;
    if (this.#rule.errorEvents.has(event)) this.#failed = true;
    this.#finish.takeName(event);
  }

  /** Names that stand somewhere inside of the data. */
  #takeNames(value: unknown): void {
    const { doneEvents, errorEvents, finish } = this.#rule;
    if (this.#namedIn(value, doneEvents)) this.#done = true;
    if (this.#namedIn(value, errorEvents)) this.#failed = true;
    if (this.#namedIn(value, finish.events)) this.#finish.takeReason(true);
  }

  #namedIn(value: unknown, names: ReadonlySet<string>): boolean {
    if (names.size === 0) return false;
    return TYPE_PATHS.some((path) => {
      const type = valueAt(value, path);
      return typeof type === 'string' && names.has(type);
    });
  }

  /** An event without anything that counts, for those who follow the stream or ask whether its answers are finished; undefined: nobody asks. */
  #valueOf(data: string): unknown {
    if (this.#seen !== undefined && this.#broken.followed < MAX_BROKEN)
      return data === '' ? undefined : this.#parsed(utf8Text(data), 'followed');
    for (const needle of this.#rule.tellingNeedles) if (hasMember(data, needle)) return this.#parsed(data, 'telling');
    return undefined;
  }

  #parsed(data: string, as: 'mattering' | 'telling' | 'followed' = 'mattering'): unknown {
    if (this.#broken[as] >= MAX_BROKEN) return undefined;
    const value = parsed(data);
    if (value === undefined) this.#broken[as]++;
    return value;
  }

  /** Whether it may hold something that counts, ends the stream or fails it. */
  #matters(data: string, typeUnknown: boolean): boolean {
    const rule = this.#rule;
    for (const needle of rule.memberNeedles) if (hasMember(data, needle)) return true;
    if (this.#state !== undefined && hasMember(data, this.#state.needle)) return true;
    if (this.#model === undefined) for (const needle of rule.modelNeedles) if (hasMember(data, needle)) return true;
    if (!typeUnknown) return false;
    return holdsAny(data, rule.doneNeedles) || holdsAny(data, rule.errorNeedles) || holdsAny(data, rule.finishNeedles);
  }

  #addError(value: unknown): void {
    if (says(value)) this.#failed = true;
  }

  #addEnd(value: unknown): void {
    if (says(value)) this.#done = true;
  }

  #addModel(value: unknown): void {
    this.#model = modelName(value) ?? this.#model;
    if (this.#seen) this.#seen.model = this.#model;
  }
}

function ofElements(path: Path): Path {
  return path.map((name) => (name === EACH ? ELEMENT : name));
}

const TYPE_FIRST = '{"type":"';

/** The event's name where it stands first in its data, as most providers write it; undefined when one would have to look closer. */
function leadingType(data: string): string | undefined {
  if (!data.startsWith(TYPE_FIRST)) return undefined;
  const end = data.indexOf('"', TYPE_FIRST.length);
  return end === -1 || end - TYPE_FIRST.length > 64 ? undefined : data.slice(TYPE_FIRST.length, end);
}

/** Is there a member of this name with a value other than null and false? A quoted name cannot stand inside a JSON text, there its quotes are escaped. */
function hasMember(data: string, quotedName: string): boolean {
  for (let found = data.indexOf(quotedName); found !== -1; found = data.indexOf(quotedName, found + 1)) {
    let at = skipSpace(data, found + quotedName.length);
    if (data.charCodeAt(at) !== 0x3a) continue;
    at = skipSpace(data, at + 1);
    const first = data.charCodeAt(at);
    if (first !== 0x6e && first !== 0x66) return true;
  }
  return false;
}

function holdsAny(data: string, needles: readonly string[]): boolean {
  return needles.some((needle) => data.includes(needle));
}

function skipSpace(text: string, from: number): number {
  let at = from;
  while (text.charCodeAt(at) <= 0x20) at++;
  return at;
}
