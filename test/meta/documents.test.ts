import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import t from 'tap';
import { COMMAND_VARIABLES } from '../../src/base/config/command-variables.ts';
import { SETTINGS } from '../../src/base/config/settings.ts';
import { LATER_SETTINGS } from '../../src/base/config/settings-reader.ts';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { compilePolicy } from '../../src/decide/policy/compile.ts';

const root = packageRoot();

function documents(): { readonly file: string; readonly text: string }[] {
  const written = ['README.md', 'ARCHITECTURE.md', 'SECURITY.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'ca/README.md'];
  const below = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.md'))
    .map((file) => join('docs', file));
  return [...written, ...below].map((file) => ({ file, text: readFileSync(join(root, file), 'utf8') }));
}

function matches(text: string, pattern: RegExp): string[] {
  return [...text.matchAll(pattern)].map((match) => match[1] ?? '');
}

t.test('the README stays short enough to be read', async (t) => {
  t.ok(readFileSync(join(root, 'README.md'), 'utf8').split('\n').length <= 81);
});

/**
 * Documents that are written as CONTRIBUTING.md ("Code") asks; a folder ends with a slash. A document that is put right
 * is added here.
 */
const CLEANED = [
  'README.md',
  'ARCHITECTURE.md',
  'CONTRIBUTING.md',
  'docs/glossary.md',
  'docs/where-to-look.md',
  'docs/invariants.md',
  'docs/recipes.md',
];
/** Words that a reader stumbles over, and what to write. */
const STUMBLES: readonly (readonly [word: RegExp, instead: string])[] = [
  [/\bwhoever\b/i, 'those who'],
  [/\bof which\b/i, 'two sentences'],
  [/\bis none\b/i, 'is no …'],
  [/\bbeside\b/i, 'next to, besides'],
  [/\banew\b/i, 'again'],
  [/\bsomebody\b/i, 'a person'],
];

t.test('documents that are put right have lines of 120 columns, tables and links apart, and no word to stumble over', async (t) => {
  for (const file of CLEANED.filter((one) => existsSync(join(root, one)))) {
    const lines = readFileSync(join(root, file), 'utf8').split('\n');
    t.strictSame(
      lines.filter((line) => line.length > 120 && !/^ *\||\]\(|`test\//.test(line)),
      [],
      `${file} has long lines`,
    );
    const isGenerated = lines[0]?.includes('Generated') === true;
    for (const [word, instead] of isGenerated ? [] : STUMBLES)
      t.strictSame(
        lines.filter((line) => word.test(line)),
        [],
        `${file}: write ${instead}`,
      );
  }
});

t.test('every relative link of every document leads to a file', async (t) => {
  const broken = documents().flatMap(({ file, text }) =>
    matches(text, /\]\((?!https?:|#|mailto:)([^)#\s]+)[^)]*\)/g)
      .filter((target) => !existsSync(join(root, dirname(file), target)))
      .map((target) => `${file}: ${target}`),
  );
  t.strictSame(broken, []);
});

t.test('nothing tells people to install the package by a name that no registry has', async (t) => {
  const below = ['systemd', 'deploy', 'policies', 'preload', 'src', 'scripts'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name)),
  );
  const texts = [
    ...documents(),
    ...[...below, join(root, 'Dockerfile'), join(root, 'compose.yaml')].map((file) => ({ file, text: readFileSync(file, 'utf8') })),
  ];
  const told = texts.flatMap(({ file, text }) =>
    matches(
      text,
      /((?:npm (?:i|install|add|exec)|npx|yarn add|pnpm add)\b[^\n`#]*\s(?:ai-request-gateway|gw|gw-mcp)(?:@\S+)?(?=[\s`]|$))/gm,
    )
      .filter((line) => !/--no\b|--no-install\b|--package=\S*\.tgz/.test(line))
      // In a clone npm takes the program of the folder for this name, and asks no registry.
      .filter((line) => line !== 'npx gw')
      .map((line) => `${file}: ${line}`),
  );
  t.strictSame(told, []);
});

const UNITS = ['systemd/ai-request-gateway.service', 'systemd/ai-request-gateway.socket'];

t.test('every path of the project that a document names in its text exists', async (t) => {
  const broken = documents().flatMap(({ file, text }) =>
    matches(text, /`((?:src|scripts|policies|docs|systemd)\/[\w./-]+\.(?:ts|mjs|cjs|json|ya?ml|md|csv|service|socket))`/g)
      .filter((path) => !existsSync(join(root, path)))
      .map((path) => `${file}: ${path}`),
  );
  t.strictSame(broken, []);
});

t.test('every source file that a document names by the end of its path is there', async (t) => {
  const below = (folder: string): string[] =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((file) => `/${file}`);
  const sources = ['src', 'test', 'bench'].flatMap(below);
  const broken = documents().flatMap(({ file, text }) =>
    matches(text, /`([\w./-]+\.ts)`/g)
      .filter((path) => !existsSync(join(root, path)) && !sources.some((source) => source.endsWith(`/${path}`)))
      .map((path) => `${file}: ${path}`),
  );
  t.strictSame(broken, []);
});

t.test('ARCHITECTURE.md fits twelve kilobytes, and every file and folder that it and docs/where-to-look.md name is there', async (t) => {
  t.ok(readFileSync(join(root, 'ARCHITECTURE.md')).length <= 12_288);
  const places = ['src', 'test', 'scripts', 'docs', 'deploy', 'policies', 'systemd'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((file) => `/${folder}/${file}`),
  );
  const texts = ['ARCHITECTURE.md', 'docs/where-to-look.md'].map((file) => readFileSync(join(root, file), 'utf8'));
  const rows = texts.flatMap((text) => matches(text, /^\| (?!\d)(.+) \|$/gm));
  const named = rows.flatMap((row) => matches(row, /`((?:src|test|docs|scripts|deploy)\/[\w./-]*|[\w-]+\.(?:ts|mjs|json|ya?ml|md))`/g));
  t.ok(named.length > 50);
  t.strictSame(
    named.filter((path) => !existsSync(join(root, path)) && !places.some((place) => place.endsWith(`/${path}`))),
    [],
  );
});

t.test('the list of ADRs has each of them by its number and title', async (t) => {
  const folder = join(root, 'docs', 'adr');
  const rows = readdirSync(folder)
    .filter((file) => file !== 'README.md')
    .sort()
    .map((file) => {
      const [, number = '', title = ''] = /^# (\d+)\. (.+)$/m.exec(readFileSync(join(folder, file), 'utf8')) ?? [];
      t.ok(file.startsWith(`${number.padStart(4, '0')}-`), file);
      return `| ${number} | [${title}](${file}) |`;
    });
  t.strictSame(readFileSync(join(folder, 'README.md'), 'utf8').match(/^\| \d.*$/gm), rows);
});

t.test('what a document finds in a source file stands there', async (t) => {
  const found = documents().flatMap(({ file, text }) =>
    [...text.matchAll(/`(\w+)`(?: and `(\w+)`)? in `((?:src|test|scripts)\/[\w./-]+\.(?:ts|mjs|yaml|json))`/g)].flatMap(
      ([, one, other, path = '']) => [one, other].flatMap((name) => (name === undefined ? [] : [{ file, name, path }])),
    ),
  );
  t.ok(found.length > 5);
  const broken = found.filter(({ name, path }) => !new RegExp(`\\b${name}\\b`).test(readFileSync(join(root, path), 'utf8')));
  t.strictSame(
    broken.map(({ file, name, path }) => `${file}: ${name} in ${path}`),
    [],
  );
});

t.test('every GW_ variable that a document or the unit names is a setting, or read by a command', async (t) => {
  const known = new Set([
    ...Object.values(SETTINGS).map((setting) => setting.variable),
    ...LATER_SETTINGS.map((setting) => setting.variable),
    ...COMMAND_VARIABLES.map(({ variable }) => variable),
  ]);
  const units = UNITS.map((file) => ({ file, text: readFileSync(join(root, file), 'utf8') }));
  const unknown = [...documents(), ...units].flatMap(({ file, text }) =>
    matches(text, /\b(GW_[A-Z][A-Z0-9_]*[A-Z0-9])\b(?!_?\*)/g)
      .filter((name) => !known.has(name) && !known.has(name.replace(/_FILE$/, '')))
      .map((name) => `${file}: ${name}`),
  );
  t.strictSame(unknown, []);
});

t.test('where npx calls the program, the page says that it is in a clone', async (t) => {
  for (const { file, text } of documents().filter((one) => /\bnpx gw\b/.test(one.text)))
    for (const line of text.split('\n').filter((one) => /\bnpx gw\b/.test(one))) t.match(line, /clone/, file);
});

t.test('the number of presets is that of their catalogue, wherever it is said', async (t) => {
  const folder = join(root, 'policies', 'presets');
  const catalogue = readFileSync(join(folder, 'catalogue.yaml'), 'utf8');
  const presets = matches(catalogue, /^ {4}file: (\S+)$/gm);
  t.strictSame(
    [...presets].sort(),
    readdirSync(folder).filter((file) => file.endsWith('.yaml') && file !== 'catalogue.yaml'),
  );
  const said = documents()
    .filter(({ file }) => file !== 'CHANGELOG.md')
    .flatMap(({ file, text }) =>
      matches(text, /\b(\d+|[a-z]+teen|twenty|twelve|eleven|ten) presets\b/gi).map((number) => `${file}: ${number}`),
    );
  t.ok(said.includes(`README.md: ${presets.length}`), 'the README says it');
  t.strictSame(
    matches(readFileSync(join(root, 'policies', 'README.md'), 'utf8'), /^\| \[[\w-]+\]\(presets\/(\S+)\) \|/gm).sort(),
    [...presets].sort(),
    'the page of the folder has a row for each',
  );
  t.strictSame(
    said.filter((one) => !one.endsWith(`: ${presets.length}`)),
    [],
  );
});

t.test('guides have one name for the address, the admin token and a management key', async (t) => {
  for (const { file, text } of documents().filter((one) => one.file.startsWith(join('docs', 'guides')))) {
    const blocks = matches(text, /^```sh\b[^\n]*\n([\s\S]*?)^```$/gm).join('\n');
    for (const token of matches(blocks, /GW-Admin-Token: ([^"'\s]+)/g)) t.match(token, /^\$TOKEN$|^\$\(cat$|^\$1$/, file);
    for (const key of matches(blocks, /Authorization: Bearer (\$\w+)/g)) t.match(key, /^\$(?:KEY|GW_MCP_KEY|OPENAI_API_KEY|1)$/, file);
    for (const name of ['TOKEN', 'KEY'])
      if (blocks.includes(`$${name}`)) t.match(blocks, new RegExp(`^(?:export )?${name}=`, 'm'), `${file} says what ${name} is`);
    t.notMatch(blocks, /\$(?:GW|GATEWAY)\//, file);
    t.notMatch(blocks, /localhost:7080/, file);
  }
});

t.test('every npm script that a document names exists', async (t) => {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: Record<string, string> };
  const unknown = documents().flatMap(({ file, text }) =>
    matches(text, /\bnpm run ([\w:-]+)/g).flatMap((name) => (name in scripts ? [] : [`${file}: ${name}`])),
  );
  t.strictSame(unknown, []);
});

/** What npm runs by itself. */
const LIFECYCLE = ['prepare', 'prepack'];

t.test('CONTRIBUTING.md has every npm script, and what reads compiled tables compiles first', async (t) => {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: Record<string, string> };
  const page = readFileSync(join(root, 'CONTRIBUTING.md'), 'utf8');
  const told = new Set(matches(page, /`npm (?:run )?([\w:-]+)/g));
  t.strictSame(
    Object.keys(scripts).filter((name) => !told.has(name) && !LIFECYCLE.includes(name)),
    [],
  );
  const stale = Object.entries(scripts).flatMap(([name, command]) =>
    matches(command, /\b(scripts\/[\w-]+\.mjs)/g)
      .filter((file) => /join\(root, 'build', 'src'\)/.test(readFileSync(join(root, file), 'utf8')))
      .filter(() => !command.startsWith('node scripts/setup.mjs && '))
      .map((file) => `${name}: ${file}`),
  );
  t.strictSame(stale, []);
});

t.test('every bundle that a document shows compiles', async (t) => {
  // The guide to policy shows mistakes too, and is followed word by word by a test of its own.
  const others = documents().filter(({ file }) => file !== 'docs/guides/policy.md');
  const bundles = others.flatMap(({ file, text }) =>
    matches(text, /```yaml(?: \S+)?\n([\s\S]*?)```/g)
      .filter((yaml) => yaml.includes('gw.policy_bundle.v1'))
      .map((yaml) => ({ file, yaml })),
  );
  t.ok(bundles.length > 0);
  for (const { file, yaml } of bundles)
    t.strictSame(compilePolicy({ bundle: { file, text: yaml }, tier: 'enterprise' }).errors ?? [], [], file);
});

t.test('the preload of the guide makes the fetch of this Node obey HTTPS_PROXY', async (t) => {
  const asked: (string | undefined)[] = [];
  const proxy = createServer().on('connect', (request, socket) => {
    asked.push(request.url);
    socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  t.teardown(() => proxy.close());
  const preload = join(root, 'docs', 'examples', 'node20-proxy.mjs');
  const child = spawn(process.execPath, ['--import', preload, '--eval', `fetch('https://api.openai.com/v1/models').catch(() => {})`], {
    env: { ...process.env, HTTPS_PROXY: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` },
    stdio: 'ignore',
  });
  await new Promise((resolve) => child.on('exit', resolve));
  t.strictSame(asked, ['api.openai.com:443']);
});
