import { RE2JS, RE2JSException } from 're2js';

/** Longest pattern that is compiled, in characters. */
export const MAX_PATTERN_LENGTH = 1024;
/** Instructions a compiled pattern may have: the time per character of input is bounded by it. */
const MAX_PROGRAM = 10_000;

/** A regular expression that takes time linear in its input, whatever the input is (RE2 syntax: no look-around, no back-references). */
export interface LinearRegex {
  readonly pattern: string;
  /** True when the pattern occurs anywhere in the text; anchor it with `^` and `$`. */
  test(text: string): boolean;
}

/** @throws RegexSyntaxError when the pattern is not RE2 syntax or is too large */
export function compileRegex(pattern: string): LinearRegex {
  if (pattern.length > MAX_PATTERN_LENGTH) throw new RegexSyntaxError(`a pattern has at most ${MAX_PATTERN_LENGTH} characters`);
  const compiled = parse(pattern);
  if (compiled.programSize() > MAX_PROGRAM) throw new RegexSyntaxError('the pattern is too large when its repetitions are written out');
  return { pattern, test: (text) => compiled.test(text) };
}

/** Says in one sentence what is wrong with a pattern. */
export class RegexSyntaxError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'RegexSyntaxError';
  }
}

function parse(pattern: string): RE2JS {
  try {
    return RE2JS.compile(pattern);
  } catch (error) {
    if (error instanceof RE2JSException) throw new RegexSyntaxError(error.message, { cause: error });
    throw error;
  }
}
