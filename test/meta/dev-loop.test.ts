// What watches the sources: a build that an error keeps as it was, a program that is started again, and which files
// import what.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { tempDir } from '../support/temp-dir.ts';

interface Built {
  readonly files: readonly string[];
  readonly isKept: boolean;
}

interface Watched {
  readonly root: string;
  stops?(path: string): boolean;
  onBuilt(built: Built): void;
  write(text: string): void;
}

interface Program {
  again(): void;
}

const script = async (name: string): Promise<unknown> => import(pathToFileURL(join(packageRoot(), 'scripts', name)).href);
const { watchBuild } = (await script('watched-build.mjs')) as { watchBuild(options: Watched): Promise<() => void> };
const { Restarted } = (await script('dev.mjs')) as {
  Restarted: new (options: { start(): ChildProcess; write(text: string): void }) => Program;
};
const { Imports } = (await script('import-closure.mjs')) as {
  Imports: new () => { below(file: string): ReadonlySet<string>; circle(file: string): readonly string[] | undefined };
};

/** What is handed over one after the other, to a reader that waits for each. */
class Told<T> {
  readonly #waiting: ((value: T) => void)[] = [];
  readonly #told: T[] = [];

  tell(value: T): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#told.push(value);
    else next(value);
  }

  async next(): Promise<T> {
    const first = this.#told.shift();
    return first ?? new Promise((resolve) => this.#waiting.push(resolve));
  }
}

t.test('a change is compiled, an error in the sources keeps the build as it was, and one elsewhere does not', async (t) => {
  const root = tempDir(t);
  const compilerOptions = { module: 'nodenext', outDir: 'build', rootDir: '.', types: [], strict: true, noLib: true, incremental: true };
  writeFileSync(join(root, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['src', 'test'] }));
  const global = [
    'Array',
    'Boolean',
    'CallableFunction',
    'Function',
    'IArguments',
    'NewableFunction',
    'Number',
    'Object',
    'RegExp',
    'String',
  ];
  const texts = {
    'src/global.d.ts': global.map((name) => `interface ${name}${name === 'Array' ? '<T>' : ''} {}`).join('\n'),
    'src/main.ts': 'export const at: number = 1;\n',
    'test/main.ts': 'export const other: number = 1;\n',
  };
  for (const name of ['src', 'test']) mkdirSync(join(root, name));
  for (const [name, text] of Object.entries(texts)) writeFileSync(join(root, name), text);
  const told = new Told<Built>();
  let said = '';
  const write = (text: string): void => {
    said += text;
  };
  const close = await watchBuild({ root, stops: (path) => path.startsWith('src/'), onBuilt: (built) => told.tell(built), write });
  t.teardown(close);
  const built = (name: string): string => join(root, 'build', name);
  t.strictSame(await told.next(), { files: [built('src/main.js'), built('test/main.js')], isKept: false });
  writeFileSync(join(root, 'src/main.ts'), "export const at: number = '2';\n");
  t.strictSame(await told.next(), { files: [], isKept: true });
  t.match(said, /src\/main\.ts\(1,14\): error TS2322/);
  writeFileSync(join(root, 'src/main.ts'), 'export const at: number = 2;\n');
  t.strictSame(await told.next(), { files: [built('src/main.js')], isKept: false });
  said = '';
  writeFileSync(join(root, 'test/main.ts'), "export const other: number = '2';\n");
  t.strictSame(await told.next(), { files: [built('test/main.js')], isKept: false });
  t.match(said, /test\/main\.ts\(1,14\): error TS2322/);
});

t.test('a program is started again when the last one has ended, and once, however often it is asked for meanwhile', async (t) => {
  const started = new Told<ChildProcess>();
  const said = new Told<string>();
  const ended: (number | null)[] = [];
  const start = (): ChildProcess => {
    const child = spawn(
      process.execPath,
      ['-e', "process.on('SIGTERM', () => process.exit(3)); console.log('ready'); setInterval(() => {}, 1e6)"],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    );
    t.teardown(() => child.kill('SIGKILL'));
    child.once('exit', (code) => ended.push(code));
    child.stdout.once('data', () => started.tell(child));
    return child;
  };
  const program = new Restarted({ start, write: (text) => said.tell(text) });
  const first = await started.next();
  program.again();
  program.again();
  const second = await started.next();
  t.not(second.pid, first.pid);
  t.strictSame(ended, [3], 'the first has ended by then');
  second.kill('SIGKILL');
  t.match(await said.next(), 'dev: the gateway has ended (SIGKILL); the next change starts it again');
  program.again();
  t.not((await started.next()).pid, second.pid);
  t.strictSame(ended, [3, null]);
});

t.test('what a file leads to is found in its text, and a circle through it', async (t) => {
  const root = tempDir(t);
  const texts = {
    'a.ts': "import { b } from './b.ts';\nimport type { D } from './d.ts';",
    'b.ts': "export * from './c.ts';\nimport './gone.ts';",
    'c.ts': "const { a } = await import('./a.ts');",
    'd.ts': 'export type D = 1;',
  };
  for (const [name, text] of Object.entries(texts)) writeFileSync(join(root, name), text);
  const imports = new Imports();
  const names = (files: Iterable<string> | undefined): readonly string[] | undefined => files && [...files].map((file) => file.slice(-4));
  t.strictSame(names(imports.below(join(root, 'a.ts'))), ['a.ts', 'b.ts', 'd.ts', 'c.ts']);
  t.strictSame(names(imports.circle(join(root, 'a.ts'))), ['a.ts', 'b.ts', 'c.ts', 'a.ts']);
  t.equal(imports.circle(join(root, 'd.ts')), undefined);
});
