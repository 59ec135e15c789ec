import { RE2JS, RE2JSException } from 're2js';
import { POLICY_BOUNDS } from '../model/work-bounds.ts';
import { type Building, Program } from './regex-program.ts';
import { regexSteps } from './regex-steps.ts';

/** Longest pattern that is compiled, in characters. */
export const MAX_PATTERN_LENGTH = 1024;

/**
 * A regular expression that takes time linear in its input, whatever the input is (RE2 syntax: no look-around, no
 * back-references).
 */
export interface LinearRegex {
  readonly pattern: string;
  /** About as many instructions as it has when it is compiled: the time per character of input is bounded by it. */
  readonly steps: number;
  /** True when the pattern occurs anywhere in the text; anchor it with `^` and `$`. */
  test(text: string): boolean;
  /**
   * As {@link test}, and tells before it goes on what that takes, in steps of about 10 ns: first what a text of this
   * length takes by few states of its automaton, and, where the text leads to more, what all instructions take for each
   * character. It depends on the pattern and the text alone.
   * @param spend throws when it is too much
   */
  testSpending(text: string, spend: (steps: number) => void): boolean;
}

/** Says in one sentence what is wrong with a pattern. */
export class RegexSyntaxError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'RegexSyntaxError';
  }
}

/** @throws RegexSyntaxError when the pattern is not RE2 syntax or is too large */
export function compileRegex(pattern: string): LinearRegex {
  const regex = new LazyRegex(pattern);
  regex.test('');
  return regex;
}

/** A pattern whose size is known before it is compiled. */
export class LazyRegex implements LinearRegex {
  readonly pattern: string;
  readonly steps: number;
  #program: Program | undefined;

  /** @throws RegexSyntaxError when the pattern is too large */
  constructor(pattern: string) {
    if (pattern.length > MAX_PATTERN_LENGTH) throw new RegexSyntaxError(`a pattern has at most ${MAX_PATTERN_LENGTH} characters`);
    this.pattern = pattern;
    this.steps = regexSteps(pattern);
    if (this.steps > POLICY_BOUNDS.pattern.one)
      throw new RegexSyntaxError(
        `the pattern is too large when its repetitions are written out: ${this.steps} steps, more than ${POLICY_BOUNDS.pattern.one}`,
      );
  }

  /**
   * Once for all that have the same pattern, with what tells its cost.
   * @throws RegexSyntaxError when it is not RE2 syntax
   */
  compile(): void {
    this.building();
  }

  /** What building the states of its automaton takes. @throws RegexSyntaxError as {@link compile} */
  building(): Building {
    this.#program ??= programOf(this.pattern, this.steps);
    return this.#program.building();
  }

  /** @throws RegexSyntaxError as {@link compile}, which it does where nobody has */
  test(text: string): boolean {
    this.#program ??= programOf(this.pattern, this.steps);
    return this.#program.test(text);
  }

  /** @throws RegexSyntaxError as {@link compile}; what `spend` throws */
  testSpending(text: string, spend: (steps: number) => void): boolean {
    this.#program ??= programOf(this.pattern, this.steps);
    const { steps, isFew } = this.#program.building();
    const slow = this.steps * (text.length + 1);
    const quick = steps + Math.ceil(text.length / CHARACTERS_PER_STEP);
    if (slow <= quick || isFew) {
      spend(Math.min(slow, quick));
      return this.#program.test(text);
    }
    spend(quick);
    return this.#program.test(text, () => spend(slow * STEPS_OF_SLOW));
  }
}

/** Steps of an instruction for a character without an automaton, on a long text. */
const STEPS_OF_SLOW = 2;

/** Characters that an automaton reads in a step. */
const CHARACTERS_PER_STEP = 4;

/** Programs that somebody holds, by their patterns: identical patterns are compiled once. */
const programs = new Map<string, WeakRef<Program>>();
const gone = new FinalizationRegistry<string>((pattern) => {
  if (programs.get(pattern)?.deref() === undefined) programs.delete(pattern);
});

/** Programs that are held at the moment, or were until just now. */
export function heldPatterns(): number {
  return programs.size;
}

function programOf(pattern: string, steps: number): Program {
  const known = programs.get(pattern)?.deref();
  if (known !== undefined) return known;
  const program = new Program(compiled(pattern), steps);
  programs.set(pattern, new WeakRef(program));
  gone.register(program, pattern);
  return program;
}

function compiled(pattern: string): RE2JS {
  try {
    return RE2JS.compile(pattern);
  } catch (error) {
    if (error instanceof RE2JSException) throw new RegexSyntaxError(error.message, { cause: error });
    throw error;
  }
}
