/*
 * The published JSON of the price list, checked before anything is believed (decision 6.16): the full form of today,
 * the older one without `type` in constraints, and the form in which it is shipped, which leaves out what prices do not
 * need. What else a list says is dropped.
 */
import type { ErrorDetail } from '../../lib/gateway-error.ts';
import { messageOf } from '../../lib/gateway-error.ts';
import { regexSteps } from '../../lib/regex-steps.ts';
import { POLICY_BOUNDS } from '../../model/work-bounds.ts';
import { isDay } from './iso-dates.ts';
import { type Complain, isJsonMap, type JsonMap, JsonShape } from './json-shape.ts';
import { isKnownKey } from './list-keys.ts';
import { checkListRegex } from './list-regex.ts';
import type { ConditionalPrices, KeyedPrices, ListModel, ListProvider, MatchRule, PriceConstraint, TieredPrice } from './list-shape.ts';
import { secondsOfDay } from './time-of-day.ts';

export const LIST_SCHEMA = 'gw.price_list.v1';

/** The published list has half a megabyte, 43 providers and 1,700 models. */
const MOST_BYTES = 16 * 1024 * 1024;
const MOST_PROVIDERS = 1_000;
const MOST_MODELS = 20_000;
const MOST_RULES = 1_000;
const DEEPEST_RULE = 8;
const MOST_PERIODS = 64;
const MOST_TIERS = 16;
const MOST_KEYS = 100;
const LONGEST_NAME = 256;
const LONGEST_PATTERN = 512;
const HIGHEST_PRICE = 1_000_000_000;
/** Amounts are exact to a pico-dollar. */
const LOWEST_PRICE = 1e-12;
const MOST_DETAILS = 50;

/** What a list says of itself; the published forms say nothing. */
export interface ListHead {
  readonly version: string | undefined;
  /** Day of the version, `2026-09-23`. */
  readonly date: string | undefined;
}

export interface ReadList extends ListHead {
  readonly providers: readonly ListProvider[];
  /** What is wrong with it, with provider and model; a list with any of these must not be used. */
  readonly problems: readonly ErrorDetail[];
  /** What it says and this version of the program does not understand; the rest of it holds. */
  readonly warnings: readonly string[];
}

export interface ReadListOptions {
  /** For messages. */
  readonly file: string;
  /**
   * False leaves the regular expressions until they are needed: for the list that is shipped, of which a test compiles
   * every one.
   */
  readonly regexes: boolean;
  /** True: the list was made of two (`withHeld`), and a model may stand beside itself for a name that was kept. */
  readonly kept?: boolean;
}

/** Reads a list and says everything that is wrong with it. Does not throw. */
export function readPriceList(text: string, { file, regexes, kept = false }: ReadListOptions): ReadList {
  const problems: ErrorDetail[] = [];
  const complain: Complain = (path, message) => {
    if (problems.length < MOST_DETAILS) problems.push({ path, message, file });
  };
  const reader = new ListReader(complain, { regexes, kept });
  const root = parsed(text, complain);
  const whole = isJsonMap(root) ? root : { providers: root };
  if (isJsonMap(root) && !isWrapped(root)) complain('schema', `must be ${LIST_SCHEMA}`);
  const providers = root === undefined ? [] : reader.providers(whole['providers']);
  const { version, date } = whole;
  return {
    version: typeof version === 'string' ? version : undefined,
    date: typeof date === 'string' && isDate(date) ? date : undefined,
    providers,
    problems,
    warnings: reader.warnings(),
  };
}

/** Ours, or the newest form of the package, in which the providers stand beside the units. */
function isWrapped({ schema, units }: JsonMap): boolean {
  return schema === LIST_SCHEMA || (schema === undefined && isJsonMap(units));
}

function parsed(text: string, complain: Complain): unknown {
  if (text.length > MOST_BYTES) {
    complain('', `the list has more than ${MOST_BYTES} bytes`);
    return undefined;
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    complain('', `is no JSON: ${messageOf(error)}`);
    return undefined;
  }
}

class ListReader {
  readonly #shape: JsonShape;
  readonly #regexes: boolean;
  readonly #kept: boolean;
  /** Price keys that nobody knows, with the first model that has them. */
  readonly #unknown = new Map<string, string>();
  #models = 0;
  #patterns = 0;

  constructor(complain: Complain, { regexes, kept }: Required<Pick<ReadListOptions, 'regexes' | 'kept'>>) {
    this.#shape = new JsonShape(complain);
    this.#regexes = regexes;
    this.#kept = kept;
  }

  warnings(): readonly string[] {
    return Array.from(this.#unknown, ([key, place]) => `the price key ${key} is not understood, first at ${place}`);
  }

  providers(value: unknown): readonly ListProvider[] {
    const ids = new Set<string>();
    const providers = this.#shape
      .list(value, 'providers', MOST_PROVIDERS)
      .flatMap((one, i) => this.#provider(one, `providers[${i}]`) ?? []);
    for (const { id } of providers) {
      if (ids.has(id)) this.#shape.complain(id, 'stands twice');
      ids.add(id);
    }
    if (!this.#kept) for (const { id, models } of providers) this.#once(id, models);
    return providers;
  }

  #provider(value: unknown, place: string): ListProvider | undefined {
    const map = this.#shape.map(value, place);
    if (map === undefined) return undefined;
    const id = this.#shape.text(map['id'], `${place}.id`, LONGEST_NAME);
    const fallbacks = this.#shape.texts(map['fallback_model_providers'], `${id}.fallback_model_providers`, MOST_PROVIDERS, LONGEST_NAME);
    const pattern = this.#shape.text(map['api_pattern'], `${id}.api_pattern`, LONGEST_PATTERN);
    if (this.#regexes && pattern !== '') this.#regex(`^(?:${pattern})`, `${id}.api_pattern`);
    return {
      id,
      name: this.#shape.text(map['name'], `${id}.name`, LONGEST_NAME),
      api_pattern: pattern,
      ...this.#rules(map, id, 'model_match'),
      ...this.#rules(map, id, 'provider_match'),
      ...(fallbacks === undefined ? {} : { fallback_model_providers: fallbacks }),
      models: this.#shape.list(map['models'], `${id}.models`, MOST_MODELS).flatMap((one, i) => this.#model(one, id, i) ?? []),
    };
  }

  #once(provider: string, models: readonly ListModel[]): void {
    const ids = new Set<string>();
    for (const { id } of models) {
      if (ids.has(id)) this.#shape.complain(`${provider} ${id}`, 'stands twice');
      ids.add(id);
    }
  }

  #rules<M extends 'model_match' | 'provider_match'>(map: JsonMap, id: string, member: M): Partial<Record<M, MatchRule>> | undefined {
    return map[member] === undefined ? undefined : ({ [member]: this.#rule(map[member], `${id}.${member}`, 1) } as Record<M, MatchRule>);
  }

  #model(value: unknown, provider: string, index: number): ListModel | undefined {
    if (++this.#models > MOST_MODELS) {
      if (this.#models === MOST_MODELS + 1) this.#shape.complain(provider, `the list has more than ${MOST_MODELS} models`);
      return undefined;
    }
    const map = this.#shape.map(value, `${provider}.models[${index}]`);
    if (map === undefined) return undefined;
    const id = this.#shape.text(map['id'], `${provider}.models[${index}].id`, LONGEST_NAME);
    const place = `${provider} ${id}`;
    return { id, match: this.#rule(map['match'], `${place} match`, 1), prices: this.#prices(map['prices'], `${place} prices`) };
  }

  #rule(value: unknown, path: string, depth: number): MatchRule {
    const nothing: MatchRule = { or: [] };
    const map = this.#shape.map(value, path);
    const [[kind, content] = ['', undefined], ...more] = Object.entries(map ?? {});
    if (map === undefined) return nothing;
    if (depth > DEEPEST_RULE || more.length > 0) {
      this.#shape.complain(path, depth > DEEPEST_RULE ? `is deeper than ${DEEPEST_RULE} rules` : 'must be one rule');
      return nothing;
    }
    switch (kind) {
      case 'or':
      case 'and': {
        const rules = this.#shape.list(content, `${path} ${kind}`, MOST_RULES).map((one) => this.#rule(one, path, depth + 1));
        if (rules.length === 0) this.#shape.complain(path, `has an empty ${kind}`);
        return kind === 'or' ? { or: rules } : { and: rules };
      }
      case 'equals':
        return { equals: this.#word(content, path) };
      case 'starts_with':
        return { starts_with: this.#word(content, path) };
      case 'ends_with':
        return { ends_with: this.#word(content, path) };
      case 'contains':
        return { contains: this.#word(content, path) };
      case 'regex': {
        const regex = this.#shape.text(content, path, LONGEST_PATTERN);
        if (this.#regexes && regex !== '') this.#regex(regex, path);
        return { regex };
      }
      default:
        this.#shape.complain(path, `"${kind.slice(0, LONGEST_NAME)}" is no rule of matching that is known`);
        return nothing;
    }
  }

  #word(value: unknown, path: string): string {
    return this.#shape.text(value, path, LONGEST_NAME);
  }

  #regex(pattern: string, path: string): void {
    const before = this.#patterns;
    this.#patterns += regexSteps(pattern);
    if (this.#patterns > POLICY_BOUNDS.listPatterns.one) {
      if (before <= POLICY_BOUNDS.listPatterns.one)
        this.#shape.complain(
          path,
          `with this regular expression those of the list have more than ${POLICY_BOUNDS.listPatterns.one} steps together`,
        );
      return;
    }
    try {
      checkListRegex(pattern);
    } catch (error) {
      this.#shape.complain(path, `the regular expression ${JSON.stringify(pattern)} cannot be taken over: ${messageOf(error)}`);
    }
  }

  #prices(value: unknown, path: string): ListModel['prices'] {
    if (!Array.isArray(value)) return this.#keyed(value, path);
    const periods = this.#shape.list(value, path, MOST_PERIODS).flatMap((one, i) => this.#conditional(one, `${path}[${i}]`) ?? []);
    if (periods.length === 0) this.#shape.complain(path, 'must hold at least one price');
    return periods;
  }

  #conditional(value: unknown, path: string): ConditionalPrices | undefined {
    const map = this.#shape.map(value, path);
    if (map === undefined) return undefined;
    const prices = this.#keyed(map['prices'], path);
    if (map['constraint'] === undefined) return { prices };
    const constraint = constraintOf(map['constraint']);
    if (constraint === undefined) this.#shape.complain(path, 'the constraint must be a start_date, or a start_time and an end_time');
    return constraint === undefined ? undefined : { constraint, prices };
  }

  #keyed(value: unknown, path: string): KeyedPrices {
    const entries = Object.entries(this.#shape.map(value, path) ?? {});
    if (entries.length > MOST_KEYS) this.#shape.complain(path, `has more than ${MOST_KEYS} keys`);
    const keyed: Record<string, number | TieredPrice> = {};
    for (const [key, price] of entries.slice(0, MOST_KEYS)) {
      if (!isKnownKey(key)) {
        if (this.#unknown.size < MOST_DETAILS && !this.#unknown.has(key)) this.#unknown.set(key.slice(0, LONGEST_NAME), path);
        continue;
      }
      const read = this.#price(price, `${path} ${key}`);
      if (read !== undefined) keyed[key] = read;
    }
    return keyed;
  }

  #price(value: unknown, path: string): number | TieredPrice | undefined {
    if (!isJsonMap(value)) return this.#amount(value, path);
    const base = this.#amount(value['base'], `${path} base`);
    const tiers = this.#shape.list(value['tiers'], `${path} tiers`, MOST_TIERS).flatMap((one) => this.#tier(one, path) ?? []);
    return base === undefined ? undefined : { base, tiers };
  }

  #tier(value: unknown, path: string): TieredPrice['tiers'][number] | undefined {
    const { start, price } = this.#shape.map(value, path) ?? {};
    const amount = this.#amount(price, path);
    if (typeof start === 'number' && Number.isSafeInteger(start) && start >= 0)
      return amount === undefined ? undefined : { start, price: amount };
    this.#shape.complain(path, 'a tier begins at a whole number of tokens');
    return undefined;
  }

  #amount(value: unknown, path: string): number | undefined {
    if (value === 0 || (typeof value === 'number' && value >= LOWEST_PRICE && value <= HIGHEST_PRICE)) return value;
    this.#shape.complain(path, `must be an amount from 0 to ${HIGHEST_PRICE}, with at most twelve decimals, or one with tiers`);
    return undefined;
  }
}

/** The older form has no `type`. */
function constraintOf(value: unknown): PriceConstraint | undefined {
  if (!isJsonMap(value)) return undefined;
  const { type, start_date: startDate, start_time: startTime, end_time: endTime, ...others } = value;
  if (Object.keys(others).length > 0) return undefined;
  if (isDate(startDate) && startTime === undefined && endTime === undefined && (type ?? 'start_date') === 'start_date')
    return { type: 'start_date', start_date: startDate };
  if (isTime(startTime) && isTime(endTime) && startDate === undefined && (type ?? 'time_of_date') === 'time_of_date')
    return { type: 'time_of_date', start_time: startTime, end_time: endTime };
  return undefined;
}

function isDate(value: unknown): value is string {
  const [, year, month, day] = (typeof value === 'string' ? /^(\d{4})-(\d{2})-(\d{2})$/.exec(value) : null) ?? [];
  return year !== undefined && isDay(Number(year), Number(month), Number(day));
}

function isTime(value: unknown): value is string {
  return typeof value === 'string' && secondsOfDay(value) !== undefined;
}
