import { wholeNumber } from '../../base/catalogue/holders.ts';
import { spelledPath, spelledValue } from '../../base/catalogue/spelling.ts';
import type { Dialect, Price } from '../../base/catalogue/types.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { askedTerms } from './asked.ts';
import { type AskedBeside, askedBeside, tokensOfEffort } from './asked-beside.ts';
import { dearestCost, meter, plainCost } from './cost.ts';
import { countTokens } from './count-tokens.ts';
import { pictureTokens } from './picture-tokens.ts';

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
   * What is set aside before the call (decision 6.2): of input and of output the larger of override and own estimate, so that a caller who states one of them too low
   * takes nothing from the other, and every input token as if it were written to a cache when that is dearer and priced apart.
   */
  readonly reservePico: bigint;
  /** Input and output of that reservation. */
  readonly reservedIn: number;
  readonly reservedOut: number;
  /** The maximum of output that the call itself sets, for all answers together; undefined: none. */
  readonly statedOut: number | undefined;
}

/** Output of a model whose maximum is unknown, and the most that is assumed of one whose maximum is known (decision 6.5). */
const UNKNOWN_OUTPUT = 1_024;
const ASSUMED_OUTPUT_CAP = 4_096;

/** For calls whose wire format is unknown: the members that the known ones use. */
const COMMON_PROMPTS: readonly string[] = ['system', 'messages', 'prompt', 'input', 'contents', 'tools'];
const COMMON_MAXIMA: readonly string[] = ['max_completion_tokens', 'max_output_tokens', 'max_tokens'];
/** How many answers one call asks for. */
const COMMON_COUNTS: readonly string[] = ['n', 'best_of', 'generationConfig.candidateCount', 'num_generations'];

type Params = Readonly<Record<string, unknown>>;

/**
 * What the answer of a call's own model may cost at most: `(tokens_in × rate_in + tokens_out_max × rate_out) / 1,000,000` (specification, "Cost estimation"). Tokens of the prompt are
 * approximated (see `countTokens`); the output is the largest maximum that the call sets in any spelling that the dialect takes, else what decision 6.5 assumes,
 * times the answers asked for, times the prompts, and what the call predicts of it; the rates are those of the terms that it asks for. A call without a dialect that holds neither prompt nor maximum costs nothing: it is no inference.
 * @param cachedRates `GW_PRICING_CACHED`
 * @throws GatewayError `invalid_request` for a maximum, or a number of answers, that is no non-negative integer (decision 6.2)
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

/** The maximum that a call sets, with what it asks for beside it: thought that has a number counts, whichever of the two the provider honours. */
function withThought(own: number, { maximum, thought, thoughtOutside, endless, isUnread }: AskedBeside, price: Price): number {
  const within = Math.max(own, maximum, thought, isUnread ? wholeOutput(price) : 0);
  return Math.min(within + (endless && thoughtOutside > 0 ? endlessThought(price) : thoughtOutside), Number.MAX_SAFE_INTEGER);
}

/** Without a maximum: thought is beside the answer that is assumed, and a word of effort counts where its provider says how much it is. */
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
export function assumedOutput({ maxOutputTokens }: Price): number {
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
    // In a form every value is a text.
    const value = isForm ? (wholeNumber(given) ?? given) : given;
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

function valueAt(params: Params, path: string, dialect: Dialect | undefined): unknown {
  const names = dialect?.names ?? 'exact';
  // Nearly every path is one name, in the one spelling that its format takes.
  if (names === 'exact' && !path.includes('.')) return Object.hasOwn(params, path) ? params[path] : undefined;
  return spelledValue(params, spelledPath(path, names));
}
