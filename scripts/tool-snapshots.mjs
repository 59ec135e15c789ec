/*
 * Keeps one file for each tool of the MCP server in test/cases/tools/, as clients of the newest revision see it, so
 * that a change of a tool is seen where it is made: names, descriptions and schemas are read by assistants, which
 * nobody can rename anything for. Run it after a build, and look at the difference:
 *   node scripts/tool-snapshots.mjs            writes them
 *   node scripts/tool-snapshots.mjs --check    writes nothing; exit code 1 when one differs
 *   --build FOLDER                             where the compiled src/ is (default build/src)
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const folder = join(root, 'test', 'cases', 'tools');
const { values: options } = parseArgs({ options: { check: { type: 'boolean' }, build: { type: 'string' } } });
const compiled = resolve(options.build ?? join(root, 'build', 'src'));
const table = join(compiled, 'operations', 'tool-table.js');
if (!existsSync(table)) throw new Error(`${table} does not exist; build first (npm run build)`);
const { TOOLS } = await import(pathToFileURL(table).href);

const wanted = new Map(TOOLS.tools.map((tool) => [`${tool.name}.json`, `${JSON.stringify(tool, null, 2)}\n`]));
wanted.set('resources.json', `${JSON.stringify(TOOLS.resources, null, 2)}\n`);
mkdirSync(folder, { recursive: true });
const differing = [];
for (const [file, text] of wanted) {
  const path = join(folder, file);
  if (existsSync(path) && readFileSync(path, 'utf8') === text) continue;
  differing.push(file);
  if (!options.check) writeFileSync(path, text);
}
for (const file of readdirSync(folder).filter((name) => !wanted.has(name))) {
  differing.push(file);
  if (!options.check) rmSync(join(folder, file));
}
for (const file of differing) {
  console.log(options.check ? `test/cases/tools/${file} is not what the tool is: run npm run tools` : `wrote ${file}`);
}
if (options.check && differing.length > 0) process.exitCode = 1;
