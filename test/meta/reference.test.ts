import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { tempDir } from '../support/temp-dir.ts';

const root = packageRoot();
const compiled = fileURLToPath(new URL('../../src', import.meta.url));

function reference(folder: string, ...args: string[]): { readonly status: number | null; readonly output: string } {
  const run = spawnSync(process.execPath, [join(folder, 'scripts', 'reference.mjs'), '--build', compiled, ...args], { encoding: 'utf8' });
  return { status: run.status, output: run.stdout + run.stderr };
}

t.test('the reference pages say what the tables in the code say', async (t) => {
  t.same(reference(root, '--check'), { status: 0, output: '' });
});

t.test('a page that somebody changed by hand, or that is missing, is found and written again', async (t) => {
  const copy = tempDir(t);
  mkdirSync(join(copy, 'docs'));
  for (const name of [
    'reference.mjs',
    'invariants.mjs',
    'console.mjs',
    'setup.mjs',
    'checked-out-commit.mjs',
    'management-page.mjs',
    'control-plane-pages.mjs',
  ])
    cpSync(join(root, 'scripts', name), join(copy, 'scripts', name));
  for (const name of ['reference', 'guides', 'monitoring']) cpSync(join(root, 'docs', name), join(copy, 'docs', name), { recursive: true });
  cpSync(join(root, 'docs', 'invariants.md'), join(copy, 'docs', 'invariants.md'));
  for (const name of ['node_modules', 'test']) symlinkSync(join(root, name), join(copy, name));
  const page = join(copy, 'docs', 'reference', 'settings.md');
  const before = readFileSync(page, 'utf8');
  writeFileSync(page, before.replace('`7080`', '`8080`'));
  t.match(reference(copy, '--check'), { status: 1, output: /settings\.md is not what the tables say/ });
  t.match(readFileSync(page, 'utf8'), '`8080`', 'a check writes nothing');
  t.match(reference(copy), { status: 0, output: 'wrote docs/reference/settings.md\n' });
  t.equal(readFileSync(page, 'utf8'), before);
  const guide = join(copy, 'docs', 'guides', 'bodies-and-limits.md');
  const section = readFileSync(guide, 'utf8');
  writeFileSync(guide, section.replace('| Shared by |', '| Whose |'));
  t.match(reference(copy, '--check'), { status: 1, output: /bodies-and-limits\.md is not what the tables say/ });
  t.match(reference(copy), { status: 0 });
  t.equal(readFileSync(guide, 'utf8'), section);
  writeFileSync(join(copy, 'docs', 'reference', 'by-hand.md'), '');
  t.match(reference(copy, '--check'), { status: 1, output: /by-hand\.md is not a generated page/ });
});
