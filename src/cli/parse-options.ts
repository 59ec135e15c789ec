import { parseArgs } from 'node:util';
import { type ArgumentOptions, checkedArguments } from './checked-arguments.ts';
import { UsageError } from './command.ts';

type Values<O extends ArgumentOptions> = ReturnType<typeof parseArgs<{ options: O; strict: true }>>['values'];

/** What a command was given. Nothing stands beside its options. @throws UsageError */
export function parseOptions<const O extends ArgumentOptions>(args: readonly string[], options: O): Values<O> {
  return parseWithWords(args, options, 0).values;
}

/** The same of a command that is given one thing beside them. @param rule said where it is not one @throws UsageError */
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
