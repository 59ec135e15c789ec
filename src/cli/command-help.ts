/* What `--help` prints: how one command is used, and what commands a group has, in lines as wide as the terminal. */
import type { CliIo, Command } from './command.ts';
import { inGroup } from './find-command.ts';
import { foldedLines, foldedUsage, USUAL_WIDTH } from './folded-text.ts';
import { asTyped } from './program-name.ts';

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
