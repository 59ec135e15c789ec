/*
 * How a person calls this program again: what it prints to be typed can be typed as it is printed, in a clone and
 * installed.
 */
import { existsSync, realpathSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, relative } from 'node:path';
import { packageRoot } from '../base/lib/package-root.ts';

/** With npm in a clone, or in a project that has it as a dependency. */
const BY_NPX = 'npx gw';

/** The package that a program is of. */
export interface Package {
  readonly root: string;
  /** Whether it is a clone of the sources. */
  readonly clone: boolean;
}

/**
 * How a person calls this program again, as a shell takes it: `gw` where an installation has put it among the programs;
 * `npx gw` where npm finds it from this folder, which is in a clone, and in a project that depends on it; else Node
 * with the file.
 * @param file what Node was started with, as it was named: the end of a link is not followed
 * @param folder from which
 */
export function programName(file: string | undefined, folder: string, { root, clone }: Package = ownPackage()): string {
  const isNamed = file !== undefined && !/\.[cm]?[jt]s$/.test(file);
  const isAmongPrograms = isNamed && basename(dirname(file)) !== '.bin';
  if (isAmongPrograms) return 'gw';
  const modules = dirname(root);
  const project = clone ? root : basename(modules) === 'node_modules' ? dirname(modules) : undefined;
  if (project !== undefined && isWithin(folder, project)) return BY_NPX;
  if (clone) return `node ${shellWord(join(root, 'bin', 'gw.mjs'))}`;
  return isNamed ? shellWord(file) : 'gw';
}

function ownPackage(): Package {
  const root = packageRoot();
  return { root, clone: existsSync(join(root, 'src', 'main.ts')) };
}

/** The same from another folder. @param program how it is called from this one */
export function programIn(folder: string, program = 'gw'): string {
  return program === 'gw' || folder === process.cwd() ? program : programName(process.argv[1], folder);
}

/**
 * The same for a line that begins with sudo, whose programs are found in other folders.
 * @param program as {@link programName} says
 */
export function programForSudo(program = 'gw'): string {
  return program === 'gw' ? '"$(command -v gw)"' : `${shellWord(process.execPath)} ${shellWord(join(packageRoot(), 'bin', 'gw.mjs'))}`;
}

/**
 * Commands of `gw` in a text for a person, as they are typed here; what `gw COMMAND:` begins is the command's own
 * message and stays.
 */
export function asTyped(text: string, program = 'gw'): string {
  return program === 'gw' ? text : text.replaceAll(TYPED, program);
}

/** What is typed as it is here already stays, and so does the program where it is told for whom it asks. */
const TYPED = /(?<![\w/.$-])(?<!\bnpx )(?!^gw [a-z][a-z -]*: )gw(?= (?:(?!for )[a-z]|COMMAND\b))/gm;

/**
 * The same of lines that are a command and nothing else: names that strangers chose stand in the other lines of a
 * report and stay as they are.
 */
export function linesAsTyped(text: string, program = 'gw'): string {
  return program === 'gw' ? text : text.replaceAll(/(?<=^(?: {2,}|More: ))gw(?= [a-z])/gm, program);
}

/** As a shell takes it for one word. */
export function shellWord(text: string): string {
  return /^[\w./:-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

function isWithin(folder: string, root: string): boolean {
  const way = relative(real(root), real(folder));
  return way === '' || !(way.startsWith('..') || isAbsolute(way));
}

function real(folder: string): string {
  try {
    return realpathSync(folder);
  } catch {
    return folder;
  }
}
