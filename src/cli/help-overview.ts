import type { CliIo, Command } from './command.ts';
import { inGroup, nextWords } from './find-command.ts';
import { folded, foldedLines, foldedUsage, USUAL_WIDTH } from './folded-text.ts';
import { asTyped } from './program-name.ts';

/**
 * What people come with, and the commands for it by their names or the beginnings of their names. What stands in none
 * of these is listed behind them.
 */
const PURPOSES: readonly (readonly [title: string, names: readonly string[]])[] = [
  ['Begin', ['demo', 'init', 'start', 'status', 'trust', 'ca', 'doctor']],
  ['Point programs at it', ['run', 'env']],
  ['See what happens', ['logs', 'records', 'replay', 'verify', 'domains', 'dashboard', 'spend', 'billing', 'audit', 'nodes']],
  ['Policy', ['policy', 'policies', 'providers', 'connectors', 'addons', 'risk']],
  [
    'Who may call, and for whom',
    ['workloads', 'api-keys', 'keys', 'credentials', 'delegate', 'delegations', 'projects', 'org-defaults', 'attribution', 'quarantine'],
  ],
  ['Money and limits', ['budgets', 'ratelimit', 'pricing', 'prices', 'monthly']],
  ['People decide, and are told', ['approvals', 'alerts', 'exports']],
  ['Many gateways', ['control-plane']],
  ['Keep it running', ['secrets', 'journal', 'storage', 'telemetry']],
  ['About this program', ['help', 'version', 'completion']],
];

/** Of the column of names, in characters. */
const WIDTH = 20;
/** No line is wider: long ones are hard to read. */
const LINE = 100;
/** Of a group that has more, the words that follow its name are shown alone. */
const MOST_VERBS = 12;

/** All commands at a glance: one line for each, and one for a group of them. */
export function overview(commands: readonly Command[], { columns = USUAL_WIDTH, program }: Pick<CliIo, 'columns' | 'program'>): string {
  const width = Math.min(columns, LINE);
  const firsts = [...new Set(commands.map(({ name }) => firstWord(name)))];
  const placed = new Set(PURPOSES.flatMap(([, names]) => names));
  const sections = [...PURPOSES, ['More', firsts.filter((first) => !placed.has(first))] as const];
  const texts = sections.flatMap(([title, names]) => {
    const lines = names
      .filter((name) => firsts.includes(name))
      .map((name) => entry(name, commands, (text) => asTyped(text, program), width));
    return lines.length === 0 ? [] : [`${title}:\n${lines.join('')}`];
  });
  const [first, last] = [
    'usage: gw COMMAND [ARGUMENTS]',
    '"gw help COMMAND" says how one is used. Settings are GW_* variables: docs/reference/settings.md.',
  ].map((text) => asTyped(text, program));
  return `${first}\n\n${texts.join('\n')}\n${foldedLines(last ?? '', width)}\n`;
}

function entry(first: string, commands: readonly Command[], typed: (text: string) => string, width: number): string {
  const own = commands.find(({ name }) => name === first);
  const all = commands.filter(({ name }) => name.startsWith(`${first} `)).map(({ name }) => name.slice(first.length + 1));
  const verbs = all.length > MOST_VERBS ? nextWords(first, commands) : all;
  const parts = [own === undefined ? [] : [firstSentence(own.summary)], verbs.length === 0 ? [] : [verbs.join(', ')]].flat();
  const [start, ...words] = typed(parts.join('; ')).split(' ');
  return `${folded([`  ${first.padEnd(WIDTH)}${start}`, ...words], width, ' '.repeat(WIDTH + 2))}\n`;
}

function firstWord(name: string): string {
  return name.split(' ', 1)[0] ?? name;
}

/** Up to the first sign after which only details come. */
function firstSentence(summary: string): string {
  return /^.*?(?=[.;](?:\s|$)|$)/.exec(summary)?.[0] ?? summary;
}

/* What `--help` prints: how one command is used, and what commands a group has, in lines as wide as the terminal. */
type Place = Pick<CliIo, 'columns' | 'program'>;

const HANG = '    ';

/** The usage line of a command, for a place where texts are not typed out again. */
export function usageText({ name, usage }: Pick<Command, 'name' | 'usage'>, { columns = USUAL_WIDTH, program }: Place): string {
  return `${foldedUsage(asTyped(`usage: gw ${name} ${usage}`.trimEnd(), program), columns, ' '.repeat('usage: '.length))}\n`;
}

/** How a command is used, what it does, and its options. */
export function commandHelp(command: Command, place: Place): string {
  const { summary, help = '' } = command;
  return usageText(command, place) + foldedLines(asTyped(`${summary}\n${help}`, place.program), place.columns ?? USUAL_WIDTH);
}

/** The commands of one group, such as `gw policy`. */
export function groupHelp(group: string, commands: readonly Command[], { columns = USUAL_WIDTH, program }: Place): string {
  return inGroup(group, commands)
    .map(({ name, usage, summary }) => {
      const used = foldedUsage(asTyped(`gw ${name} ${usage}`.trimEnd(), program), columns, HANG + HANG);
      return `${used}\n${foldedLines(asTyped(HANG + summary, program), columns)}\n`;
    })
    .join('');
}
