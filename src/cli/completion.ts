import { type Command, EXIT_OK, UsageError } from './command.ts';
import { findCommand, nextWords } from './find-command.ts';

const SCRIPTS: Readonly<Record<string, string>> = {
  bash: `_gw() { local IFS=$'\\n'; COMPREPLY=($(gw complete "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)); }
complete -o default -F _gw gw
`,
  zsh: `#compdef gw
_gw() { compadd -- \${(f)"$(gw complete "\${(@)words[2,CURRENT]}" 2>/dev/null)"} }
compdef _gw gw
`,
  fish: `complete -c gw -f -a '(gw complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
`,
};
const SHELLS = Object.keys(SCRIPTS).join(', ');

/** Prints what a shell reads to complete commands, options and their words. */
export const completion: Command = {
  name: 'completion',
  usage: 'bash|zsh|fish',
  summary: 'Prints the completion of a shell: source <(gw completion bash).',
  run(args, io) {
    const script = args.length === 1 && Object.hasOwn(SCRIPTS, args[0] ?? '') ? SCRIPTS[args[0] ?? ''] : undefined;
    if (script === undefined) return Promise.reject(new UsageError(`it takes one of ${SHELLS}`));
    io.stdout(script);
    return Promise.resolve(EXIT_OK);
  },
};

/**
 * What may stand at the end of a command line, from the names and the usage texts of the commands.
 * @param words behind `gw`; the last one is being typed, and may be empty
 */
export function completions(words: readonly string[], commands: readonly Command[]): string[] {
  const before = words.slice(0, -1);
  const typed = words.at(-1) ?? '';
  const found = before.length === 0 ? undefined : findCommand(before, commands);
  const candidates =
    found !== undefined && 'command' in found ? within(found.command, found.args.at(-1)) : nextWords(before.join(' '), commands);
  return candidates.filter((one) => one.startsWith(typed)).sort();
}

function within({ usage }: Command, previous: string | undefined): string[] {
  const values = new Map([...usage.matchAll(/--([\w.-]+)(?: ([^\s\]]+))?/g)].map(([, name = '', value = '']) => [`--${name}`, value]));
  const words = values.get(previous ?? '')?.replace(/\.\.\.$/, '') ?? '';
  if (words.includes('|')) return words.split('|');
  return words === '' ? [...values.keys(), '--help'] : [];
}
