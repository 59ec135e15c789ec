// What a script can read of the command line: `--json` on every command that prints data.
import t from 'tap';
import { allCommands } from '../../src/cli/run.ts';
import { gw } from '../support/run-gw.ts';

/** Commands without `--json`, and why they print no data. */
const NO_DATA: Readonly<Record<string, string>> = {
  start: 'it is the gateway: its standard output is the log, which is JSON already',
  'control-plane start': 'it is the control plane: its standard output is the log, which is JSON already',
  run: 'its standard output is that of the program it runs',
  completion: 'it prints a script that a shell runs',
};

const commands = await allCommands();
const takesJson = ({ usage }: { readonly usage: string }) => /\[--json\]/.test(usage);

t.test('every command takes --json, or prints no data', async (t) => {
  t.ok(commands.length > 100);
  t.strictSame(
    commands.filter((command) => !takesJson(command) && NO_DATA[command.name] === undefined).map(({ name }) => name),
    [],
  );
});

t.test('what is said to print no data exists, and takes no --json', async (t) => {
  for (const name of Object.keys(NO_DATA)) {
    const command = commands.find((one) => one.name === name);
    t.ok(command !== undefined && !takesJson(command), name);
    t.match(await gw([...name.split(' '), '--json']), { code: 2, out: '' }, `gw ${name} --json`);
  }
});

t.test('--json is parsed wherever the usage has it: the option behind it is the first that is not known', async (t) => {
  for (const { name } of commands.filter(takesJson)) {
    const { code, out, err } = await gw([...name.split(' '), '--json', '--no-such-option']);
    t.same({ code, out }, { code: 2, out: '' }, name);
    t.match(err, /^gw [\w -]+: there is no option --no-such-option/, name);
  }
});
