import { readFileSync } from 'node:fs';
import { nearestName } from '../lib/mistakes.ts';
import { shorten } from '../lib/text.ts';
import type { Setting } from './setting-types.ts';

/** One line that names the variable, its value (never a secret's) and what is allowed. */
export interface ConfigProblem {
  readonly variable: string;
  readonly code: 'invalid' | 'not_supported_yet';
  readonly message: string;
}

/** The start stops; `problems` has every mistake, `message` one line for each. */
export class ConfigError extends Error {
  readonly problems: readonly ConfigProblem[];
  /** Of what is allowed but unwise or unknown: a misspelt name is often why a value is missing. */
  readonly warnings: readonly string[];

  constructor(problems: readonly ConfigProblem[], warnings: readonly string[] = []) {
    super([...problems.map((problem) => problem.message), ...warnings.map((warning) => `warning: ${warning}`)].join('\n'));
    this.name = 'ConfigError';
    this.problems = problems;
    this.warnings = warnings;
  }
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** A token so short that it can be guessed: a warning for each. @param tokens by variable */
export function guessableTokens(tokens: readonly (readonly [variable: string, value: string | undefined])[]): string[] {
  return tokens
    .filter(([, value]) => value !== undefined && value.length < 16)
    .map(([variable]) => `${variable} has fewer than 16 characters and can be guessed`);
}

/**
 * A line for each variable that begins as ours and is none.
 * @param settings of which a secret may stand in a file too
 * @param others that are read elsewhere
 */
export function unknownSettings(
  env: Environment,
  prefix: string,
  settings: readonly { readonly variable: string; readonly secret?: boolean }[],
  others: readonly string[] = [],
): string[] {
  const known = new Set([
    ...settings.flatMap(({ variable, secret }) => (secret === true ? [variable, `${variable}_FILE`] : [variable])),
    ...others,
  ]);
  const unknown = Object.keys(env).filter((name) => name.startsWith(prefix) && !known.has(name));
  return unknown.sort().map((name) => {
    const meant = namesMeant(name, known);
    return `${printable(name)} is not a setting and has no effect${meant === undefined ? '' : `; did you mean ${meant}?`}`;
  });
}

/** More say nothing. */
const MOST_NAMES = 3;
/** Each secret has a second name, which ends so. */
const FILE = '_FILE';

/** Who leaves a word out (`GW_RETENTION`) means a name that has all of the others; else it is misspelt. */
function namesMeant(name: string, known: ReadonlySet<string>): string | undefined {
  const words = name.split('_');
  const longer = [...known].filter((one) => {
    const parts = one.split('_');
    return one.endsWith(FILE) === name.endsWith(FILE) && words.every((word) => parts.includes(word));
  });
  return longer.length > 0 && longer.length <= MOST_NAMES ? longer.join(' or ') : nearestName(name, known);
}

/** Reads settings from an environment and keeps every mistake, so that all of them are told at once. */
export class SettingsReader {
  readonly problems: ConfigProblem[] = [];
  readonly #env: Environment;

  constructor(env: Environment) {
    this.#env = env;
  }

  isSet(variable: string): boolean {
    return (this.#env[variable] ?? '') !== '' || (this.#env[`${variable}_FILE`] ?? '') !== '';
  }

  problem(variable: string, message: string, code: ConfigProblem['code'] = 'invalid'): void {
    this.problems.push({ variable, code, message });
  }

  read(setting: Setting<unknown>): unknown {
    const { variable, type, fallback, secret } = setting;
    const given = secret ? this.#secretText(variable) : this.#env[variable];
    const isGiven = given !== undefined && (given !== '' || type.list === true);
    const text = isGiven ? given : fallback;
    if (text === undefined) return undefined;
    try {
      return type.parse(text);
    } catch (error) {
      const shown = secret ? 'its value' : printable(text);
      if (type.later !== undefined && Object.hasOwn(type.later, text)) {
        this.problem(variable, `${variable}: ${shown} is not supported yet; it takes ${type.allowed}`, 'not_supported_yet');
      } else {
        this.problem(variable, `${variable}: ${shown} is not allowed${reasonOf(error)}; it takes ${type.allowed}`);
      }
      return undefined;
    }
  }

  refuseLater(setting: LaterSetting): void {
    const { variable, fallback, secret } = setting;
    const fromFile = secret === true && (this.#env[`${variable}_FILE`] ?? '') !== '';
    const text = fromFile ? 'a file' : (this.#env[variable] ?? '');
    if (text === '' || text === fallback) return;
    const shown = secret === true ? 'it is set and' : `${printable(text)}`;
    const allowed = fallback === undefined ? 'leave it unset' : `it takes \`${fallback}\``;
    this.problem(variable, `${variable}: ${shown} is not supported yet; ${allowed}`, 'not_supported_yet');
  }

  /** The variable itself, or the content of the file that `<variable>_FILE` names, without its last line end. */
  #secretText(variable: string): string | undefined {
    const direct = this.#env[variable];
    const file = this.#env[`${variable}_FILE`] ?? '';
    if (file === '') return direct;
    if (direct !== undefined && direct !== '') {
      this.problem(variable, `${variable} and ${variable}_FILE are both set; only one of them may be`);
      return undefined;
    }
    try {
      const text = readFileSync(file, 'utf8').replace(/\r?\n$/, '');
      if (text !== '') return text;
      this.problem(variable, `${variable}_FILE: ${printable(file)} is empty`);
    } catch (error) {
      this.problem(variable, `${variable}_FILE: ${printable(file)} cannot be read${reasonOf(error)}`);
    }
    return undefined;
  }
}

/** What the type or the file system said, when it says more than "not allowed". */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error) || error.message === 'not allowed') return '';
  return 'code' in error && typeof error.code === 'string' ? ` (${error.code})` : ` (${error.message})`;
}

/** Quoted, without control characters, cut at 80 characters: a value ends up on a terminal. */
function printable(text: string): string {
  return JSON.stringify(shorten(text, 80));
}

/**
 * The value of an environment variable that a stored credential names (`secret_ref: env:NAME`, decision 6.6); undefined
 * when it is unset or blank. Spaces and line ends around it, which files and secret stores like to add, are no part of
 * a key.
 */
export function environmentSecret(name: string): string | undefined {
  const value = process.env[name]?.trim();
  return value === '' ? undefined : value;
}

/** A variable of the shell that a command runs in, which is no setting of ours; undefined when it is unset or empty. */
export function shellVariable(name: string, env: Environment = process.env): string | undefined {
  const value = env[name];
  return value === '' ? undefined : value;
}

/** All variables, for programs that a command starts. */
export function wholeEnvironment(env: Environment = process.env): Environment {
  return env;
}

/** A variable that the gateway knows and that nothing in this version enforces. */
export interface LaterSetting {
  readonly variable: string;
  /** Undefined: not set by default. */
  readonly fallback: string | undefined;
  readonly help: string;
  /** Its value is never printed. */
  readonly secret?: true;
}

/**
 * Nothing fails open: each of these, set to anything but its default, stops the start with `not_supported_yet`
 * (decisions, head). A row moves to settings.ts in the change that makes something obey it.
 */
export const LATER_SETTINGS: readonly LaterSetting[] = [
  { variable: 'GW_WORKERS', fallback: '1', help: 'Processes that serve the ports.' },
  { variable: 'GW_REDIS_URL', fallback: undefined, help: 'Counters shared between nodes.', secret: true },
];
