import type { DeltaRule } from '../../base/catalogue/dialect-rules.ts';
import type { Usage } from '../../base/model/usage.ts';
import { countTokens, textTokens } from '../../decide/pricing/count-tokens.ts';
import { compilePath, type Path, type PathTree, pathTree, type ValueSink, valueAt, walkTree } from './answer-paths.ts';

/** What is known of a call's tokens before its answer. */
export interface ExpectedTokens {
  readonly tokensIn: number;
  /** The maximum of output that the call states; undefined: none, or one that is only assumed. */
  readonly outStated: number | undefined;
}

/** Asked while a stream runs whether it may go on. */
export interface StreamWatch {
  readonly seen: SeenUsage;
  /** False: the stream is followed and never ended. Default true. */
  readonly mayStop?: boolean;
  /**
   * True: the stream is to end here. Asked again after each event that brought output, never of one that ends the
   * stream anyway.
   */
  passes(): boolean;
}

/** Asks a watch, after an event, whether the stream is to end there. */
export function endsHere(watch: StreamWatch): boolean {
  return watch.mayStop !== false && watch.seen.takeGrowth() && watch.passes();
}

/**
 * Up to so many halves of the stated maximum an approximation above it is taken for an error of the approximation:
 * providers end the output there.
 */
const STATED_HALVES = 3;

/**
 * What a stream has used so far: the provider's last report, and an approximation of what came since. A report counts
 * once it says more output than the one before: some providers repeat a zero until the end.
 */
export class SeenUsage implements ValueSink {
  readonly #deltas: Deltas;
  readonly #expected: ExpectedTokens;
  /** Of all deltas, approximated, not rounded. */
  #tokens = 0;
  #atReport = 0;
  #reported: Usage | undefined;
  #grew = false;
  /** The model that the stream names. */
  model: string | undefined;

  constructor(rule: DeltaRule, expected: ExpectedTokens) {
    this.#deltas = deltasOf(rule);
    this.#expected = expected;
  }

  /** The rule by which output is found in events. */
  get rule(): DeltaRule {
    return this.#deltas.rule;
  }

  /** Paths of what counts as output, `*` for each element. */
  get paths(): readonly Path[] {
    return this.#deltas.paths;
  }

  /** Names of events whose data is no output. A reader that walks an event for itself looks here first. */
  get except(): ReadonlySet<string> {
    return this.#deltas.except;
  }

  /** One event: its data, and its name where that is known. */
  add(data: unknown, name: string): void {
    const { except, tree } = this.#deltas;
    if (except.size === 0 || !except.has(name === '' ? typeOf(data) : name)) walkTree(data, tree, this);
  }

  /** One value of those that `paths` name. */
  addPicked(_path: number, value: unknown): void {
    const tokens = typeof value === 'string' ? textTokens(value) : countTokens([value]);
    if (tokens <= 0) return;
    this.#tokens += tokens;
    this.#grew = true;
  }

  /** What the provider reports by now; the output of the event that says so has been added. */
  report(usage: Usage | undefined): void {
    if (usage === undefined) return;
    if (usage.tokens_out > (this.#reported?.tokens_out ?? 0)) this.#atReport = this.#tokens;
    this.#reported = usage;
  }

  /** Whether output came since this was last asked. */
  takeGrowth(): boolean {
    const grew = this.#grew;
    this.#grew = false;
    return grew;
  }

  /** Something came that no report holds yet. */
  get approximated(): boolean {
    return this.#tokens > this.#atReport;
  }

  /** Counts of both; equal to the last report when nothing came since. */
  get usage(): Usage {
    const { tokensIn, outStated } = this.#expected;
    const reported = this.#reported;
    const reportedOut = reported?.tokens_out ?? 0;
    // A report may already be as large as a count can be.
    const out = Math.min(Math.ceil(reportedOut + this.#tokens - this.#atReport), Number.MAX_SAFE_INTEGER);
    const isExcess = outStated !== undefined && out > outStated && out * 2 <= outStated * STATED_HALVES;
    const usage = {
      ...reported,
      tokens_in: reported !== undefined && reported.tokens_in > 0 ? reported.tokens_in : tokensIn,
      tokens_out: isExcess ? Math.max(reportedOut, outStated) : out,
    };
    return usage.passes === undefined ? usage : withRest(usage, reported);
  }
}

/** What came behind a report that tells passes apart is one of the call's own model. */
function withRest(usage: Usage, reported: Usage | undefined): Usage {
  const rest = usage.tokens_out - (reported?.tokens_out ?? 0);
  return rest <= 0 ? usage : { ...usage, passes: [...(usage.passes ?? []), { model: undefined, tokens_in: 0, tokens_out: rest }] };
}

const TYPE: Path = ['type'];

/** The name of an event that has none but the one in its data. */
export function typeOf(data: unknown): string {
  return String(valueAt(data, TYPE));
}

/** A rule for deltas, prepared once for all streams of its dialect. */
interface Deltas {
  readonly rule: DeltaRule;
  readonly paths: readonly Path[];
  readonly tree: PathTree;
  readonly except: ReadonlySet<string>;
}

const known = new WeakMap<DeltaRule, Deltas>();

function deltasOf(rule: DeltaRule): Deltas {
  let deltas = known.get(rule);
  if (deltas === undefined) {
    const paths = rule.paths.map(compilePath);
    deltas = { rule, paths, tree: pathTree(paths.map((steps, at) => [at, { steps, only: undefined }])), except: new Set(rule.except) };
    known.set(rule, deltas);
  }
  return deltas;
}
