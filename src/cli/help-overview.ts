import type { Command } from './command.ts';

/** What people come with, and the commands for it by their names or the beginnings of their names. What stands in none of these is listed behind them. */
const PURPOSES: readonly (readonly [title: string, names: readonly string[]])[] = [
  ['Begin', ['demo', 'init', 'start', 'status', 'trust', 'ca', 'doctor']],
  ['Point programs at it', ['run', 'env']],
  ['See what happens', ['logs', 'records', 'verify', 'domains', 'dashboard', 'spend', 'billing', 'audit', 'nodes']],
  ['Policy', ['policy', 'policies', 'providers', 'connectors', 'addons', 'risk']],
  [
    'Who may call, and for whom',
    ['workloads', 'keys', 'credentials', 'delegate', 'delegations', 'projects', 'org-defaults', 'attribution', 'quarantine'],
  ],
  ['Money and limits', ['budgets', 'ratelimit', 'pricing', 'prices', 'monthly']],
  ['People decide, and are told', ['approvals', 'alerts', 'exports']],
  ['Many gateways', ['control-plane']],
  ['Keep it running', ['secrets', 'journal', 'telemetry']],
  ['About this program', ['help', 'version', 'completion']],
];

const WIDTH = 20;
const LINE = 100;

/** All commands at a glance: one line for each, and one for a group of them. */
export function overview(commands: readonly Command[]): string {
  const firsts = [...new Set(commands.map(({ name }) => firstWord(name)))];
  const placed = new Set(PURPOSES.flatMap(([, names]) => names));
  const sections = [...PURPOSES, ['More', firsts.filter((first) => !placed.has(first))] as const];
  const texts = sections.flatMap(([title, names]) => {
    const lines = names.filter((name) => firsts.includes(name)).map((name) => entry(name, commands));
    return lines.length === 0 ? [] : [`${title}:\n${lines.join('')}`];
  });
  return `usage: gw COMMAND [ARGUMENTS]\n\n${texts.join('\n')}\n"gw help COMMAND" says how one is used. Settings are GW_* variables: docs/reference/settings.md.\n`;
}

function entry(first: string, commands: readonly Command[]): string {
  const own = commands.find(({ name }) => name === first);
  const verbs = commands.filter(({ name }) => name.startsWith(`${first} `)).map(({ name }) => name.slice(first.length + 1));
  const parts = [own === undefined ? [] : [firstSentence(own.summary)], verbs.length === 0 ? [] : [verbs.join(', ')]].flat();
  return `  ${first.padEnd(WIDTH)}${shortened(parts.join('; '))}\n`;
}

function firstWord(name: string): string {
  return name.split(' ', 1)[0] ?? name;
}

/** Up to the first sign after which only details come. */
function firstSentence(summary: string): string {
  return /^.*?(?=[.;](?:\s|$)|$)/.exec(summary)?.[0] ?? summary;
}

function shortened(text: string): string {
  const room = LINE - WIDTH;
  return text.length <= room ? text : `${text.slice(0, text.lastIndexOf(' ', room - 1)).replace(/[,;]$/, '')} …`;
}
