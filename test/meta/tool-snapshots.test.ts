import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Ajv2020 } from 'ajv/dist/2020.js';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { TOOLS } from '../../src/operations/tool-table.ts';

t.test('each tool is as its snapshot says, and there is no other', (t) => {
  const compiled = fileURLToPath(new URL('../../src', import.meta.url));
  const script = join(packageRoot(), 'scripts', 'tool-snapshots.mjs');
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, '--check', '--build', compiled], { encoding: 'utf8' });
  t.same({ status, output: stdout + stderr }, { status: 0, output: '' });
  t.end();
});

t.test('each tool has a name, a title, a description and schemas that every client can use', (t) => {
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  const titles = new Set<string>();
  for (const { name, title, description, annotations, scope, inputSchema, outputSchema } of TOOLS.tools) {
    t.match(name, /^[a-z][a-z0-9_]{2,63}$/);
    t.match(title, /^[A-Z][^.]{3,60}$/, name);
    t.notOk(titles.has(title), `${name}: "${title}" is the title of another tool too`);
    titles.add(title);
    t.match(description, /^[A-Z].{10,400}\.$/, name);
    t.equal(annotations.readOnlyHint, ['read', 'review'].includes(scope), `${name} needs the scope of what it does`);
    t.notOk(annotations.readOnlyHint && annotations.destructiveHint, name);
    for (const schema of [inputSchema, outputSchema ?? { type: 'object' }]) {
      // Clients of before 2026-07-28 take objects alone.
      t.equal(schema['type'], 'object', name);
      t.doesNotThrow(() => ajv.compile(schema), name);
    }
  }
  t.end();
});

t.test('there are the resources of the specification, and a tool that reads each with what it needs', (t) => {
  t.strictSame(
    TOOLS.resources.map(({ uri }) => uri),
    [
      'providers://catalog',
      'providers://custom',
      'records://recent',
      'credentials://list',
      'attribution://summary',
      'nodes://status',
      'pricing://configs',
    ],
  );
  for (const { uri, tool, args } of TOOLS.resources) {
    const row = TOOLS.tools.find(({ name }) => name === tool);
    t.equal(row?.scope, 'read', uri);
    t.doesNotThrow(() => TOOLS.requestOf(tool, args, () => 0), uri);
  }
  t.end();
});
