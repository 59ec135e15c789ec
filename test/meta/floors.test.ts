/*
 * Tests about the project itself: its rules bite, its documents and tables agree. What lives here reads the tree, it
 * does not run the product.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';

interface Floors {
  readonly floors: readonly { readonly floor: number; readonly rooms: readonly string[] }[];
  readonly pure: { readonly rooms: readonly string[] };
  readonly strangers: readonly string[];
  readonly adapters: { readonly rooms: readonly string[]; readonly importers: readonly string[] };
  readonly packages: Readonly<Record<string, readonly string[]>>;
}

interface CruiseResult {
  readonly modules: readonly { readonly source: string; readonly dependencies: readonly { readonly resolved: string }[] }[];
  readonly summary: {
    readonly totalCruised: number;
    readonly violations: readonly { readonly from: string; readonly rule: { readonly name: string } }[];
  };
}

const root = packageRoot();
const floors = JSON.parse(readFileSync(join(root, 'scripts', 'floors.json'), 'utf8')) as Floors;

function cruise(folder: string): CruiseResult {
  const linter = join(root, 'node_modules', 'dependency-cruiser', 'bin', 'dependency-cruise.mjs');
  const run = spawnSync(process.execPath, [linter, 'src', '--config', '.dependency-cruiser.cjs', '--output-type', 'json'], {
    cwd: folder,
    encoding: 'utf8',
    maxBuffer: 256 * 1024 * 1024,
  });
  if (run.stdout === '') throw new Error(run.stderr);
  return JSON.parse(run.stdout) as CruiseResult;
}

function sourceFiles(): string[] {
  return readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => `src/${file.replaceAll('\\', '/')}`);
}

/** One room of each line of the table that a wildcard stands for, so that planted files land in real rooms. */
const WILDCARD_ROOMS: Readonly<Record<string, string>> = {
  'surfaces/*': 'surfaces/api',
  'decide/*': 'decide/policy',
};

/**
 * Files that no other one of src/ imports: programs, threads, what is for the reference pages, and what only the
 * compiler reads.
 */
const ENTRIES = [
  'src/base/catalogue/price-list/list-worker.ts',
  'src/base/lib/yaml-worker.ts',
  'src/base/model/bounds.ts',
  'src/main.ts',
  'src/mcp-main.ts',
  'src/outbound/net/undici-client.d.ts',
];

interface Plant {
  readonly rule: string;
  readonly room: string;
  readonly text: string;
}

/** What stands in the file `planted-target.ts` of each room. */
const TARGET = 'export const target: number = 1;\nexport type Target = number;\n';

const value = (path: string): string => `import { target } from '${path}';\nexport const used: number = target;\n`;
const typeOnly = (path: string): string => `import type { Target } from '${path}';\nexport type Used = Target;\n`;
const named = (name: string): string => `import * as planted from '${name}';\nexport const used: unknown = planted;\n`;

const PLANTS: readonly Plant[] = [
  { rule: 'looks-down', room: 'decide/policy', text: value('../../services/money/planted-target.ts') },
  { rule: 'looks-down', room: 'decide/policy', text: typeOnly('../../services/money/planted-target.ts') },
  {
    rule: 'looks-down',
    room: 'pipeline/line',
    text: `export const used: Promise<unknown> = import('../../inbound/listener/planted-target.ts');\n`,
  },
  { rule: 'looks-down', room: 'services/money', text: `export { target } from '../../pipeline/stages/planted-target.ts';\n` },
  { rule: 'looks-down', room: 'pipeline/stages', text: value('../line/planted-target.ts') },
  { rule: 'strangers', room: 'pipeline/stages', text: value('./planted-target.ts') },
  { rule: 'looks-down', room: 'base/model', text: value('../lib/planted-target.ts') },
  { rule: 'looks-down', room: 'cli', text: value('../main.ts') },
  { rule: 'no-neighbours', room: 'services/people', text: value('../review/planted-target.ts') },
  { rule: 'looks-down', room: 'services/money', text: typeOnly('../people/planted-target.ts') },
  { rule: 'no-neighbours', room: 'decide/policy', text: value('../../base/config/planted-target.ts') },
  { rule: 'no-neighbours', room: 'decide/policy', text: typeOnly('../../storage/contract/planted-target.ts') },
  { rule: 'no-neighbours', room: 'decide/policy', text: value('../pricing/planted-target.ts') },
  { rule: 'no-neighbours', room: 'surfaces/api', text: value('../metrics/planted-target.ts') },
  { rule: 'no-neighbours', room: 'inbound/reply', text: value('../normalise/planted-target.ts') },
  { rule: 'pure-rooms-touch-no-io', room: 'decide/policy', text: named('node:fs') },
  { rule: 'pure-rooms-touch-no-io', room: 'inbound/normalise', text: named('node:http') },
  { rule: 'pure-rooms-touch-no-io', room: 'base/model', text: named('node:process') },
  { rule: 'drivers-in-one-place', room: 'services/money', text: value('../../storage/embedded/planted-target.ts') },
  { rule: 'drivers-in-one-place', room: 'cli', text: value('../storage/embedded/planted-target.ts') },
  { rule: 'drivers-in-one-place', room: 'app', text: typeOnly('../storage/embedded/planted-target.ts') },
  { rule: 'drivers-in-one-place', room: 'control-plane/app', text: value('../../storage/leaves/planted-target.ts') },
  { rule: 'every-package-has-a-room', room: 'services/money', text: named('eslint') },
  { rule: 'test-packages-stay-in-test', room: 'base/lib', text: named('tap') },
  { rule: 'src-stands-alone', room: 'app', text: value('../../test/planted-target.ts') },
  { rule: 'src-stands-alone', room: 'app', text: value('../../bench/planted-target.ts') },
  { rule: 'every-file-has-a-room', room: 'utils', text: value('../base/lib/planted-target.ts') },
  { rule: 'imports-resolve', room: 'app', text: value('./not-there.ts') },
  ...Object.entries(floors.packages).flatMap(([room, names]) =>
    names.map((name) => ({
      rule: 'one-package-one-room',
      room: room === 'outbound/net' ? 'surfaces/http' : 'outbound/net',
      text: named(name),
    })),
  ),
];

t.test('the tree keeps to the floors, and the linter has really seen it', async (t) => {
  const files = sourceFiles();
  const { modules, summary } = cruise(root);
  t.strictSame(
    summary.violations.map(({ rule, from }) => `${rule.name}: ${from}`),
    [],
  );
  const seen = new Set(modules.map((module) => module.source));
  t.strictSame(
    files.filter((file) => !seen.has(file)),
    [],
    'an unparsable or empty tree would pass silently',
  );
  t.ok(summary.totalCruised >= files.length);
  const imported = new Set(modules.flatMap(({ dependencies }) => dependencies.map(({ resolved }) => resolved)));
  t.strictSame(files.filter((file) => !imported.has(file)).sort(), ENTRIES, 'a file that nothing imports');
});

t.test('every room that the rules name is there, and stands in a line of floors', async (t) => {
  const rooms = floors.floors.flatMap((floor) => floor.rooms);
  const missing = rooms.filter((room) => !existsSync(join(root, 'src', room.replace(/\/\*$/, ''))));
  t.strictSame(missing, []);
  const ruled = [
    floors.pure.rooms,
    floors.strangers,
    floors.adapters.rooms,
    floors.adapters.importers,
    Object.keys(floors.packages),
  ].flat();
  const unknown = ruled.filter((room) => !rooms.includes(room) && !rooms.includes(`${dirname(room)}/*`));
  t.strictSame(unknown, []);
});

t.test('ARCHITECTURE.md has every room on its floor, from the top down', async (t) => {
  const text = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8');
  const lines = [...text.matchAll(/^\| ([\d.]+) \| (`[^|]+`) \|/gm)].map(([, floor, rooms = '']) => ({
    floor: Number(floor),
    rooms: [...rooms.matchAll(/`([^`]+)`/g)].map(([, room = '']) => room),
  }));
  const told = lines.flatMap(({ floor, rooms }) => rooms.map((room) => `${floor} ${room}`));
  // Those of the pipeline are one line there, and told in their order below the table.
  const ruled = floors.floors.flatMap(({ floor, rooms }) =>
    rooms.filter((room) => !room.startsWith('pipeline/')).map((room) => `${floor} ${room}`),
  );
  t.strictSame(told.filter((one) => one !== '6 pipeline/*').sort(), [...ruled].sort());
  t.ok(told.includes('6 pipeline/*'));
  t.strictSame(
    lines.map(({ floor }) => floor),
    lines.map(({ floor }) => floor).sort((a, b) => b - a),
  );
  const [, pipeline = ''] = /^Inside `pipeline\/` it goes down in this order: ([\s\S]*?)\.\s*No stage/m.exec(text) ?? [];
  t.strictSame(
    [...pipeline.matchAll(/`([a-z]+(?:\/|\.ts))`/g)].map(([, room = '']) => `pipeline/${room.replace(/\/$/, '')}`),
    floors.floors.flatMap(({ rooms }) => rooms.filter((room) => room.startsWith('pipeline/'))),
  );
});

// Holds: pure-rooms-are-pure, packages-have-a-room
t.test('every kind of violation is caught where it is planted', async (t) => {
  const copy = mkdtempSync(join(tmpdir(), 'gw-floors-'));
  t.teardown(() => rmSync(copy, { recursive: true, force: true }));
  for (const name of ['src', 'tsconfig.json', 'package.json', '.dependency-cruiser.cjs', 'scripts'])
    cpSync(join(root, name), join(copy, name), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
  const write = (file: string, text: string): void => {
    mkdirSync(dirname(join(copy, file)), { recursive: true });
    writeFileSync(join(copy, file), text);
  };

  const rooms = floors.floors.flatMap((floor) => floor.rooms).map((room) => WILDCARD_ROOMS[room] ?? room);
  for (const room of [...rooms, 'decide/pricing', 'surfaces/metrics'])
    if (!room.endsWith('.ts')) write(`src/${room}/planted-target.ts`, TARGET);
  for (const folder of ['test', 'bench']) write(`${folder}/planted-target.ts`, TARGET);
  write('src/main.ts', TARGET);
  const planted = PLANTS.map((plant, index) => ({ ...plant, file: `src/${plant.room}/planted-${index}.ts` }));
  for (const { file, text } of planted) write(file, text);
  write('src/base/model/planted-ring-a.ts', `import type { B } from './planted-ring-b.ts';\nexport type A = B | 1;\n`);
  write('src/base/model/planted-ring-b.ts', `import type { A } from './planted-ring-a.ts';\nexport type B = A | 2;\n`);

  const found = new Set(cruise(copy).summary.violations.map(({ rule, from }) => `${rule.name}: ${from}`));
  for (const { rule, file, text } of planted) t.ok(found.has(`${rule}: ${file}`), `${rule}: ${text.split('\n')[0] ?? ''} in ${file}`);
  t.ok(found.has('no-cycles: src/base/model/planted-ring-a.ts'), 'a ring of type imports');
  for (const violation of found) t.notMatch(violation, /planted-target\.ts$/, 'what breaks no rule is let through');
});
