/*
 * The arguments of one tool, as a model gives them, in the names and forms that its operation reads (decision 10.15).
 * Nothing is passed over: what stands for no argument is an error, and so is what is said twice.
 */
import { isJsonObject, type JsonObject } from '../base/json/json-object.ts';
import { parseDate, parseTime } from '../base/lib/clock.ts';
import { type ErrorDetail, GatewayError } from '../base/lib/gateway-error.ts';
import type { TimeZone } from '../base/lib/time-zone.ts';
import { ArgumentNames, type MeantName, type ObjectMembers } from './argument-names.ts';
import { readableValue, truth, word, wordMistake } from './argument-values.ts';
import { zoneOf } from './report-query.ts';
import { momentOf, spelledEnd, spelledRange, spelledUntil } from './time-words.ts';

/** What a tool takes. */
export interface TakenArguments {
  /** As they are listed. */
  readonly properties: Readonly<Record<string, unknown>>;
  /** Those that stand in the path. */
  readonly ids: readonly string[];
  /** Those for which `null` says something. */
  readonly nullable: ReadonlySet<string>;
}

/** Arguments that are ends of a stretch, and times to come, by name. */
const ENDS = ['from', 'to'] as const;
const TO_COME = ['until', 'expires_at'] as const;
/** Where a stretch waits that is said by one argument; no tool has an argument of that name. */
const RANGE = '';
/** Where a tool has them beside its ends, they take fewer words. */
const STRETCHES = ['period', 'last'] as const;
const END_RULE =
  'must be a time such as 2026-11-22T05:00:00Z, a day, a month such as 2026-11, or words such as today, yesterday 14:00, last week, monday, 3 days ago, 7d';
const TO_COME_RULE = 'must be a time to come such as 2026-11-27T18:00:00Z, a day, friday, friday 18:00, end of month, or in 2 days';
/** The two arguments that one label is. */
const LABEL = { key: 'label_key', value: 'label_value' } as const;
const TIMES: readonly string[] = [...ENDS, ...TO_COME, ...STRETCHES, RANGE];

/** Reads the arguments of one tool; made once. */
export class ToolArguments {
  readonly #taken: TakenArguments;
  readonly #names: ArgumentNames;
  readonly #own: ReadonlySet<string>;

  constructor(taken: TakenArguments) {
    this.#taken = taken;
    const own = Object.keys(taken.properties);
    this.#names = new ArgumentNames(own, taken.ids, objectsIn(taken.properties));
    this.#own = new Set(own);
  }

  /**
   * @param now asked for `today` and its like, epoch milliseconds
   * @throws GatewayError `invalid_request`, with every mistake that can be told without the operation
   */
  read(given: Readonly<Record<string, unknown>>, now: () => number): Readonly<Record<string, unknown>> {
    const mistakes: ErrorDetail[] = [];
    const read = this.#named(given, mistakes);
    this.#moveWords(read);
    this.#splitLabel(read);
    for (const [name, value] of read) read.set(name, readableValue(name, value, this.#part(name)));
    if (TIMES.some((name) => read.has(name))) this.#spellTimes(read, now(), mistakes);
    for (const [path, value] of read) {
      const message = wordMistake(value, this.#part(path));
      if (message !== undefined) mistakes.push({ path, message });
    }
    if (mistakes.length > 0)
      throw new GatewayError('invalid_request', `The call has ${mistakes.length} bad argument(s).`, { details: mistakes });
    return Object.fromEntries(read);
  }

  #part(name: string): JsonObject {
    const part = this.#taken.properties[name];
    return isJsonObject(part) ? part : {};
  }

  /** By the tool's own names; its own come first, so that of two that say the same the guess is the mistake. */
  #named(given: Readonly<Record<string, unknown>>, mistakes: ErrorDetail[]): Map<string, unknown> {
    const read = new Map<string, unknown>();
    const put = (path: string, argument: string, value: unknown): void => {
      if (read.has(argument)) mistakes.push({ path, message: `says the same as \`${argument}\`, which is given too` });
      else read.set(argument, value);
    };
    const inOrder = Object.entries(given).toSorted(([a], [b]) => Number(this.#own.has(b)) - Number(this.#own.has(a)));
    for (const [name, value] of inOrder) {
      const meant = this.#names.meant(name);
      if (meant === undefined) mistakes.push({ path: name, message: this.#names.unknown(name) });
      else if ('range' in meant) put(name, RANGE, value);
      // What a model has nothing to say to it often says by null.
      else if (value === null && !this.#taken.nullable.has(meant.argument)) continue;
      else if ('member' in meant) this.#putMember(read, meant, value, (path) => put(path, meant.argument, value));
      else putNamed(put, read, name, meant, value);
    }
    return read;
  }

  /** Into the object whose member it is, unless that has it. @param refuse says that it is given twice */
  #putMember(
    read: Map<string, unknown>,
    { argument, member }: { readonly argument: string; readonly member: string },
    value: unknown,
    refuse: (path: string) => void,
  ): void {
    const there = read.get(argument) ?? {};
    if (isJsonObject(there) && !(member in there)) read.set(argument, { ...there, [member]: value });
    else refuse(`${argument}.${member}`);
  }

  /** A word of one list that was given for another: `mode: off` is `state: disable`. */
  #moveWords(read: Map<string, unknown>): void {
    for (const [name, value] of [...read]) {
      const own = wordsOf(this.#part(name));
      if (own === undefined || word(value, own) !== undefined) continue;
      const others = [...this.#own].filter((other) => !read.has(other) && word(value, wordsOf(this.#part(other)) ?? []) !== undefined);
      const [only] = others;
      if (only === undefined || others.length > 1) continue;
      read.delete(name);
      read.set(only, value);
    }
  }

  /** A label with its value in one: `team=red`, `{team: red}`. */
  #splitLabel(read: Map<string, unknown>): void {
    if (!this.#own.has(LABEL.value) || read.has(LABEL.value)) return;
    const label = read.get(LABEL.key);
    const [pair, another] = isJsonObject(label) ? Object.entries(label) : [String(label).split('=', 2)];
    const [key, value] = pair ?? [];
    if (another !== undefined || value === undefined) return;
    read.set(LABEL.key, key);
    read.set(LABEL.value, value);
  }

  #spellTimes(read: Map<string, unknown>, now: number, mistakes: ErrorDetail[]): void {
    const zone = zoneOf(read.get('tz'));
    const inDays = this.#part('from')['format'] === 'date';
    this.#freeRange(read, zone, now);
    this.#spellRange(read, { zone, now, inDays });
    for (const end of ENDS) this.#spellEnd(read, end, { zone, now, inDays }, mistakes);
    for (const name of TO_COME) {
      const text = read.get(name);
      if (typeof text !== 'string') continue;
      const spelled = spelledUntil(text, zone, now) ?? text;
      if (parseTime(spelled) === undefined) mistakes.push({ path: name, message: TO_COME_RULE });
      read.set(name, spelled);
    }
  }

  #spellEnd(
    read: Map<string, unknown>,
    end: (typeof ENDS)[number],
    { zone, now, inDays }: { zone: TimeZone; now: number; inDays: boolean },
    mistakes: ErrorDetail[],
  ): void {
    const text = read.get(end);
    if (typeof text !== 'string' || !this.#own.has(end)) return;
    const spelled = spelledEnd(text, end, zone, now, inDays) ?? text;
    if (parseTime(spelled) === undefined && parseDate(spelled) === undefined) mistakes.push({ path: end, message: END_RULE });
    else read.set(end, this.#part(end)['format'] === 'date-time' ? momentOf(spelled, end, zone) : spelled);
  }

  /** A stretch in words that the tool's own `period` or `last` does not know, as its two ends. */
  #freeRange(read: Map<string, unknown>, zone: TimeZone, now: number): void {
    const [name, another] = STRETCHES.filter((one) => this.#own.has('from') && this.#own.has(one) && read.has(one));
    if (name === undefined || another !== undefined || ENDS.some((end) => read.has(end)) || read.has(RANGE)) return;
    const value = read.get(name);
    const text = name === 'last' && /^\d+$/.test(String(value)) ? `${String(value)}d` : String(value);
    if (spelledRange(text, zone, now, true) === undefined) return;
    read.delete(name);
    read.set(RANGE, text);
  }

  /** One text for both ends, or, where a report needs both, the one that is given. */
  #spellRange(read: Map<string, unknown>, { zone, now, inDays }: { zone: TimeZone; now: number; inDays: boolean }): void {
    const named = read.get(RANGE);
    read.delete(RANGE);
    const both = named ?? (inDays && !read.has('to') ? read.get('from') : undefined);
    if (both === undefined || both === null) return;
    const text = typeof both === 'number' ? `${both}d` : String(both);
    const range = spelledRange(text, zone, now, inDays) ?? { from: text, to: named === undefined ? zone.dayOf(now) : text };
    if (!read.has('from') || named === undefined) read.set('from', range.from);
    if (!read.has('to')) read.set('to', range.to);
  }
}

/**
 * @param put takes what was given, the argument that it stands for, and the value
 * @param read what was given already
 */
function putNamed(
  put: (path: string, argument: string, value: unknown) => void,
  read: ReadonlyMap<string, unknown>,
  name: string,
  meant: Exclude<MeantName, { readonly range: true } | { readonly member: string }>,
  value: unknown,
): void {
  put(name, meant.argument, 'opposite' in meant ? opposite(value) : value);
  // `scope: project, project: apollo` says the scope twice and means one thing.
  if ('scope' in meant && word(read.get('scope'), [meant.scope]) === undefined) put(name, 'scope', meant.scope);
}

function objectsIn(properties: TakenArguments['properties']): ObjectMembers {
  const objects = Object.entries(properties).flatMap(([name, part]) =>
    isJsonObject(part) && isJsonObject(part['properties']) ? [[name, Object.keys(part['properties'])] as const] : [],
  );
  return Object.fromEntries(objects);
}

function wordsOf({ enum: words }: JsonObject): readonly string[] | undefined {
  return Array.isArray(words) ? words.map(String) : undefined;
}

function opposite(value: unknown): unknown {
  const said = truth(value);
  return typeof said === 'boolean' ? !said : value;
}
