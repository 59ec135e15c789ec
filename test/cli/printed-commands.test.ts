// Every command that the program prints, or a document shows, is one that its command line takes.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { findCommand } from '../../src/cli/find-command.ts';
import { allCommands } from '../../src/cli/run.ts';
import { gw } from '../support/run-gw.ts';

const commands = await allCommands();

function filesBelow(folder: string, ends: RegExp): readonly string[] {
  return readdirSync(join(packageRoot(), folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => ends.test(name))
    .map((name) => join(folder, name));
}

/** What stands behind `gw` as it is typed: words, and what follows them up to the end of the command. */
const SHOWN = /(?<![\w/.$-]|@param )gw ([a-z][a-z-]*(?: [a-z][a-z-]*){0,2})((?: (?:"[^"\n]*"|[^\s"`'|)(;&]+))*)/g;

/** What is wrong with a command that a text names; words behind a whole name are the text's own. */
function mistakeIn(words: string, behind: string): string | undefined {
  const named = words.split(' ');
  for (let count = named.length; count > 0; count -= 1) {
    const found = findCommand(named.slice(0, count), commands);
    if ('group' in found) return undefined;
    if (!('command' in found) || found.args.length > 0) continue;
    const { command } = found;
    if (command.wraps === true) return undefined;
    const unknown = [...behind.matchAll(/ (--[a-z][\w.-]*\w)/g)]
      .map(([, option = '']) => option)
      .filter((option) => !takes(command, option));
    return unknown.length === 0 ? undefined : `gw ${command.name} takes no ${unknown.join(', ')}`;
  }
  return `there is no gw ${words}`;
}

/** A member of a body may come from a file: `--X-from` (guide "Managing"). */
function takes({ usage, help = '' }: (typeof commands)[number], option: string): boolean {
  return option === '--help' || `${usage} ${help}`.includes(option.replace(/-from$/, ''));
}

/** A name inside the program, and what shells ask for by its completion: nobody types them. */
const NOT_COMMANDS: readonly string[] = ['gw secrets key', 'gw complete'];

t.test('in texts of the program, and in every document', (t) => {
  const documents = ['README.md', 'ARCHITECTURE.md', 'SECURITY.md', 'CONTRIBUTING.md', 'ca/README.md', 'policies/README.md'];
  const all = [
    ...documents,
    ...filesBelow('src', /\.(?:ts|js|html)$/),
    ...filesBelow('systemd', /\.(?:sh|service)$/),
    ...filesBelow('docs', /\.md$/),
  ];
  const wrong: string[] = [];
  let seen = 0;
  for (const file of all) {
    for (const [whole, words = '', behind = ''] of readFileSync(join(packageRoot(), file), 'utf8').matchAll(SHOWN)) {
      if (NOT_COMMANDS.some((one) => whole.startsWith(one))) continue;
      seen += 1;
      const mistake = mistakeIn(words, behind);
      if (mistake !== undefined) wrong.push(`${file}: ${mistake}`);
    }
  }
  t.strictSame(wrong, []);
  t.ok(seen > 300, `${seen} were seen`);
  t.end();
});

t.test('the search finds what is wrong', (t) => {
  t.equal(mistakeIn('doctor', ' --fro node'), 'gw doctor takes no --fro');
  t.equal(mistakeIn('polcy check', ''), 'there is no gw polcy check');
  t.equal(mistakeIn('prices accept takes', ' them'), undefined);
  t.equal(mistakeIn('run', ' -- claude --no-option-of-ours'), undefined);
  t.end();
});

t.test('every option of a usage line is taken by its command', async (t) => {
  for (const { name, usage } of commands) {
    for (const [, option = '', value] of usage.matchAll(/(?<![\w-])(--[a-z][\w.-]*)( [^\s\]-][^\s\]]*)?(?=[\s\]]|$)/g)) {
      const given = value === undefined ? [option] : [option, 'x'];
      const { code, err } = await gw([...name.split(' '), ...given, '--no-such-option']);
      t.equal(code, 2, `${name} ${option}`);
      t.notOk(err.includes(`there is no option ${option};`) || err.includes(`there is no option ${option}\n`), `${name} ${option}: ${err}`);
    }
  }
});
