/* What a person has typed behind a command, and the one wording for each mistake in it. */
import { type ParseArgsConfig, parseArgs } from 'node:util';
import { nearestName } from '../base/lib/mistakes.ts';
import { shorten } from '../base/lib/text.ts';
import { UsageError } from './command.ts';
import { terminalText } from './terminal-text.ts';

export type ArgumentOptions = NonNullable<ParseArgsConfig['options']>;

/** As it was typed, in order. */
export interface GivenArguments {
  readonly options: readonly { readonly name: string; readonly value: string | undefined }[];
  readonly words: readonly string[];
}

/**
 * @param most how many words may stand beside the options
 * @param switchValues options without a value may have one behind `=`
 * @throws UsageError
 */
export function checkedArguments(args: readonly string[], options: ArgumentOptions, most: number, switchValues = false): GivenArguments {
  const { tokens } = parseArgs({ args: [...args], options, strict: false, allowPositionals: true, tokens: true });
  const given: { readonly name: string; readonly value: string | undefined }[] = [];
  const words: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') words.push(token.value);
    if (token.kind !== 'option') continue;
    checkOption(token, options, switchValues);
    given.push({ name: token.name, value: token.value });
  }
  const extra = words[most];
  if (extra !== undefined) throw new UsageError(`${quoted(extra)} is one argument too many`);
  return { options: given, words };
}

/** @param raw with its dashes */
export function unknownOption(raw: string, known: readonly string[]): UsageError {
  const nearest = nearestName(raw.replace(/^-+/, ''), known);
  return new UsageError(`there is no option ${shown(raw)}${nearest === undefined ? '' : `; did you mean --${nearest}?`}`);
}

/** @param takes what it takes, in words */
export function badValue(option: string, takes: string, given: string): UsageError {
  return new UsageError(`${option} takes ${takes}, not ${quoted(given)}`);
}

interface GivenOption {
  readonly name: string;
  /** With its dashes. */
  readonly rawName: string;
  readonly value: string | undefined;
  /** Behind `=`. */
  readonly inlineValue: boolean | undefined;
}

function checkOption({ name, rawName, value, inlineValue = false }: GivenOption, options: ArgumentOptions, switchValues: boolean): void {
  const spec = Object.hasOwn(options, name) && rawName.startsWith('--') ? options[name] : undefined;
  if (spec === undefined) throw unknownOption(rawName, Object.keys(options));
  if (spec.type === 'string') checkValue(rawName, value, inlineValue);
  else if (value !== undefined && !switchValues) throw new UsageError(`${rawName} takes no value`);
}

function checkValue(rawName: string, value: string | undefined, inline: boolean): void {
  if (value === undefined) throw new UsageError(`${rawName} takes a value`);
  if (!inline && value.length > 1 && value.startsWith('-'))
    throw new UsageError(`${rawName} takes a value; one that begins with a dash is written ${rawName}=${shown(value)}`);
}

function quoted(text: string): string {
  return `"${shown(text)}"`;
}

function shown(text: string): string {
  return terminalText(shorten(text));
}

type Values<O extends ArgumentOptions> = ReturnType<typeof parseArgs<{ options: O; strict: true }>>['values'];

/** What a command was given. Nothing stands beside its options. @throws UsageError */
export function parseOptions<const O extends ArgumentOptions>(args: readonly string[], options: O): Values<O> {
  return parseWithWords(args, options, 0).values;
}

/**
 * The same of a command that is given one thing beside them.
 * @param rule said where it is not one
 * @throws UsageError
 */
export function parseWithOne<const O extends ArgumentOptions>(
  args: readonly string[],
  options: O,
  rule: string,
): { values: Values<O>; one: string } {
  const { values, words } = parseWithWords(args, options);
  const [one, ...more] = words;
  if (one === undefined || more.length > 0) throw new UsageError(rule);
  return { values, one };
}

/** The same of one that is given any number of things, or at most `most`. @throws UsageError */
export function parseWithWords<const O extends ArgumentOptions>(
  args: readonly string[],
  options: O,
  most = Number.POSITIVE_INFINITY,
): { values: Values<O>; words: readonly string[] } {
  const { words } = checkedArguments(args, options, most);
  return { values: parseArgs({ args: [...args], options, strict: true, allowPositionals: true }).values, words };
}
