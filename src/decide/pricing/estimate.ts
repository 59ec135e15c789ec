import { statedCount, wholeNumber } from '../../base/catalogue/holders.ts';
import type { NamedModel, NamedModels } from '../../base/catalogue/named-models.ts';
import { spelledPath, spelledValue } from '../../base/catalogue/spelling.ts';
import type { Dialect, Price } from '../../base/catalogue/types.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { type AskedBeside, type AskedCosts, askedBeside, askedTerms, askedUnits, sharedCost, sharedMost, tokensOfEffort } from './asked.ts';
import { dearestCost, meter, plainCost } from './cost.ts';
import { countTokens, pictureTokens } from './count-tokens.ts';

/** `context.estimates` of the request (decision 5.3): non-negative integers, checked where the envelope is read. */
export interface EstimateOverrides {
  readonly tokens_in?: number;
  readonly tokens_out_max?: number;
}

export interface Estimate {
  readonly tokensIn: number;
  readonly tokensOutMax: number;
  readonly costPico: bigint;
  /**
   * What is set aside before the call (decision 6.2): of input and of output the larger of override and own estimate,
   * so that a caller who states one of them too low takes nothing from the other, and every input token as if it were
   * written to a cache when that is dearer and priced apart.
   */
  readonly reservePico: bigint;
  /** Input and output of that reservation. */
  readonly reservedIn: number;
  readonly reservedOut: number;
  /** The maximum of output that the call itself sets, for all answers together; undefined: none. */
  readonly statedOut: number | undefined;
}

/**
 * Output of a model whose maximum is unknown, and the most that is assumed of one whose maximum is known (decision
 * 6.5).
 */
const UNKNOWN_OUTPUT = 1_024;
const ASSUMED_OUTPUT_CAP = 4_096;

/** For calls whose wire format is unknown: the members that the known ones use. */
const COMMON_PROMPTS: readonly string[] = ['system', 'messages', 'prompt', 'input', 'contents', 'tools'];
const COMMON_MAXIMA: readonly string[] = ['max_completion_tokens', 'max_output_tokens', 'max_tokens'];
/** How many answers one call asks for. */
const COMMON_COUNTS: readonly string[] = ['n', 'best_of', 'generationConfig.candidateCount', 'num_generations'];

type Params = Readonly<Record<string, unknown>>;

/**
 * What the answer of a call's own model may cost at most: `(tokens_in × rate_in + tokens_out_max × rate_out) /
 * 1,000,000` (specification, "Cost estimation"). Tokens of the prompt are approximated (see `countTokens`); the output
 * is the largest maximum that the call sets in any spelling that the dialect takes, else what decision 6.5 assumes,
 * times the answers asked for, times the prompts, and what the call predicts of it; the rates are those of the terms
 * that it asks for. A call without a dialect that holds neither prompt nor maximum costs nothing: it is no inference.
 * @param cachedRates `GW_PRICING_CACHED`
 * @throws GatewayError `invalid_request` for a maximum, or a number of answers, that is no non-negative integer
 * (decision 6.2)
 */
export function estimate(
  params: Params,
  dialect: Dialect | undefined,
  overrides: EstimateOverrides | undefined,
  price: Price,
  cachedRates = false,
): Estimate {
  const prompt = valuesAt(params, dialect, dialect?.promptPaths ?? COMMON_PROMPTS);
  const ownIn = countTokens(prompt) + repeatedTokens(params, dialect);
  const beside = askedBeside(params);
  const own = largestOf(params, dialect, dialect?.maxTokens ?? COMMON_MAXIMA);
  const answers = answersOf(params, dialect, beside);
  const maximum = own === undefined || beside === undefined ? own : withThought(own, beside, price);
  const statedOut = maximum === undefined || dialect?.maximaUncertain === true ? undefined : times(maximum, answers);
  const predicted = countTokens(valuesAt(params, dialect, dialect?.outputPaths ?? []));
  const picture = dialect?.picture === undefined ? undefined : pictureTokens(params, dialect.picture);
  const mayThink = own === undefined && (beside !== undefined || (dialect !== undefined && dialect.efforts.length > 0));
  const unsaid = mayThink ? thoughtUnsaid(params, dialect, beside, price) : 0;
  const ownOut = outputOf(dialect, prompt.length > 0, price, { maximum: maximum ?? picture, answers, unsaid }) + predicted;
  const tokensIn = overrides?.tokens_in ?? ownIn;
  const tokensOutMax = overrides?.tokens_out_max ?? ownOut;
  const terms = askedTerms(params, dialect, price);
  const costPico = costOfOutput(tokensIn, tokensOutMax, price, { terms, dialect, cachedRates });
  const reservedIn = Math.max(tokensIn, ownIn);
  const reservedOut = Math.max(tokensOutMax, ownOut);
  const reservePico = dearestOf(reservedIn, reservedOut, price, { terms, cachedRates });
  return { tokensIn, tokensOutMax, costPico, reservePico, reservedIn, reservedOut, statedOut };
}

interface OnTerms {
  readonly terms: readonly string[] | undefined;
}

/** Output of a format that makes pictures is priced as pictures. */
function costOfOutput(
  tokensIn: number,
  tokensOut: number,
  price: Price,
  { terms, dialect, cachedRates }: OnTerms & { readonly dialect: Dialect | undefined; readonly cachedRates: boolean },
): bigint {
  if (dialect?.picture === undefined) return plainCost(tokensIn, tokensOut, price, terms);
  const usage = { tokens_in: tokensIn, tokens_out: tokensOut, image_tokens_out: tokensOut };
  return meter(terms === undefined ? usage : { ...usage, terms }, price, cachedRates).costPico;
}

/** A term that is asked for is not always granted: what is set aside covers both. */
function dearestOf(
  tokensIn: number,
  tokensOut: number,
  price: Price,
  { terms, cachedRates }: OnTerms & { readonly cachedRates: boolean },
): bigint {
  const usual = dearestCost(tokensIn, tokensOut, price, cachedRates);
  if (terms === undefined) return usual;
  const asked = dearestCost(tokensIn, tokensOut, price, cachedRates, terms);
  return asked > usual ? asked : usual;
}

function valuesAt(params: Params, dialect: Dialect | undefined, paths: readonly string[]): readonly unknown[] {
  const values: unknown[] = [];
  for (const path of paths) {
    const value = valueAt(params, path, dialect);
    if (value !== undefined) values.push(value);
  }
  return values;
}

/** What a part of the prompt is more than once: a query is read with each of its documents. */
function repeatedTokens(params: Params, dialect: Dialect | undefined): number {
  if (dialect?.perItem === undefined) return 0;
  const items = valueAt(params, dialect.perItem.of, dialect);
  const more = Array.isArray(items) ? Math.max(0, items.length - 1) : 0;
  return more === 0 ? 0 : more * countTokens([valueAt(params, dialect.perItem.path, dialect)]);
}

/** What a call says of the size of its output. */
interface Stated {
  /** Of one answer. */
  readonly maximum: number | undefined;
  readonly answers: number;
  /** Without a maximum: what is asked for beside what is assumed. */
  readonly unsaid: number;
}

/** What thought may take that has no end of its own: the largest budget that a provider takes. */
const MOST_THOUGHT = 32_768;

function endlessThought({ maxOutputTokens }: Price): number {
  return Math.min(maxOutputTokens ?? MOST_THOUGHT, MOST_THOUGHT);
}

/** Without knowing what is asked for: all that the model has. */
function wholeOutput({ maxOutputTokens }: Price): number {
  return maxOutputTokens ?? MOST_THOUGHT;
}

/**
 * The maximum that a call sets, with what it asks for beside it: thought that has a number counts, whichever of the two
 * the provider honours.
 */
function withThought(own: number, { maximum, thought, thoughtOutside, endless, isUnread }: AskedBeside, price: Price): number {
  const within = Math.max(own, maximum, thought, isUnread ? wholeOutput(price) : 0);
  return Math.min(within + (endless && thoughtOutside > 0 ? endlessThought(price) : thoughtOutside), Number.MAX_SAFE_INTEGER);
}

/**
 * Without a maximum: thought is beside the answer that is assumed, and a word of effort counts where its provider says
 * how much it is.
 */
function thoughtUnsaid(params: Params, dialect: Dialect | undefined, beside: AskedBeside | undefined, price: Price): number {
  const effort = (dialect?.efforts ?? []).reduce((most, path) => Math.max(most, tokensOfEffort(valueAt(params, path, dialect))), 0);
  if (beside === undefined) return effort;
  const { maximum, thought, thoughtOutside, endless, isUnread } = beside;
  const word = dialect !== undefined && dialect.efforts.length > 0 ? Math.max(effort, beside.effort) : 0;
  const asked = Math.max(thought, thoughtOutside, word, endless ? endlessThought(price) : 0, isUnread ? wholeOutput(price) : 0);
  return Math.max(asked, maximum - assumedOutput(price));
}

function outputOf(dialect: Dialect | undefined, hasPrompt: boolean, price: Price, { maximum, answers, unsaid }: Stated): number {
  if (dialect?.usage?.tokensOut.how === 'constant') return dialect.usage.tokensOut.constant ?? 0;
  // A format that neither bounds nor reports output has none that is charged by tokens: moderation, re-ranking, video.
  if (dialect !== undefined && dialect.usage === undefined && dialect.maxTokens.length === 0) return 0;
  if (dialect === undefined && !hasPrompt && maximum === undefined) return 0;
  const assumed = assumedOutput(price) + unsaid;
  if (dialect?.maximaUncertain === true) return times(Math.max(maximum ?? 0, assumed), answers);
  return times(maximum ?? assumed, answers);
}

/** Output of a model of which nobody says how much it may be (decision 6.5). */
function assumedOutput({ maxOutputTokens }: Price): number {
  return maxOutputTokens === undefined ? UNKNOWN_OUTPUT : Math.min(maxOutputTokens, ASSUMED_OUTPUT_CAP);
}

function times(one: number, answers: number): number {
  return Math.min(one * answers, Number.MAX_SAFE_INTEGER);
}

/** Answers to all prompts together. */
function answersOf(params: Params, dialect: Dialect | undefined, beside: AskedBeside | undefined): number {
  const each = Math.max(1, largestOf(params, dialect, dialect?.answers ?? COMMON_COUNTS) ?? 1, beside?.answers ?? 1);
  return times(each, promptsOf(params, dialect));
}

/** A list of nothing but token numbers is one prompt, any other list one for each element. */
function promptsOf(params: Params, dialect: Dialect | undefined): number {
  const prompts = dialect?.prompts === undefined ? undefined : valueAt(params, dialect.prompts, dialect);
  return Array.isArray(prompts) && prompts.some((prompt) => typeof prompt !== 'number') ? prompts.length : 1;
}

/** The largest of the numbers that are given, since the provider may honour any of them. */
function largestOf(params: Params, dialect: Dialect | undefined, paths: readonly string[]): number | undefined {
  let largest: number | undefined;
  const isForm = dialect?.model[0]?.in === 'form';
  for (const path of paths) {
    const given = valueAt(params, path, dialect);
    const value = isForm ? ofForm(given) : given;
    if (value === undefined || value === null) continue;
    if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) {
      if (largest === undefined || value > largest) largest = value;
    } else if (dialect !== undefined) {
      // Of a call that nobody can read, a member of this name may mean anything.
      throw new GatewayError('invalid_request', `${path} must be a non-negative integer`, {
        details: [{ path: `action.params.${path}`, message: 'must be a non-negative integer' }],
      });
    }
  }
  return largest;
}

/** In a form every value is a text. */
function ofForm(value: unknown): unknown {
  return wholeNumber(value) ?? value;
}

function valueAt(params: Params, path: string, dialect: Dialect | undefined): unknown {
  const names = dialect?.names ?? 'exact';
  // Nearly every path is one name, in the one spelling that its format takes.
  if (names === 'exact' && !path.includes('.')) return Object.hasOwn(params, path) ? params[path] : undefined;
  return spelledValue(params, spelledPath(path, names));
}

/*
 * What a call may cost in all (decisions 6.2, 6.3, 6.16): that of the dearest model that may answer it, of those that
 * run inside of it, and of what is billed beside tokens.
 */
/** A call, and the prices of all that it names. */
export interface EstimatedCall {
  readonly params: Params;
  readonly dialect: Dialect | undefined;
  readonly overrides: EstimateOverrides | undefined;
  /** Of its own model. */
  readonly price: Price;
  readonly named: NamedModels | undefined;
  /** Of another one that it names. */
  readonly priceOf: (model: string) => Price;
  /** `GW_PRICING_CACHED`; without it nothing is charged but tokens. */
  readonly cachedRates: boolean;
}

/** Pico-dollars: by the call's own words, and what is set aside. */
interface Costs {
  readonly estimated: bigint;
  readonly reserved: bigint;
}

/** A model that may answer: its tokens, and what is billed beside them at its price. */
interface Answering extends Costs {
  readonly units: AskedCosts | undefined;
}

/**
 * Models that run inside of the call: those with a maximum of their own in all, those that share one each for itself.
 */
interface Inner extends Costs {
  readonly shared: readonly Costs[];
}

const NO_UNITS: AskedCosts = { alone: 0n, shared: [] };

/**
 * As {@link estimate}, of the whole call. Counts of tokens stay those of its own model; `costPico` and `reservePico`
 * are of everything: an alternative has its own rates and the maximum that stands with it, an inner model reads the
 * prompt of the call and says what the call lets it say, or what is assumed of it.
 * @throws GatewayError `invalid_request` as {@link estimate} does
 */
export function estimateCall(call: EstimatedCall): Estimate {
  const { params, dialect, overrides, price, named, cachedRates } = call;
  const own = estimate(params, dialect, overrides, price, cachedRates);
  const units = cachedRates ? askedUnits(params, dialect, price) : undefined;
  if (named === undefined && units === undefined) return own;
  const answering = [
    { estimated: own.costPico, reserved: own.reservePico, units },
    ...(named?.alternatives ?? []).map(alternativeOf(call)),
  ];
  const inner = innerCosts(call, own.reservedIn);
  const most = mostShared(call);
  const total = (kind: keyof Costs): bigint => {
    let dearest = 0n;
    for (const one of answering) {
      const { alone, shared } = one.units ?? NO_UNITS;
      const sum = one[kind] + alone + sharedCost([...shared, ...inner.shared.map((each) => each[kind])], most);
      if (sum > dearest) dearest = sum;
    }
    return dearest + inner[kind];
  };
  return { ...own, costPico: total('estimated'), reservePico: total('reserved') };
}

function alternativeOf({ params, dialect, overrides, cachedRates, priceOf }: EstimatedCall): (named: NamedModel) => Answering {
  return ({ model, said }) => {
    const price = priceOf(model);
    // What stands with a model holds for it in place of what the call says: its own maximum, its own prompt.
    const asked = said === undefined ? params : { ...params, ...said };
    const { costPico, reservePico } = estimate(asked, dialect, overrides, price, cachedRates);
    return { estimated: costPico, reserved: reservePico, units: cachedRates ? askedUnits(asked, dialect, price) : undefined };
  };
}

function innerCosts({ named, priceOf, cachedRates }: EstimatedCall, tokensIn: number): Inner {
  let estimated = 0n;
  let reserved = 0n;
  const shared: Costs[] = [];
  for (const one of named?.inner ?? []) {
    const { times, free } = one.place;
    if (free) continue;
    const once = costOnce(one, priceOf(one.model), tokensIn, cachedRates);
    if (times.shared === undefined) {
      const count = BigInt(statedCount(one.said, times) ?? 1);
      estimated += once.estimated * count;
      reserved += once.reserved * count;
    } else shared.push(once);
  }
  return { estimated, reserved, shared };
}

function costOnce({ place, said = {} }: NamedModel, price: Price, tokensIn: number, cachedRates: boolean): Costs {
  const { picture } = place;
  if (picture === undefined) {
    const out = mostOf(said, place.most) ?? place.assumed ?? assumedOutput(price);
    return { estimated: plainCost(tokensIn, out, price), reserved: dearestCost(tokensIn, out, price, cachedRates) };
  }
  const out = pictureTokens(said, picture);
  const { costPico } = meter({ tokens_in: tokensIn, tokens_out: out, image_tokens_out: out }, price, cachedRates);
  return { estimated: costPico, reserved: dearestCost(tokensIn, out, price, cachedRates) };
}

function mostOf(said: Params, paths: NamedModel['place']['most']): number | undefined {
  let most: number | undefined;
  for (const path of paths) {
    const value = spelledValue(said, path);
    if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value > (most ?? -1)) most = value;
  }
  return most;
}

function mostShared({ params, dialect, named }: EstimatedCall): number | undefined {
  const places = [...(named?.inner ?? []).map(({ place }) => place), ...(dialect?.places.units ?? [])];
  return sharedMost(
    params,
    places.map(({ times }) => times),
  );
}
