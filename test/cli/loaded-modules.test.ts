// What a command does not use it does not load: each module costs time, and Node opens many files at once.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { run } from '../support/child.ts';
import { MAIN } from '../support/gateway-process.ts';
import { tempDir } from '../support/temp-dir.ts';

const HOOKS = `import { writeSync } from 'node:fs';
export async function load(url, context, next) {
  writeSync(2, 'loaded ' + url + '\\n');
  return next(url, context);
}
`;

const TOO_FEW = 'this shell allows too few open files to load the program: "ulimit -n 4096" before it allows more.';

/** Of the gateway itself, its stores, and the schemas of its operations. */
const LARGE =
  /build\/src\/(app|pipeline|storage\/(embedded|postgres)|surfaces)\/|operations\/operation\.js|node_modules\/(level|pg|zod|nodemailer)\//;

t.test('commands that neither start a gateway nor ask by operations load neither', async (t) => {
  const folder = tempDir(t);
  const [hooks, register] = [join(folder, 'hooks.mjs'), join(folder, 'register.mjs')];
  writeFileSync(hooks, HOOKS);
  writeFileSync(register, `import { register } from 'node:module';\nregister(${JSON.stringify(pathToFileURL(hooks).href)});\n`);
  const loadedBy = async (...args: string[]): Promise<readonly string[]> => {
    const { stderr } = await run(t, process.execPath, ['--import', register, MAIN, ...args], { env: { HOME: folder } });
    return [...stderr.matchAll(/^loaded (.+)$/gm)].map(([, url = '']) => url);
  };
  for (const args of [['version'], ['demo', '--help'], ['env'], ['verify', join(folder, 'none.json')], ['approvals', 'show', '--help']]) {
    const loaded = await loadedBy(...args);
    t.ok(loaded.length > 30, 'the hook counts');
    t.strictSame(
      loaded.filter((url) => LARGE.test(url)),
      [],
      args.join(' '),
    );
  }
  t.ok(
    (await loadedBy('help')).some((url) => LARGE.test(url)),
    'what needs the operations loads them',
  );
});

t.test('a shell that allows too few open files is told so, where Node needs more', async (t) => {
  for (const program of ['gw', 'gw-mcp']) {
    const file = join(packageRoot(), 'bin', `${program}.mjs`);
    const { code, stderr } = await run(t, 'sh', ['-c', 'ulimit -n 48; exec "$@"', 'sh', process.execPath, file, '--help'], {
      env: { HOME: tempDir(t) },
    });
    // Later versions of Node may read modules one after the other.
    if (code === 0) t.equal(stderr, '');
    else t.same({ code, stderr }, { code: 2, stderr: `${program}: ${TOO_FEW}\n` });
  }
});
