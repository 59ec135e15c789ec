import { nearestName } from '../base/lib/mistakes.ts';
import type { Command } from './command.ts';

/** What a command line asks for. */
export type Found =
  | { readonly command: Command; readonly args: readonly string[] }
  /** The beginning of several names. */
  | { readonly group: string }
  | { readonly unknown: string; readonly nearest: string | undefined };

/** Words that mean the same at the end of a command; the operation has one of them. */
const SAME_VERBS: readonly (readonly string[])[] = [
  ['read', 'get', 'show'],
  ['remove', 'delete', 'revoke'],
  ['update', 'change', 'patch', 'set', 'put', 'configure'],
];

/** What a group does when nothing is said behind it, where it has such a command. */
const USUAL_VERBS = ['read', 'summary'];

/** The command that begins a command line: the longest name that fits. */
export function findCommand(argv: readonly string[], commands: readonly Command[]): Found {
  const words = leadingWords(argv);
  for (let count = words.length; count > 0; count -= 1) {
    const command = named(words.slice(0, count), commands);
    if (command !== undefined) return { command, args: argv.slice(count) };
  }
  const count = groupLength(words, commands);
  const group = words.slice(0, count).join(' ');
  if (count > 0 && words.length === count) {
    const usual = usualOf(group, commands);
    return usual === undefined || argv[count] === '--help' ? { group } : { command: usual, args: argv.slice(count) };
  }
  if (count > 0 && words[count] === 'help') return { group };
  const near = nearestName(words[count] ?? '', nextWords(group, commands));
  return { unknown: words.slice(0, count + 1).join(' '), nearest: near === undefined ? undefined : `${group} ${near}`.trim() };
}

/** The commands whose names begin with these words. */
export function inGroup(group: string, commands: readonly Command[]): readonly Command[] {
  return commands.filter(({ name }) => name.startsWith(`${group} `));
}

/** The words that may follow these. */
export function nextWords(group: string, commands: readonly Command[]): readonly string[] {
  const start = group === '' ? '' : `${group} `;
  return [
    ...new Set(commands.filter(({ name }) => name.startsWith(start)).map(({ name }) => name.slice(start.length).split(' ', 1)[0] ?? '')),
  ];
}

function leadingWords(argv: readonly string[]): readonly string[] {
  const end = argv.findIndex((arg) => arg.startsWith('-'));
  return end < 0 ? argv : argv.slice(0, end);
}

function named(words: readonly string[], commands: readonly Command[]): Command | undefined {
  const [start, last = ''] = [words.slice(0, -1), words.at(-1)];
  const verbs = [last, ...(SAME_VERBS.find((same) => same.includes(last)) ?? [])];
  for (const verb of verbs) {
    const command = commands.find(({ name }) => name === [...start, verb].join(' '));
    if (command !== undefined) return command;
  }
  return undefined;
}

/** How many of the words are the beginning of names. */
function groupLength(words: readonly string[], commands: readonly Command[]): number {
  for (let count = words.length; count > 0; count -= 1) if (inGroup(words.slice(0, count).join(' '), commands).length > 0) return count;
  return 0;
}

function usualOf(group: string, commands: readonly Command[]): Command | undefined {
  const all = inGroup(group, commands);
  const found = all.find(({ name, usual }) => usual === true || USUAL_VERBS.includes(name.slice(group.length + 1)));
  // One that has to be told what to read is no answer to its group alone.
  return found !== undefined && /^[A-Z-]/.test(found.usage) ? undefined : found;
}
