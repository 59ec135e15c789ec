/* From what is typed behind an option to the value that an operation takes, and the words for both. */
import { parseTime, systemClock } from '../../base/lib/clock.ts';
import { UTC } from '../../base/lib/time-zone.ts';
import { spelledUntil } from '../../operations/time-words.ts';
import { badValue } from '../checked-arguments.ts';
import { UsageError } from '../command.ts';
import type { OperationOption, ValueForm } from './operation-options.ts';

/** Fewer words than this are shown as they are. */
const FEW_WORDS = 9;

/**
 * Options with the end of something, as the tools name their arguments: a day, `friday` and `3d` mean one to come there
 * (decision 10.15).
 */
const TO_COME: ReadonlySet<string> = new Set(['until', 'expires-at']);
const TO_COME_WORDS = 'a time to come, such as 2030-01-01T00:00:00Z, a day, friday, friday 18:00 (UTC), end of month, or 3d';

/** A time to come as operations read it; undefined for what is none. */
function timeToCome(text: string): string | undefined {
  return parseTime(text) === undefined ? spelledUntil(text, UTC, systemClock.now()) : text;
}

/** The same of an option, with its dashes, of a command that is written by hand. @throws UsageError for what is none */
export function requireTimeToCome(option: string, text: string): string {
  const time = timeToCome(text);
  if (time === undefined) throw badValue(option, TO_COME_WORDS, text);
  return time;
}

/**
 * The value of an option that was given.
 * @param texts each time that it was given, in order
 * @throws UsageError
 */
export function optionValue(option: OperationOption, texts: readonly string[]): unknown {
  const { shape, value, nullable } = option;
  const last = texts.at(-1) ?? '';
  if (nullable && last === 'null') return null;
  const one = (text: string): unknown => {
    const made = value.kind === 'time' && TO_COME.has(option.name) ? timeToCome(text) : read(value, text);
    if (made === undefined) throw misfit(option, text);
    return made;
  };
  // An empty list is given as nothing: `--actions=`.
  if (shape === 'list')
    return texts
      .flatMap((text) => (value.kind === 'word' ? text.split(',') : [text]))
      .filter((text) => text !== '')
      .map(one);
  if (shape === 'one') return one(last);
  return Object.fromEntries(
    texts.map((text) => {
      const at = text.indexOf('=');
      if (at < 1) throw misfit(option, text);
      return [text.slice(0, at), one(text.slice(at + 1))];
    }),
  );
}

function misfit(option: OperationOption, text: string): UsageError {
  const { message } = badValue(`--${option.name}`, takes(option), text);
  return new UsageError(option.elsewhere === undefined ? message : `${message}; ${option.elsewhere}`);
}

/**
 * A value behind a dot of an option whose members are not told: JSON where it is such, else text; a list when it was
 * given more than once.
 */
export function openValue(texts: readonly string[]): unknown {
  const values = texts.map((text) => (/^(?:[[{"]|true$|false$|null$|-?\d+(?:\.\d+)?$)/.test(text) ? (parsed(text) ?? text) : text));
  return values.length === 1 ? values[0] : values;
}

/** What an option takes, in words. */
export function takes({ name, shape, value, nullable }: Pick<OperationOption, 'name' | 'shape' | 'value' | 'nullable'>): string {
  const one = `${value.kind === 'time' && TO_COME.has(name) ? TO_COME_WORDS : words(value)}${nullable ? ' or null' : ''}`;
  if (shape === 'list') return `${one}; it may be repeated`;
  return shape === 'map' ? `NAME=VALUE, such as team=red; it may be repeated` : one;
}

/** What stands for its value in usage texts. */
export function placeholder({ name, shape, value }: Pick<OperationOption, 'name' | 'shape' | 'value'>): string {
  if (shape === 'map') return 'NAME=VALUE...';
  return shape === 'list' ? `${sign(name, value)}...` : sign(name, value);
}

function sign(name: string, { kind, words: known = [] }: ValueForm): string {
  if (kind === 'word') return known.length <= FEW_WORDS ? known.join('|') : 'WORD';
  if (kind === 'whole' || kind === 'number') return 'N';
  if (kind === 'boolean') return 'true|false';
  if (kind === 'time') return 'TIME';
  if (kind === 'json') return 'JSON';
  if (/(?:^|[-.])usd$/.test(name)) return 'USD';
  return /(?:^|[-.])id$/.test(name) ? 'ID' : 'TEXT';
}

function words({ kind, words: known = [], minimum, maximum, above }: ValueForm): string {
  if (kind === 'word') return known.length === 1 ? String(known[0]) : `one of ${known.join(', ')}`;
  if (kind === 'boolean') return 'true or false';
  if (kind === 'time') return 'a time as RFC 3339 writes it, such as 2026-11-21T12:00:00Z';
  if (kind === 'json') return 'JSON';
  if (kind === 'text') return 'text';
  const bounds = [
    ...(above === undefined ? [] : [`above ${above}`]),
    ...(minimum === undefined ? [] : [`from ${minimum}`]),
    ...(maximum === undefined || maximum === Number.MAX_SAFE_INTEGER ? [] : [`to ${maximum}`]),
  ];
  return [kind === 'whole' ? 'a whole number' : 'a number', ...bounds].join(' ');
}

function read(form: ValueForm, text: string): unknown {
  switch (form.kind) {
    case 'word':
      return wordIn(form.words ?? [], text);
    case 'boolean':
      return /^true$/i.test(text) ? true : /^false$/i.test(text) ? false : undefined;
    case 'time':
      return parseTime(text) === undefined ? undefined : text;
    case 'json':
      return parsed(text);
    case 'text':
      return text;
    default:
      return numberIn(form, text);
  }
}

/** As it stands among the words, in whatever letter case it was typed (decision 8.15). */
function wordIn(known: NonNullable<ValueForm['words']>, text: string): unknown {
  return known.find((word) => word === text) ?? known.find((word) => word.toLowerCase() === text.toLowerCase());
}

function numberIn(
  { kind, minimum = Number.NEGATIVE_INFINITY, maximum = Number.POSITIVE_INFINITY, above }: ValueForm,
  text: string,
): number | undefined {
  const number = /^-?\d+(?:\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
  const fits = number >= minimum && number <= maximum && (above === undefined || number > above);
  return fits && (kind === 'number' || Number.isInteger(number)) ? number : undefined;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** Several that are needed and not there. @param named with what each takes */
export function missing(named: readonly (readonly [name: string, takes: string])[]): UsageError {
  const names = named.map(([name]) => name);
  const verb = names.length === 1 ? 'is' : 'are';
  return new UsageError(`${names.join(' and ')} ${verb} missing: ${named.map(([name, what]) => `${name} takes ${what}`).join('; ')}`);
}
