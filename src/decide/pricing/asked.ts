import type { CountPlace } from '../../base/catalogue/call-places.ts';
import { hasRoot, isMeant, isObject, type JsonMembers, statedCount, visitAt, wholeNumber } from '../../base/catalogue/holders.ts';
import { spelledValue, spellingsOf } from '../../base/catalogue/spelling.ts';
import type { Dialect, Price } from '../../base/catalogue/types.ts';
import { unitsPico } from '../../base/lib/money.ts';

type Params = Readonly<Record<string, unknown>>;

/** What may be done in a call that is not told apart by tokens, pico-dollars. */
export interface AskedCosts {
  /** With a maximum of their own, or none: all of it. */
  readonly alone: bigint;
  /** With one maximum for all together: what each costs once. */
  readonly shared: readonly bigint[];
}

/**
 * Terms of billing that a call asks for, each as `name=value` (decision 6.3): those that its price knows, undefined
 * where there are none. Whether the provider keeps to them its answer says.
 */
export function askedTerms(params: Params, dialect: Dialect | undefined, { terms: known }: Price): readonly string[] | undefined {
  if (known === undefined || dialect === undefined) return undefined;
  const asked: string[] = [];
  for (const { term, at, same } of dialect.places.terms) {
    const value = spelledValue(params, at);
    if (typeof value !== 'string') continue;
    const stated = `${term}=${Object.hasOwn(same, value) ? (same[value] ?? value) : value}`;
    if (known.some((one) => one.term === stated)) asked.push(stated);
  }
  return asked.length === 0 ? undefined : asked;
}

/**
 * What a call may cost beside tokens (decision 6.16): so many units as it says that it may use, one where it does not
 * say how many. A price per request is that of every call. Undefined for nothing.
 */
export function askedUnits(params: Params, dialect: Dialect | undefined, { units: rates }: Price): AskedCosts | undefined {
  if (rates === undefined) return undefined;
  let alone = rates.requests === undefined ? 0n : unitsPico(1, rates.requests);
  let shared: bigint[] | undefined;
  for (const { unit, at, only, times } of dialect?.places.units ?? []) {
    const rate = rates[unit];
    if (rate === undefined || !hasRoot(params, at)) continue;
    visitAt(params, at, (holder) => {
      if (holder === null || holder === undefined || holder === false || !isMeant(holder, only)) return;
      const count = statedCount(holder, times) ?? 1;
      const cost = count === 0 ? 0n : unitsPico(count, rate);
      if (times.shared === undefined) alone += cost;
      else {
        shared ??= [];
        shared.push(cost);
      }
    });
  }
  return alone === 0n && shared === undefined ? undefined : { alone, shared: shared ?? [] };
}

/**
 * What things cost together that share one maximum: each once where the call states none, else as often as that and
 * each time the dearest.
 */
export function sharedCost(costs: readonly bigint[], most: number | undefined): bigint {
  let sum = 0n;
  let dearest = 0n;
  for (const cost of costs) {
    sum += cost;
    if (cost > dearest) dearest = cost;
  }
  return most === undefined ? sum : dearest * BigInt(most);
}

/** The maximum that a body states for all places that share it; undefined: none. */
export function sharedMost(params: Params, places: readonly CountPlace[]): number | undefined {
  for (const { shared } of places) if (shared !== undefined) return wholeNumber(spelledValue(params, shared));
  return undefined;
}

/*
 * What calls ask for beside the maximum of their format: tokens for thought, which each provider calls otherwise, and
 * members of formats in a container that one vendor hands on to another (`extra_body`). An estimate that overlooked
 * them would let a call under a cap that it does not fit under (decision 6.5).
 */
/** What a call asks for beside the members of its own format. */
export interface AskedBeside {
  /** Tokens for thought, the largest number that is given. */
  readonly thought: number;
  /** Tokens for thought by a name of formats whose maximum does not hold them. */
  readonly thoughtOutside: number;
  /** Thought that has no end but that of the model. */
  readonly endless: boolean;
  /** Something is too deep or too large to look through, and may ask for anything. */
  readonly isUnread: boolean;
  /** A maximum of output, and how many answers are made, in a container that is handed on. */
  readonly maximum: number;
  readonly answers: number;
  /** Tokens that a word of effort in such a container stands for, where the provider says how much it is. */
  readonly effort: number;
}

type Kind = 'answers' | 'maximum' | 'outside' | 'thought';
/**
 * `handed`: its members count as those of a body; `thought`: it is about thought alone; `settings`: of it only what is
 * about thought counts, since the rest has its place in the format.
 */
type Container = 'handed' | 'settings' | 'thought';

/** Snake case; each is taken in camel case and without a separator too. */
const NAMES: Readonly<Record<Kind, readonly string[]>> = {
  // In formats like OpenAI's (Qwen, SiliconFlow); Gemini's own member of this name stands in a container that is about
  // thought.
  outside: ['thinking_budget', 'reasoning_budget', 'thinking_token_budget', 'max_thinking_tokens', 'max_reasoning_tokens'],
  thought: ['budget_tokens', 'token_budget', 'thinking_budget_tokens', 'reasoning_tokens', 'max_thought_tokens'],
  maximum: [
    'max_tokens',
    'max_output_tokens',
    'max_completion_tokens',
    'max_new_tokens',
    'max_tokens_to_sample',
    'max_gen_len',
    'max_token_count',
    'max_length',
    'num_predict',
  ],
  answers: ['n', 'best_of', 'candidate_count', 'num_generations', 'num_return_sequences'],
};
const CONTAINERS: Readonly<Record<Container, readonly string[]>> = {
  handed: [
    'extra_body',
    'extra_params',
    'extra_parameters',
    'extra_args',
    'provider_options',
    'provider_params',
    'model_kwargs',
    'litellm_params',
    'additional_model_request_fields',
    'chat_template_kwargs',
    'vendor_params',
    // What clients make of `extra_body={"google": …}`: they lay it over the body.
    'google',
  ],
  thought: ['thinking', 'thinking_config', 'reasoning', 'reasoning_config'],
  settings: ['generation_config', 'inference_config', 'parameters', 'config', 'options', 'completion_args', 'request', 'input'],
};
/** Containers of settings that hold a prompt too: only a member of these is looked into. */
const WITH_PROMPT: ReadonlySet<string> = new Set(['request', 'input', 'config']);

/**
 * Of data: schemas of answers, which nest deeply and name their properties as they like, tools, and tables of tokens.
 * Nothing in them is asked for.
 */
const DATA_NAMES: readonly string[] = [
  'response_schema',
  'response_json_schema',
  'response_format',
  'json_schema',
  'schema',
  'guided_json',
  'structured_outputs',
  'tools',
  'functions',
  'logit_bias',
  'metadata',
  'labels',
];

/** Where a word of effort stands. */
const EFFORT_NAMES: readonly string[] = ['effort', 'reasoning_effort', 'thinking_level', 'thinking_effort'];

const KINDS = spelled(NAMES);
const DATA: ReadonlySet<string> = new Set(spelled({ data: DATA_NAMES }).keys());
const WORDS: ReadonlySet<string> = new Set(spelled({ effort: EFFORT_NAMES }).keys());
const PLACES = spelled(CONTAINERS);
/** Levels and members that are looked at; whoever nests deeper asks for all that the model has. */
const MAX_DEPTH = 8;
const MAX_MEMBERS = 2_000;
/** As ProtoJSON takes a number that stands in a text: also with a fraction of nothing, or an exponent. */
const NUMBER = /^[+-]?\d{1,15}(?:\.\d{0,9})?(?:[eE][+-]?\d{1,2})?$/;

function spelled<K extends string>(table: Readonly<Record<K, readonly string[]>>): ReadonlyMap<string, K> {
  const kinds = Object.keys(table) as K[];
  return new Map(
    kinds.flatMap((kind) =>
      table[kind].flatMap((name) =>
        [...spellingsOf(name, 'proto'), name.replaceAll('_', ''), name.replaceAll('_', '-')].map((one) => [one, kind] as const),
      ),
    ),
  );
}

/**
 * What a body asks for beside the members of its format; undefined for nothing, which is what most calls ask for and
 * costs one look-up for each member.
 */
export function askedBeside(params: JsonMembers): AskedBeside | undefined {
  let finder: Finder | undefined;
  for (const name in params) {
    const place = PLACES.get(name);
    const kind = KINDS.get(name);
    if (place === undefined && kind !== 'outside' && kind !== 'thought') continue;
    finder ??= new Finder();
    const value = params[name];
    if (place === undefined) finder.take(kind, value);
    else if (WITH_PROMPT.has(name)) finder.takeSettings(value);
    else finder.walk(value, place, 1);
  }
  return finder?.found();
}

class Finder {
  readonly #most: Record<Kind, number> = { answers: 0, maximum: 0, outside: 0, thought: 0 };
  #endless = false;
  #isUnread = false;
  #effort = 0;
  #members = 0;

  found(): AskedBeside | undefined {
    const { answers, maximum, outside, thought } = this.#most;
    if (answers + maximum + outside + thought + this.#effort === 0 && !this.#endless && !this.#isUnread) return undefined;
    return { answers, maximum, thought, thoughtOutside: outside, endless: this.#endless, isUnread: this.#isUnread, effort: this.#effort };
  }

  take(kind: Kind | undefined, value: unknown): void {
    if (kind === undefined) return;
    const number = typeof value === 'string' && NUMBER.test(value.trim()) ? Number(value) : value;
    if (typeof number !== 'number' || !Number.isFinite(number)) return;
    // A negative number leaves it to the model.
    if (number < 0) this.#endless ||= kind === 'thought' || kind === 'outside';
    else this.#most[kind] = Math.min(Math.max(this.#most[kind], Math.ceil(number)), Number.MAX_SAFE_INTEGER);
  }

  /** What is about thought beside a prompt, and in the settings that stand there. */
  takeSettings(value: unknown): void {
    if (!isObject(value)) return;
    for (const name in value) {
      const place = PLACES.get(name);
      const kind = KINDS.get(name);
      if (place !== undefined && !WITH_PROMPT.has(name)) this.walk(value[name], place, 2);
      else if (kind === 'outside' || kind === 'thought') this.take(kind, value[name]);
    }
  }

  walk(value: unknown, container: Container, depth: number): void {
    if (typeof value !== 'object' || value === null) return;
    if (depth > MAX_DEPTH) {
      this.#isUnread = true;
      return;
    }
    for (const [name, member] of Object.entries(value)) {
      if (++this.#members > MAX_MEMBERS) {
        this.#isUnread = true;
        return;
      }
      if (typeof member === 'object') {
        if (!DATA.has(name)) this.walk(member, innerOf(container, name), depth + 1);
      } else if (typeof member === 'string' && WORDS.has(name)) this.#effort = Math.max(this.#effort, tokensOfEffort(member));
      else this.take(kindIn(container, KINDS.get(name)), member);
    }
  }
}

function innerOf(container: Container, name: string): Container {
  return PLACES.get(name) === 'thought' ? 'thought' : container;
}

function kindIn(container: Container, kind: Kind | undefined): Kind | undefined {
  if (container === 'handed' || kind === undefined) return kind;
  if (container === 'thought') return kind === 'answers' ? undefined : 'thought';
  return kind === 'outside' || kind === 'thought' ? kind : undefined;
}

/** Tokens for thought that a word of effort stands for, as Gemini says it of its OpenAI-like door. */
const EFFORTS: Readonly<Record<string, number>> = { minimal: 512, low: 1_024, medium: 8_192, high: 24_576, xhigh: 32_768, max: 32_768 };

/** Tokens that a word of effort asks for; 0 for every other value. */
export function tokensOfEffort(word: unknown): number {
  return typeof word === 'string' && Object.hasOwn(EFFORTS, word.toLowerCase()) ? (EFFORTS[word.toLowerCase()] ?? 0) : 0;
}
