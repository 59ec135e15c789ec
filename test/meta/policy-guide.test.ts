import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { gw } from '../support/run-gw.ts';
import { tempDir } from '../support/temp-dir.ts';

/*
 * The guide to the policy language, followed word by word in an empty folder: each block with a file name is saved,
 * each console block is run and compared.
 */
const GUIDE = readFileSync(join(packageRoot(), 'docs', 'guides', 'policy.md'), 'utf8');

/** Commands of the guide that answer "no". */
const ANSWERS_NO = [
  'gw policy check broken.yaml',
  'gw policy check doubtful.yaml --strict',
  'gw policy check nothing.yaml',
  'gw policy test wrong.yaml',
];

t.test('every file and every output of the guide is as it says', async (t) => {
  const dir = tempDir(t);
  const before = process.cwd();
  process.chdir(dir);
  t.teardown(() => process.chdir(before));
  let ran = 0;
  for (const [, kind, file, body = ''] of GUIDE.matchAll(/^```(yaml|console)(?: (\S+))?\n([\s\S]*?)^```$/gm)) {
    if (kind === 'yaml' && file !== undefined) {
      mkdirSync(dirname(join(dir, file)), { recursive: true });
      writeFileSync(join(dir, file), body);
    }
    if (kind !== 'console') continue;
    const command = /^\$ gw (.*)\n/.exec(body)?.[1] ?? '';
    const { code, out, err } = await gw(command.split(' '));
    t.equal(out + err, body.slice(body.indexOf('\n') + 1), `gw ${command}`);
    t.equal(code, ANSWERS_NO.includes(`gw ${command}`) ? 1 : 0, `gw ${command}: exit code`);
    ran++;
  }
  t.ok(ran >= 10);
  for (const command of ANSWERS_NO) t.match(GUIDE, `$ ${command}\n`);
  const tidy = await gw(['policy', 'fmt', '--check', 'policies']);
  t.equal(tidy.code, 0, `what a reader copies is formatted: ${tidy.out}`);
});

t.test('every file of the guide is shown with its name, and every command that it names exists', async (t) => {
  const help = (await gw(['help', '--json'])).out;
  for (const [, name = ''] of GUIDE.matchAll(/gw policy ([a-z]+)/g)) t.match(help, `"policy ${name}"`, name);
  const unnamed = [...GUIDE.matchAll(/^```yaml\n([\s\S]*?)^```$/gm)].filter(([, body = '']) => body.includes('schema:'));
  t.same(unnamed, []);
});
