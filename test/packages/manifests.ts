import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { SETTINGS } from '../../src/base/config/settings.ts';
import { LATER_SETTINGS } from '../../src/base/config/settings-reader.ts';
import { packageRoot } from '../../src/base/lib/package-root.ts';

/** A file of the project as text. */
export function projectFile(path: string): string {
  return readFileSync(join(packageRoot(), path), 'utf8');
}

/** A YAML file of the project, of one document. */
export function projectYaml(path: string): Tree {
  return new Tree(parse(projectFile(path)) as unknown, path);
}

/**
 * Whether a variable is one that the gateway reads in this version (or in one that is still to come), or names the file
 * of one.
 */
export function isSetting(variable: string): boolean {
  const settings = Object.values(SETTINGS);
  const secrets = settings.filter(({ secret }) => secret).map((setting) => `${setting.variable}_FILE`);
  return [...settings.map((setting) => setting.variable), ...secrets, ...LATER_SETTINGS.map((setting) => setting.variable)].includes(
    variable,
  );
}

/**
 * Parsed YAML or JSON, looked at by paths; what is not there is undefined, and a text where a list should be fails the
 * test that asks.
 */
export class Tree {
  readonly value: unknown;
  readonly #at: string;

  constructor(value: unknown, at: string) {
    this.value = value;
    this.#at = at;
  }

  /** A member, or the member of a member: `spec.template`. */
  get(...path: readonly string[]): Tree {
    let value = this.value;
    for (const name of path)
      value = typeof value === 'object' && value !== null ? Object.entries(value).find(([key]) => key === name)?.[1] : undefined;
    return new Tree(value, `${this.#at}.${path.join('.')}`);
  }

  get text(): string {
    if (typeof this.value !== 'string') throw new Error(`${this.#at} is not a text`);
    return this.value;
  }

  get number(): number {
    if (typeof this.value !== 'number') throw new Error(`${this.#at} is not a number`);
    return this.value;
  }

  /** Elements; none where nothing is. */
  get list(): readonly Tree[] {
    if (this.value === undefined) return [];
    if (!Array.isArray(this.value)) throw new Error(`${this.#at} is not a list`);
    return this.value.map((value: unknown, index) => new Tree(value, `${this.#at}[${index}]`));
  }

  /** Names of the members; none where nothing is. */
  get names(): readonly string[] {
    if (this.value === undefined) return [];
    if (typeof this.value !== 'object' || this.value === null) throw new Error(`${this.#at} has no members`);
    return Object.keys(this.value);
  }
}
