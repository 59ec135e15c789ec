// What the README and the guides show to type is typed: each block of a shell, one guide after the other, in the folder
// of a gateway behind which the demo's stand-in is.
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { bareEnvironment, run } from '../support/child.ts';
import { ADMIN_TOKEN } from '../support/gateway.ts';
import { MAIN } from '../support/gateway-process.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';
import { type StandInGateway, startStandInGateway } from '../support/stand-in-gateway.ts';
import { tempDir } from '../support/temp-dir.ts';
import { startTypedCommands } from '../support/typed-commands.ts';
import {
  FILES_SHOWN,
  type GuidePlace,
  NOT_TYPED,
  PREPARED,
  PROGRAMS_NOT_RUN,
  PROGRAMS_SHOWN,
  SAYS_NO,
  SETTINGS_OF,
} from './typed-guides-table.ts';

/** Commands start, and wait, more than they work. */
t.jobs = 3;

/** A part of the names of pages, by hand; without it all. */
const [, , WANTED = ''] = process.argv;

const GUIDES = join(packageRoot(), 'docs', 'guides');
const PAGES = ['README.md', ...readdirSync(GUIDES, { recursive: true, encoding: 'utf8' }).map((name) => join('docs', 'guides', name))]
  .filter((page) => page.endsWith('.md') && page.includes(WANTED))
  .sort();
/** They have a test of their own that types them. */
const TYPED_ELSEWHERE: Readonly<Record<string, string>> = { 'docs/guides/deployment-modes.md': 'deployment-guide.test.ts' };

/** Blocks of a shell as they stand on a page. */
function blocksOf(page: string): readonly string[] {
  const text = readFileSync(join(packageRoot(), page), 'utf8');
  return [...text.matchAll(/^( *)```(?:sh|bash|shell)\b[^\n]*\n([\s\S]*?)^ *```$/gm)].map(([, , block = '']) => block);
}

/** Why a block is not typed; undefined: it is. */
function reasonAgainst(page: string, block: string): string | undefined {
  return NOT_TYPED.find(([where, part]) => where === page && block.includes(part))?.[2];
}

let commands: Promise<string> | undefined;

/** One process for all pages. */
function sharedCommands(): Promise<string> {
  commands ??= startTypedCommands(t);
  return commands;
}

const alone = new Set<string>();

/** A block of one command, such as `gw logs --follow`, which many pages end with, is typed once. */
function wasTyped(block: string): boolean {
  if (block.trim().includes('\n') || block.includes('$')) return false;
  if (alone.has(block)) return true;
  alone.add(block);
  return false;
}

/** A folder as that of a gateway, with the programs that guides name. */
async function placeOf(t: Test, gateway: StandInGateway): Promise<GuidePlace> {
  const dir = tempDir(t);
  const [bin, work] = [join(dir, 'bin'), join(dir, 'work')];
  for (const folder of [bin, work]) mkdirSync(folder);
  const program = (name: string, text: string) => {
    writeFileSync(join(bin, name), `#!/bin/sh\n${text}\n`);
    chmodSync(join(bin, name), 0o755);
  };
  const gw = `'${process.execPath}' '${MAIN}'`;
  // What goes on until it is stopped is stopped, by one signal: a second one ends a gateway at once. A second gateway
  // keeps away from the first.
  program(
    'gw',
    `[ $# -gt 0 ] || set -- start
for_a_while() { timeout --foreground --preserve-status --signal TERM 5 "$@"; code=$?; [ $code = 143 ] || exit $code; exit 0; }
case " $* " in
  *" --follow "*|*" --watch "*) for_a_while ${gw} "$@" ;;
  " start ") GW_PORT=0 GW_AMBIENT_PORT=0 GW_DATA_DIR="$(mktemp -d)" for_a_while ${gw} "$@" ;;
  " trust install "*|" trust uninstall "*) set -- "$@" --dry-run ;;
esac
${await sharedCommands()}`,
  );
  // An answer that says no is no success.
  program(
    'curl',
    `case " $* " in *" -f"*) exec '${requirePeer('curl')}' "$@" ;; esac\nexec '${requirePeer('curl')}' --fail-with-body "$@"`,
  );
  program('gw-mcp', `exec '${process.execPath}' '${fileURLToPath(new URL('../../src/mcp-main.js', import.meta.url))}' "$@"`);
  for (const name of [...PROGRAMS_SHOWN, ...Object.keys(PROGRAMS_NOT_RUN)]) program(name, 'cat > /dev/null');
  for (const [name, text] of Object.entries(FILES_SHOWN)) writeFileSync(join(work, name), text);
  chmodSync(join(work, 'my-program'), 0o755);
  cpSync(join(packageRoot(), 'policies', 'bundle.yaml'), join(work, 'bundle.yaml'));
  writeFileSync(join(gateway.dataDir, 'admin-token'), ADMIN_TOKEN);
  symlinkSync(gateway.dataDir, join(work, 'data'));
  symlinkSync(join(gateway.caFile, '..'), join(work, 'ca'));
  cpSync(join(packageRoot(), 'policies'), join(work, 'policies'), { recursive: true });
  const { PATH = '' } = bareEnvironment();
  const { GW_ADMIN_TOKEN: _token, GW_DATA_DIR: _data, GW_CA_DIR: _ca, ...settings } = gateway.settings;
  return { gateway, work, env: { ...settings, HOME: dir, PATH: `${bin}:${PATH}`, OPENAI_API_KEY: 'sk-of-the-guide-0123456789' } };
}

/** For what is filled in: the first id in an answer, and the value of one member. */
const HELPERS = `first_id() { grep -o '"[a-z_]*id": *"[^"]*"' | head -n 1 | sed 's/.*: *"//; s/"//'; }\n`;

/** Every command that fails is told, and the next one is typed all the same. */
function scriptOf(blocks: readonly (readonly [number: number, text: string])[], failed: string, work: string): string {
  const typed = blocks.map(([number, text]) => `cd '${work}'; BLOCK=${number}\n${text}\n`).join('\n');
  return `NEWLINE=$'\\n'\nset -Eo pipefail\ntrap 'echo "block $BLOCK, status $?: \${BASH_COMMAND%%$NEWLINE*}" >> "'${failed}'"' ERR\n: > '${failed}'\n${HELPERS}${typed}\necho "all typed" >> '${failed}'\n`;
}

for (const page of PAGES.filter((one) => !Object.hasOwn(TYPED_ELSEWHERE, one))) {
  const blocks = blocksOf(page).map((text, at) => [at + 1, text] as const);
  const typed = blocks.filter(([, text]) => reasonAgainst(page, text) === undefined && !wasTyped(text));
  if (typed.length === 0) continue;
  t.test(page, { skip: skipWithout(['curl']), buffered: true }, async (t) => {
    const gateway = await startStandInGateway(t, { env: SETTINGS_OF[page] ?? {} });
    const place = await placeOf(t, gateway);
    const filled = (await PREPARED[page]?.(place)) ?? {};
    const fill = (text: string) =>
      Object.entries(filled)
        .reduce((rest, [shown, real]) => rest.replaceAll(shown, real), text)
        .replace(/(?:127\.0\.0\.1|localhost|gateway):7080/g, `127.0.0.1:${gateway.port}`);
    const [script = '', failed = ''] = ['typed.sh', 'failed'].map((name) => join(place.work, '..', name));
    writeFileSync(
      script,
      scriptOf(
        typed.map(([number, text]) => [number, fill(text)]),
        failed,
        place.work,
      ),
    );
    const { stdout, stderr } = await run(t, 'bash', [script], { cwd: place.work, env: place.env, timeoutMs: 900_000 });
    const said = `${stdout}\n${stderr}`.slice(-4_000);
    const lines = readFileSync(failed, 'utf8').trim().split('\n');
    t.equal(lines.pop(), 'all typed', said);
    const saysNo = SAYS_NO.filter(([where]) => where === page).map(([, part]) => part);
    t.strictSame(
      lines.map((line) => line.replaceAll(`:${gateway.port}`, ':7080')).filter((line) => !saysNo.some((part) => line.includes(part))),
      [],
      said,
    );
  });
}

t.test('what is not typed is on a page, and says why', (t) => {
  for (const [page, part, reason] of NOT_TYPED.filter(([where]) => PAGES.includes(where))) {
    t.ok(
      blocksOf(page).some((block) => block.includes(part)),
      `${page}: ${part}`,
    );
    t.ok(reason.length > 10, page);
  }
  for (const [page, part, reason] of SAYS_NO.filter(([where]) => PAGES.includes(where))) {
    const words = part.replace(/^block \d+, status \d+: /, '');
    t.ok(
      blocksOf(page).some((block) => block.includes(words)),
      `${page}: ${words}`,
    );
    t.ok(reason.length > 10, page);
  }
  for (const page of [...Object.keys(PREPARED), ...Object.keys(SETTINGS_OF)]) t.ok(existsSync(join(packageRoot(), page)), page);
  for (const file of Object.values(TYPED_ELSEWHERE)) t.ok(existsSync(join(packageRoot(), 'test', 'e2e', file)), file);
  t.end();
});
