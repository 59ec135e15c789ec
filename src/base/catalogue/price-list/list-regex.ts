/*
 * The regular expressions of the price list. They are written for JavaScript and are tried on names that callers
 * choose, so here they run in time that is linear in the name. What that syntax has not is translated where it means
 * the same, and refused elsewhere.
 */
import { compileRegex, type LinearRegex, RegexSyntaxError } from '../../lib/regex.ts';

/** A pattern that is compiled when a name first begins as it must. */
export interface ListRegex {
  test(name: string): boolean;
}

const NEGATIVE_START = '^(?!';
/** What both syntaxes take and read differently. */
const OTHER_MEANING = /\\[AzQECpP]|\(\?(?![:!])|\[\[:/;

/**
 * @throws RegexSyntaxError when it is compiled, for a pattern that has no linear equivalent; a look-ahead has one at
 * the very start only, where `^(?!a)b` is what fits `^b` and not `^a`
 */
export function listRegex(pattern: string): ListRegex {
  const prefix = literalPrefix(pattern);
  let compiled: LinearRegex['test'] | undefined;
  return {
    test(name) {
      if (!name.startsWith(prefix)) return false;
      compiled ??= compile(pattern);
      return compiled(name);
    },
  };
}

/** @throws RegexSyntaxError as {@link listRegex} does later */
export function checkListRegex(pattern: string): void {
  compile(pattern);
}

function compile(pattern: string): LinearRegex['test'] {
  if (OTHER_MEANING.test(pattern)) throw new RegexSyntaxError('it holds what has another meaning, or none, in RE2 syntax');
  isForJavaScript(pattern);
  if (!pattern.startsWith(NEGATIVE_START)) {
    const plain = compileRegex(pattern);
    return (name) => plain.test(name);
  }
  const end = closing(pattern, NEGATIVE_START.length);
  const rest = pattern.slice(end + 1);
  if (end === -1 || hasOpenAlternative(rest)) throw new RegexSyntaxError('its look-ahead cannot be taken apart');
  const refused = compileRegex(`^(?:${pattern.slice(NEGATIVE_START.length, end)})`);
  const wanted = compileRegex(`^(?:${rest})`);
  return (name) => !refused.test(name) && wanted.test(name);
}

/** The list is written for JavaScript: what that does not take is a mistake in it. */
function isForJavaScript(pattern: string): void {
  try {
    new RegExp(pattern);
  } catch (error) {
    throw new RegexSyntaxError(error instanceof Error ? error.message : 'it is no regular expression', { cause: error });
  }
}

/** Position of the bracket that closes a group of which the content begins at `from`; -1 without one. */
function closing(pattern: string, from: number): number {
  let depth = 1;
  for (const { char, at } of syntaxOf(pattern, from)) {
    if (char === '(') depth++;
    else if (char === ')' && --depth === 0) return at;
  }
  return -1;
}

function hasOpenAlternative(pattern: string): boolean {
  let depth = 0;
  for (const { char } of syntaxOf(pattern, 0)) {
    if (char === '(') depth++;
    else if (char === ')') depth--;
    else if (char === '|' && depth === 0) return true;
  }
  return false;
}

/** The characters that are neither escaped nor in a class. */
function* syntaxOf(pattern: string, from: number): Generator<{ readonly char: string; readonly at: number }> {
  let inClass = false;
  for (let at = from; at < pattern.length; at++) {
    const char = pattern[at] ?? '';
    if (char === '\\') at++;
    else if (inClass) inClass = char !== ']';
    else if (char === '[') inClass = true;
    else yield { char, at };
  }
}

/** What every text that fits begins with; empty where that is not plain to see. */
export function literalPrefix(pattern: string): string {
  if (!pattern.startsWith('^') || pattern.includes('|')) return '';
  const literals = /^\^((?:[a-z0-9/@:_-]|\\[./-])*)(.?)/.exec(pattern);
  const [, found = '', next = ''] = literals ?? [];
  // A quantifier belongs to the last of them.
  const kept = '*+?{'.includes(next) && next !== '' ? found.replace(/(?:\\.|.)$/, '') : found;
  return kept.replaceAll('\\', '');
}
