import type { Dialect, Price } from '../../base/catalogue/types.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { countTokens } from './count-tokens.ts';
import { dearestCost, plainCost } from './meter.ts';

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
const COUNTS: readonly string[] = ['n', 'best_of', 'generationConfig.candidateCount'];

type Params = Readonly<Record<string, unknown>>;

/**
 * What a call may cost at most: `(tokens_in × rate_in + tokens_out_max × rate_out) / 1,000,000` (specification, "Cost estimation"). Tokens of the prompt are
 * approximated (see `countTokens`); the output is the maximum that the call sets, else what decision 6.5 assumes, times the number of answers asked for. A
 * call without a dialect that holds neither prompt nor maximum costs nothing: it is no inference.
 * @param cachedRates `GW_PRICING_CACHED`
 * @throws GatewayError `invalid_request` for a maximum that is no non-negative integer (decision 6.2)
 */
export function estimate(
  params: Params,
  dialect: Dialect | undefined,
  overrides: EstimateOverrides | undefined,
  price: Price,
  cachedRates = false,
): Estimate {
  const prompt = promptOf(params, dialect);
  const ownIn = countTokens(prompt);
  const maximum = maximumOf(params, dialect);
  const statedOut = maximum === undefined ? undefined : timesAnswers(maximum, params);
  const ownOut = outputOf(params, dialect, prompt.length > 0, price, statedOut);
  const tokensIn = overrides?.tokens_in ?? ownIn;
  const tokensOutMax = overrides?.tokens_out_max ?? ownOut;
  const costPico = plainCost(tokensIn, tokensOutMax, price);
  const reservedIn = Math.max(tokensIn, ownIn);
  const reservedOut = Math.max(tokensOutMax, ownOut);
  const reservePico = dearestCost(reservedIn, reservedOut, price, cachedRates);
  return { tokensIn, tokensOutMax, costPico, reservePico, reservedIn, reservedOut, statedOut };
}

function promptOf(params: Params, dialect: Dialect | undefined): readonly unknown[] {
  const paths = dialect?.promptPaths ?? COMMON_PROMPTS;
  return paths.map((path) => valueAt(params, path)).filter((value) => value !== undefined);
}

function outputOf(params: Params, dialect: Dialect | undefined, hasPrompt: boolean, price: Price, stated: number | undefined): number {
  if (dialect?.usage?.tokensOut.how === 'constant') return dialect.usage.tokensOut.constant ?? 0;
  // A format that neither bounds nor reports output has none that is charged by tokens: moderation, re-ranking, video.
  if (dialect !== undefined && dialect.usage === undefined && dialect.maxTokens.length === 0) return 0;
  if (stated !== undefined) return stated;
  if (dialect === undefined && !hasPrompt) return 0;
  return timesAnswers(price.maxOutputTokens === undefined ? UNKNOWN_OUTPUT : Math.min(price.maxOutputTokens, ASSUMED_OUTPUT_CAP), params);
}

function timesAnswers(one: number, params: Params): number {
  return Math.min(one * answersOf(params), Number.MAX_SAFE_INTEGER);
}

function maximumOf(params: Params, dialect: Dialect | undefined): number | undefined {
  for (const path of dialect?.maxTokens ?? COMMON_MAXIMA) {
    const value = valueAt(params, path);
    if (value === undefined || value === null) continue;
    if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
    // Of a call that nobody can read, a member of this name may mean anything.
    if (dialect === undefined) continue;
    throw new GatewayError('invalid_request', `${path} must be a non-negative integer`, {
      details: [{ path: `action.params.${path}`, message: 'must be a non-negative integer' }],
    });
  }
  return undefined;
}

function answersOf(params: Params): number {
  let most = 1;
  for (const path of COUNTS) {
    const value = valueAt(params, path);
    if (typeof value === 'number' && Number.isSafeInteger(value) && value > most) most = value;
  }
  return most;
}

function valueAt(params: Params, path: string): unknown {
  if (!path.includes('.')) return Object.hasOwn(params, path) ? params[path] : undefined;
  let value: unknown = params;
  for (const name of path.split('.')) {
    if (!isRecord(value) || !Object.hasOwn(value, name)) return undefined;
    value = value[name];
  }
  return value;
}

function isRecord(value: unknown): value is Params {
  return typeof value === 'object' && value !== null;
}
