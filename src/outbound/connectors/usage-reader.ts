/*
 * How the gateway speaks each provider's language, by the catalogue's dialects and never by a provider's name: token
 * counts out of answers and streams, credentials into requests, the structured API's form of a call, the error body
 * that an SDK shows. Nothing here opens a connection, decides about a request or changes a byte that passes. Bytes are
 * looked at as Latin-1 text: offsets stay byte offsets, UTF-8 may be cut anywhere, and the members that count (names,
 * numbers) are ASCII.
 */
import type { BesideRule, CountRule, Dialect, PassRule, UsageRule } from '../../base/catalogue/types.ts';
import type { PartTokens, Pass, TokenCounts, Unit, Usage } from '../../base/model/usage.ts';
import {
  compilePath,
  compileValuePath,
  EACH,
  eachValueAt,
  type Path,
  type PathTree,
  pathTree,
  type ValuePath,
  valueAt,
} from './answer-paths.ts';
import type { AnswerPlace, FoundValues, Numbers, PlaceTable, Taken } from './usage-tally.ts';
import { allOf, meant, mostOf, UsageTally } from './usage-tally.ts';

interface CompiledCount {
  readonly how: CountRule['how'];
  /** Indexes of places. */
  readonly at: readonly number[];
  readonly constant: number;
}

interface CompiledPass extends Omit<PassRule, 'path' | 'model' | 'usage' | 'counts'> {
  readonly at: number;
  readonly model: Path;
  readonly usage: Path;
  readonly counts: UsageReader | undefined;
}

interface CompiledUnit {
  readonly unit: Unit;
  readonly at: readonly number[];
  readonly given: readonly number[];
}

/**
 * A dialect's rule for what an answer used, compiled. Only what stands at known places is taken, whatever else the
 * answer holds.
 */
export class UsageReader implements PlaceTable {
  /** Of usage objects in the answer, the first as names alone. */
  readonly roots: readonly ValuePath[];
  readonly firstRoot: Path;
  readonly places: readonly AnswerPlace[];
  readonly inUsage: number;
  readonly usageTree: PathTree;
  readonly answerTree: PathTree;
  readonly #in: CompiledCount;
  readonly #out: CompiledCount;
  readonly #total: CompiledCount | undefined;
  readonly #inBeside: CompiledCount | undefined;
  readonly #inUntold: boolean;
  readonly #outBeside: CompiledCount | undefined;
  readonly #reasoningBeside: CompiledCount | undefined;
  readonly #reasoningUntold: boolean;
  readonly #restIn: CompiledCount | undefined;
  readonly #parts: readonly { readonly tokens: PartTokens; readonly count: CompiledCount }[];
  readonly #units: readonly CompiledUnit[];
  readonly #terms: readonly { readonly name: string; readonly at: readonly number[] }[];
  readonly #passes: readonly CompiledPass[];

  constructor(rule: UsageRule) {
    this.roots = rule.roots.map(compileValuePath);
    this.firstRoot = compilePath(rule.roots[0] ?? '');
    const places = new Map<string, { readonly at: number; readonly place: AnswerPlace }>();
    const place = (scope: string, takes: Taken, text: string): number => {
      const key = `${scope}\n${takes}\n${text}`;
      const path = compileValuePath(text);
      const isSeveral = path.steps.some((step) => step === EACH || typeof step !== 'string');
      const known = places.get(key) ?? { at: places.size, place: { path, takes, isSeveral } };
      places.set(key, known);
      return known.at;
    };
    const compiled = ({ how, paths, constant }: CountRule): CompiledCount => ({
      how,
      at: paths.map((path) => place('usage', 'tokens', path)),
      constant: constant ?? 0,
    });
    // Undefined where there is nothing to be counted, so that nothing is called for it.
    const all = (paths: readonly string[], how: CountRule['how'] = 'sum'): CompiledCount | undefined =>
      paths.length === 0 ? undefined : compiled({ how, paths });
    const beside = (scope: string, { units, terms, passes }: BesideRule) => ({
      units: units.map(({ unit, paths, given }) => ({ unit, at: paths.map((path) => place(scope, 'units', path)), given })),
      terms: terms.map(({ name, paths }) => ({ name, at: paths.map((path) => place(scope, 'text', path)) })),
      passes: passes.map(
        ({ path, model, usage, inside, tool, counts }): CompiledPass => ({
          at: place(scope, 'entries', path),
          model: compilePath(model),
          usage: compilePath(usage),
          inside,
          tool,
          counts: counts && usageReader(counts),
        }),
      ),
    });
    this.#in = compiled(rule.tokensIn);
    this.#out = compiled(rule.tokensOut);
    this.#total = all(rule.total, 'first');
    this.#inBeside = all(rule.inBeside);
    this.#inUntold = rule.inUntold;
    this.#outBeside = all(rule.outBeside);
    this.#reasoningBeside = all(rule.reasoningBeside);
    this.#reasoningUntold = rule.reasoningUntold;
    this.#restIn = all(rule.restIn);
    this.#parts = rule.parts.map(({ tokens, count }) => ({ tokens, count: compiled(count) }));
    const own = beside('usage', rule.own);
    this.inUsage = places.size;
    const around = beside('answer', rule.answer);
    const units = [...own.units, ...around.units].map((unit) => ({
      ...unit,
      given: unit.given.map((path) => place('answer', 'presence', path)),
    }));
    this.#units = units;
    this.places = [...places.values()].map(({ place: one }) => one);
    const numbered = this.places.map(({ path }, at) => [at, path] as const);
    this.usageTree = pathTree(numbered.slice(0, this.inUsage));
    this.answerTree = pathTree(numbered.slice(this.inUsage));
    this.#terms = [...own.terms, ...around.terms];
    this.#passes = [...own.passes, ...around.passes];
  }

  /** @returns undefined when the object holds nothing that is charged: absent is not zero (decision 7.5) */
  read(usage: unknown): Usage | undefined {
    const tally = new UsageTally(this);
    tally.addUsage(usage);
    return tally.usage;
  }

  /** The same of a whole answer. */
  readAnswer(answer: unknown): Usage | undefined {
    const tally = new UsageTally(this);
    for (const [at, root] of this.roots.entries()) eachValueAt(answer, root, (usage) => tally.addUsage(usage, at));
    tally.addAnswer(answer);
    return tally.usage;
  }

  /** What places say that were looked at; see {@link UsageTally}. */
  usageOf({ usages, numbers, texts, entries, hasUnits }: FoundValues): Usage | undefined {
    const counts = this.#mostTokens(usages);
    const units = hasUnits ? this.#unitCounts(usages, numbers) : undefined;
    const beside = entries.length === 0 ? NO_PASSES : this.#listedPasses(entries);
    if (counts === undefined && units === undefined && beside.length === 0) return undefined;
    const usage: Usage = beside.length === 0 ? (counts ?? { tokens_in: 0, tokens_out: 0 }) : allOf(counts, beside);
    if (units !== undefined) usage.units = units;
    const terms = texts.length === 0 ? NO_TERMS : this.#termTexts(texts);
    if (terms.length > 0) usage.terms = terms;
    return usage;
  }

  /** Of several usage objects the largest of each count holds. */
  #mostTokens(usages: FoundValues['usages']): TokenCounts | undefined {
    let most: TokenCounts | undefined;
    for (let at = 0; at < usages.length; at++) {
      const numbers = usages[at];
      const counts = numbers && this.#tokens(numbers);
      if (counts !== undefined) most = most === undefined ? counts : mostOf(most, counts);
    }
    return most;
  }

  #tokens(numbers: Numbers): TokenCounts | undefined {
    const tokensIn = count(this.#in, numbers);
    const tokensOut = count(this.#out, numbers);
    const total = this.#total && count(this.#total, numbers);
    const fixedOut = this.#out.how === 'constant';
    if (tokensIn === undefined && total === undefined && (tokensOut === undefined || fixedOut)) return undefined;
    const counts: TokenCounts = { tokens_in: tokensIn ?? 0, tokens_out: tokensOut ?? 0 };
    this.#addParts(counts, numbers);
    return meant(counts, {
      fixedOut,
      hasIn: tokensIn !== undefined,
      hasOut: tokensOut !== undefined,
      total,
      inBeside: (this.#inBeside && count(this.#inBeside, numbers)) ?? 0,
      inUntold: this.#inUntold,
      outBeside: (this.#outBeside && count(this.#outBeside, numbers)) ?? 0,
      reasoningBeside: this.#reasoningBeside !== undefined && count(this.#reasoningBeside, numbers) !== undefined,
      reasoningUntold: this.#reasoningUntold,
      restIn: this.#restIn !== undefined && (count(this.#restIn, numbers) ?? 0) > 0,
    });
  }

  #addParts(counts: TokenCounts, numbers: Numbers): void {
    for (const part of this.#parts) {
      const { how, at } = part.count;
      // Most answers have nothing at most places, so that nothing is called for these.
      let isThere = how === 'constant';
      for (let place = 0; !isThere && place < at.length; place++) isThere = numbers[at[place] ?? 0] !== undefined;
      const tokens = isThere ? count(part.count, numbers) : undefined;
      if (tokens !== undefined) counts[part.tokens] = tokens;
    }
  }

  #unitCounts(usages: FoundValues['usages'], numbers: Numbers): Usage['units'] {
    let units: Partial<Record<Unit, number>> | undefined;
    for (const { unit, at, given } of this.#units) {
      const number = numberAt(at, usages, numbers) ?? 0;
      if (number <= (units?.[unit] ?? 0) || (given.length > 0 && numberAt(given, usages, numbers) === undefined)) continue;
      units ??= {};
      units[unit] = number;
    }
    return units;
  }

  #termTexts(texts: FoundValues['texts']): string[] {
    const terms = new Set<string>();
    for (const { name, at } of this.#terms) {
      const text = at.map((place) => texts[place]).find((value) => value !== undefined);
      if (text !== undefined) terms.add(`${name}=${text}`);
    }
    return [...terms];
  }

  #listedPasses(entries: FoundValues['entries']): readonly { readonly pass: Pass; readonly inside: boolean }[] {
    return this.#passes.flatMap((rule) =>
      (entries[rule.at] ?? []).flatMap((entry) => {
        const counts = (rule.counts ?? this).#countsOf(valueAt(entry, rule.usage));
        if (counts === undefined || counts.tokens_in + counts.tokens_out === 0) return [];
        const type = valueAt(entry, TYPE);
        const model = modelName(valueAt(entry, rule.model));
        const pass: Pass = { ...counts, model, ...(model === undefined && rule.tool !== undefined ? { tool: rule.tool } : {}) };
        return [{ pass, inside: rule.inside.includes('*') || (typeof type === 'string' && rule.inside.includes(type)) }];
      }),
    );
  }

  /** The tokens of one usage object, without what lies in it beside them. */
  #countsOf(usage: unknown): TokenCounts | undefined {
    const tally = new UsageTally(this);
    tally.addUsage(usage);
    return this.#mostTokens(tally.found.usages);
  }
}

const TYPE = compilePath('type');
const NO_PASSES: readonly never[] = [];
const NO_TERMS: string[] = [];

/** The number at the first of these places that has one. */
function numberAt(places: readonly number[], usages: FoundValues['usages'], around: Numbers): number | undefined {
  for (const place of places) {
    let number = around[place];
    for (let at = 0; number === undefined && at < usages.length; at++) number = usages[at]?.[place];
    if (number !== undefined) return number;
  }
  return undefined;
}
const readers = new WeakMap<UsageRule, UsageReader>();

/** The compiled form of a rule, made once. */
export function usageReader(rule: UsageRule): UsageReader {
  let reader = readers.get(rule);
  if (reader === undefined) {
    reader = new UsageReader(rule);
    readers.set(rule, reader);
  }
  return reader;
}

export interface AnswerFacts {
  readonly usage?: Usage;
  /** The model that the answer names. */
  readonly model?: string;
}

/** Usage and model of a parsed answer that is no stream. */
export function readUsage(dialect: Dialect | undefined, json: unknown): AnswerFacts {
  if (dialect === undefined) return {};
  const usage = dialect.usage === undefined ? undefined : usageReader(dialect.usage).readAnswer(json);
  const model = dialect.modelEcho === undefined ? undefined : modelIn(json, dialect.modelEcho);
  return { ...(usage ? { usage } : {}), ...(model ? { model } : {}) };
}

/** The last model that stands at one of the paths. */
function modelIn(json: unknown, paths: readonly string[]): string | undefined {
  let model: string | undefined;
  for (const path of paths) eachValueAt(json, compileValuePath(path), (value) => (model = modelName(value) ?? model));
  return model;
}

/**
 * Counts that an answer tells in its head.
 * @param headers flat name, value list
 */
export function usageOfHeaders(rule: UsageRule | undefined, headers: readonly string[]): Usage | undefined {
  if (rule?.headers === undefined) return undefined;
  const { tokensIn, tokensOut, cachedIn, cacheWrite } = rule.headers;
  const counts = new Map<string, number>();
  for (let at = 0; at + 1 < headers.length; at += 2) {
    const count = countOfText(headers[at + 1] ?? '');
    if (count !== undefined) counts.set(headers[at]?.toLowerCase() ?? '', count);
  }
  const sum = (names: readonly string[]): number | undefined =>
    names.some((name) => counts.has(name)) ? names.reduce((all, name) => all + (counts.get(name) ?? 0), 0) : undefined;
  const [input, output] = [sum(tokensIn), sum(tokensOut)];
  if (input === undefined && output === undefined) return undefined;
  const usage: Usage = { tokens_in: input ?? 0, tokens_out: output ?? 0 };
  const [cached, written] = [counts.get(cachedIn ?? ''), counts.get(cacheWrite ?? '')];
  if (cached !== undefined) usage.cached_tokens_in = cached;
  if (written !== undefined) usage.cache_write_tokens_in = written;
  return usage;
}

function countOfText(text: string): number | undefined {
  return /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

const MAX_MODEL_NAME = 256;

/** A text that can stand in a record as a model's name. */
export function modelName(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' && value.length <= MAX_MODEL_NAME && value.isWellFormed() ? value : undefined;
}

function count(rule: CompiledCount, numbers: Numbers): number | undefined {
  if (rule.how === 'constant') return rule.constant;
  let sum: number | undefined;
  for (const at of rule.at) {
    const value = numbers[at];
    if (value === undefined) continue;
    if (rule.how === 'first') return value;
    sum = rule.how === 'most' ? Math.max(sum ?? 0, value) : Math.min((sum ?? 0) + value, Number.MAX_SAFE_INTEGER);
  }
  return sum;
}
