/*
 * The arguments of one tool, as a model gives them, in the names and forms that its operation reads (decision 10.15). Nothing is passed over: what stands for no argument is an error, and so is what is said twice.
 */
import { isJsonObject, type JsonObject } from '../base/json/json-object.ts';
import { type ErrorDetail, GatewayError } from '../base/lib/gateway-error.ts';
import type { TimeZone } from '../base/lib/time-zone.ts';
import { ArgumentNames } from './argument-names.ts';
import { readableValue, wordMistake } from './argument-values.ts';
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
const TIMES: readonly string[] = [...ENDS, ...TO_COME, RANGE];

/** Reads the arguments of one tool; made once. */
export class ToolArguments {
  readonly #taken: TakenArguments;
  readonly #names: ArgumentNames;
  readonly #own: ReadonlySet<string>;

  constructor(taken: TakenArguments) {
    this.#taken = taken;
    const own = Object.keys(taken.properties);
    this.#names = new ArgumentNames(own, taken.ids);
    this.#own = new Set(own);
  }

  /**
   * @param now asked for `today` and its like, epoch milliseconds
   * @throws GatewayError `invalid_request`, with every mistake that can be told without the operation
   */
  read(given: Readonly<Record<string, unknown>>, now: () => number): Readonly<Record<string, unknown>> {
    const mistakes: ErrorDetail[] = [];
    const read = this.#named(given, mistakes);
    for (const [name, value] of read) read.set(name, readableValue(name, value, this.#part(name)));
    if (TIMES.some((name) => read.has(name))) this.#spellTimes(read, now());
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
      else {
        put(name, meant.argument, value);
        if ('scope' in meant) put(name, 'scope', meant.scope);
      }
    }
    return read;
  }

  #spellTimes(read: Map<string, unknown>, now: number): void {
    const zone = zoneOf(read.get('tz'));
    const inDays = this.#part('from')['format'] === 'date';
    this.#spellRange(read, { zone, now, inDays });
    for (const end of ENDS) {
      const text = read.get(end);
      if (typeof text !== 'string' || !this.#own.has(end)) continue;
      const spelled = spelledEnd(text, end, zone, now, inDays) ?? text;
      read.set(end, this.#part(end)['format'] === 'date-time' ? momentOf(spelled, end, zone) : spelled);
    }
    for (const name of TO_COME) {
      const text = read.get(name);
      if (typeof text === 'string') read.set(name, spelledUntil(text, zone, now) ?? text);
    }
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
