// Runs commands of `gw`, one at a time, each in the folder that its shell is in. The argument is the socket on which it
// is asked; the path of a request is the folder that has what was typed and gets what is said (typed-commands.ts).
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import type { CliIo } from '../../src/cli/command.ts';
import { runCli } from '../../src/cli/run.ts';

/** A command that throws has printed its stack, as the program does. */
const FAILED = 1;

async function runTyped(typed: string): Promise<number> {
  const given = (name: string) => readFileSync(join(typed, name));
  const parts = (name: string) => given(name).toString('utf8').split('\0').slice(0, -1);
  const said = { stdout: '', stderr: '' };
  const io: CliIo = {
    stdout(text) {
      said.stdout += text;
    },
    stderr(text) {
      said.stderr += text;
    },
    stdin: () => Promise.resolve(given('stdin')),
    async *stdinLines() {
      await Promise.resolve();
      yield* given('stdin').toString('utf8').split('\n');
    },
    columns: undefined,
    program: 'gw',
    env: Object.fromEntries(parts('variables').map((one) => [one.slice(0, one.indexOf('=')), one.slice(one.indexOf('=') + 1)])),
    colours: false,
  };
  process.chdir(given('folder').toString('utf8').trimEnd());
  const code = await runCli(parts('words'), io).catch((error: unknown) => {
    io.stderr(error instanceof Error ? String(error.stack) : String(error));
    return FAILED;
  });
  for (const [name, text] of Object.entries(said)) writeFileSync(join(typed, name), text);
  return code;
}

let last: Promise<unknown> = Promise.resolve();
const server = createServer((request, response) => {
  const code = last.then(() => runTyped(String(request.url)));
  last = code.then(
    (value) => response.end(String(value)),
    (error: unknown) => response.destroy(error instanceof Error ? error : undefined),
  );
});
server.listen(process.argv[2], () => process.stdout.write('ready\n'));
