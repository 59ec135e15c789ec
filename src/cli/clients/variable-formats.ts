/* How shells, CI systems and files say that a variable is set, and that it is not. */
import { randomBytes } from 'node:crypto';
import { Unusable } from '../command.ts';

/** Absent value: the variable is to be taken away. */
export type Assignment = readonly [name: string, value: string | undefined];

export interface VariableFormat {
  readonly text: (variables: readonly Assignment[]) => string;
  /** Names that are not set in this way. */
  readonly refused?: readonly string[];
  /** It is read in a container or on another machine, where files and addresses of this one may mean something else. */
  readonly elsewhere?: true;
}

/** It names a file of this package: a Node that does not find it ends at its start, whatever it was to do. */
const ONLY_HERE: readonly string[] = ['NODE_OPTIONS'];

/** By what `--shell` takes. */
export const VARIABLE_FORMATS: Readonly<Record<string, VariableFormat>> = {
  sh: lines((name, value) => (value === undefined ? `unset ${name}` : `export ${name}='${value.replaceAll("'", `'\\''`)}'`)),
  fish: lines(fishLine),
  powershell: lines(powershellLine),
  // GitHub takes no NODE_OPTIONS from $GITHUB_ENV: the step that wrote it fails.
  'github-actions': { ...lines(gitHubLine), refused: ['NODE_OPTIONS'] },
  gitlab: { ...lines(dotenvLine), refused: ONLY_HERE, elsewhere: true },
  dotenv: { ...lines(dotenvLine), refused: ONLY_HERE, elsewhere: true },
  json: {
    text: (variables) => `${JSON.stringify(Object.fromEntries(variables.map(([name, value]) => [name, value ?? null])), null, 2)}\n`,
  },
};

function lines(line: (name: string, value: string | undefined) => string): VariableFormat {
  return { text: (variables) => variables.map(([name, value]) => `${line(name, value)}\n`).join('') };
}

/**
 * Ended by a semicolon: `eval (…)` of fish joins lines by blanks, and one that is not ended would take all that follow
 * for its value.
 */
function fishLine(name: string, value: string | undefined): string {
  return value === undefined ? `set -e ${name};` : `set -gx ${name} '${value.replace(/[\\']/g, '\\$&')}';`;
}

/** Ended likewise: `Invoke-Expression "$(…)"` of PowerShell joins lines by blanks, too. */
function powershellLine(name: string, value: string | undefined): string {
  if (value === undefined) return `Remove-Item Env:${name} -ErrorAction SilentlyContinue;`;
  return `$env:${name} = '${value.replaceAll("'", "''")}';`;
}

/**
 * A line for the file $GITHUB_ENV; a value of several lines stands between two of a delimiter that nobody can guess.
 */
function gitHubLine(name: string, value = ''): string {
  if (!/[\r\n]/.test(value)) return `${name}=${value}`;
  const delimiter = `end_${randomBytes(12).toString('hex')}`;
  return `${name}<<${delimiter}\n${value}\n${delimiter}`;
}

/** The variables that a format can hold. */
export function heldBy<A extends Assignment>(format: VariableFormat, variables: readonly A[]): readonly A[] {
  return variables.filter(([name]) => format.refused?.includes(name) !== true);
}

/** As GitLab's dotenv reports and `docker run --env-file` read it: nothing is quoted, and a value has one line. */
function dotenvLine(name: string, value = ''): string {
  if (/[\r\n]/.test(value)) throw new Unusable(`${name} has more than one line, which a file of this kind cannot hold`);
  return `${name}=${value}`;
}
