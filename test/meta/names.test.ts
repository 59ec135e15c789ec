// Whoever looks for a file or a type by its name finds one.
import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';

const folder = join(packageRoot(), 'src');
const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));

/** The names that stand at several places, each with them. */
function shared(places: Iterable<readonly [name: string, place: string]>): readonly string[] {
  const byName = new Map<string, string[]>();
  for (const [name, place] of places) byName.set(name, [...(byName.get(name) ?? []), place]);
  return [...byName].filter(([, all]) => all.length > 1).map(([name, all]) => `${name}: ${all.join(', ')}`);
}

// Holds: one-name-for-one-thing
t.test('no two files have one name', async (t) => {
  t.ok(files.length > 300);
  t.strictSame(shared(files.map((file) => [basename(file), file])), []);
});

// Holds: one-name-for-one-thing
t.test('no two rooms give away a type of one name', async (t) => {
  const types = files.flatMap((file) =>
    [...readFileSync(join(folder, file), 'utf8').matchAll(/^export (?:abstract )?(?:class|interface|type) (\w+)/gm)].map(
      ([, name = '']) => [name, file] as const,
    ),
  );
  t.ok(types.length > 300);
  t.strictSame(shared(types), []);
});
