import { type ParseArgsConfig, parseArgs } from 'node:util';
import { messageOf } from '../base/lib/thrown.ts';
import { UsageError } from './command.ts';

type Options = NonNullable<ParseArgsConfig['options']>;
type Values<O extends Options> = ReturnType<typeof parseArgs<{ options: O; strict: true }>>['values'];

/** What a command was given. Nothing stands beside its options. @throws UsageError */
export function parseOptions<const O extends Options>(args: readonly string[], options: O): Values<O> {
  return parsed(args, options, false).values;
}

/** The same of a command that is given one thing beside them. @param rule said where it is not one @throws UsageError */
export function parseWithOne<const O extends Options>(
  args: readonly string[],
  options: O,
  rule: string,
): { values: Values<O>; one: string } {
  const { values, positionals } = parsed(args, options, true);
  const [one, ...more] = positionals;
  if (one === undefined || more.length > 0) throw new UsageError(rule);
  return { values, one };
}

function parsed<const O extends Options>(args: readonly string[], options: O, allowPositionals: boolean) {
  try {
    return parseArgs({ args: [...args], options, strict: true, allowPositionals });
  } catch (error) {
    throw new UsageError(messageOf(error), { cause: error });
  }
}
