/*
 * How the gateway speaks each provider's language, by the catalogue's dialects and never by a provider's name: token counts out of answers and streams,
 * credentials into requests, the structured API's form of a call, the error body that an SDK shows. Nothing here opens a connection, decides about a
 * request or changes a byte that passes. Bytes are looked at as Latin-1 text: offsets stay byte offsets, UTF-8 may be cut anywhere, and the members that
 * count (names, numbers) are ASCII.
 */
import type { CountRule, Dialect, UsageRule } from '../../base/catalogue/types.ts';
import type { PartTokens, Usage } from '../../base/model/usage.ts';

export type Path = readonly string[];

/** `usage.details` → its member names; an empty text is the value itself. */
export function compilePath(text: string): Path {
  return text === '' ? [] : text.split('.');
}

/** The value at a path, own members only; undefined when there is none. */
export function valueAt(root: unknown, path: Path): unknown {
  let value = root;
  for (const name of path) {
    if (!isRecord(value) || !Object.hasOwn(value, name)) return undefined;
    value = value[name];
  }
  return value;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

/** Counts by the index of their path; holes where a report has none. */
export type Counts = (number | undefined)[];

interface CompiledCount {
  readonly how: CountRule['how'];
  /** Indexes of paths. */
  readonly at: readonly number[];
  readonly constant: number;
}

/** A dialect's rule for token counts, compiled. Of a usage object only numbers at known places are taken, whatever else stands in it. */
export class UsageReader {
  readonly root: Path;
  /** Where counts stand inside of a usage object. */
  readonly paths: readonly Path[];
  readonly #in: CompiledCount;
  readonly #out: CompiledCount;
  readonly #parts: readonly { readonly tokens: PartTokens; readonly count: CompiledCount }[];
  readonly #reasoning: CompiledCount;

  constructor(rule: UsageRule) {
    this.root = compilePath(rule.root);
    const all = [...rule.tokensIn.paths, ...rule.tokensOut.paths, ...rule.parts.flatMap(({ paths }) => paths), ...rule.reasoningOut];
    const texts = [...new Set(all)];
    this.paths = texts.map(compilePath);
    const compiled = ({ how, paths, constant }: CountRule): CompiledCount => ({
      how,
      at: paths.map((path) => texts.indexOf(path)),
      constant: constant ?? 0,
    });
    this.#in = compiled(rule.tokensIn);
    this.#out = compiled(rule.tokensOut);
    this.#parts = rule.parts.map(({ tokens, paths }) => ({ tokens, count: compiled({ how: 'first', paths }) }));
    this.#reasoning = compiled({ how: 'first', paths: rule.reasoningOut });
  }

  /** @returns undefined when the object holds neither input nor output tokens: absent is not zero (decision 7.5) */
  read(usage: unknown): Usage | undefined {
    return this.usageOf(this.counts(usage));
  }

  /** What a usage object says. */
  counts(usage: unknown): Counts {
    return this.paths.map((path) => countOf(valueAt(usage, path)));
  }

  /** The same as {@link read}, of counts that were gathered. */
  usageOf(counts: Counts): Usage | undefined {
    const tokensIn = count(this.#in, counts);
    const tokensOut = count(this.#out, counts);
    const nothing = tokensOut === undefined || this.#out.how === 'constant';
    if (tokensIn === undefined && nothing) return undefined;
    const read: Usage = { tokens_in: tokensIn ?? 0, tokens_out: tokensOut ?? 0 };
    for (const part of this.#parts) {
      const tokens = count(part.count, counts);
      if (tokens !== undefined) read[part.tokens] = tokens;
    }
    const reasoning = count(this.#reasoning, counts);
    if (reasoning !== undefined) read.reasoning_tokens_out = reasoning;
    return read;
  }
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

/** Usage and model of a whole answer that was parsed already. For bytes see `createAnswerReader`. */
export function readUsage(dialect: Dialect | undefined, json: unknown): AnswerFacts {
  if (dialect === undefined) return {};
  const reader = dialect.usage === undefined ? undefined : usageReader(dialect.usage);
  const usage = reader?.read(valueAt(json, reader.root));
  const model = dialect.modelEcho === undefined ? undefined : modelName(valueAt(json, compilePath(dialect.modelEcho)));
  return { ...(usage ? { usage } : {}), ...(model ? { model } : {}) };
}

/**
 * Counts that an answer tells in its head.
 * @param headers flat name, value list
 */
export function usageOfHeaders(rule: UsageRule | undefined, headers: readonly string[]): Usage | undefined {
  if (rule?.headers === undefined) return undefined;
  let tokensIn: number | undefined;
  let tokensOut: number | undefined;
  for (let at = 0; at + 1 < headers.length; at += 2) {
    const name = headers[at]?.toLowerCase();
    if (name === rule.headers.tokensIn) tokensIn = countOfText(headers[at + 1] ?? '');
    else if (name === rule.headers.tokensOut) tokensOut = countOfText(headers[at + 1] ?? '');
  }
  return tokensIn === undefined && tokensOut === undefined ? undefined : { tokens_in: tokensIn ?? 0, tokens_out: tokensOut ?? 0 };
}

function countOfText(text: string): number | undefined {
  return /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

const MAX_MODEL_NAME = 256;

/** A text that can stand in a record as a model's name. */
export function modelName(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' && value.length <= MAX_MODEL_NAME && value.isWellFormed() ? value : undefined;
}

/** A whole number that is no less than nothing and that no arithmetic of ours rounds; undefined for everything else that providers may call a count. */
export function countOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

function count(rule: CompiledCount, counts: Counts): number | undefined {
  if (rule.how === 'constant') return rule.constant;
  let sum: number | undefined;
  for (const at of rule.at) {
    const value = counts[at];
    if (value === undefined) continue;
    if (rule.how === 'first') return value;
    sum = Math.min((sum ?? 0) + value, Number.MAX_SAFE_INTEGER);
  }
  return sum;
}
