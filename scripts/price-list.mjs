/*
 * `npm run prices`: writes the price list that is shipped (src/base/catalogue/data/price-list.json) from the pinned
 * package @pydantic/genai-prices. After a change of the pin give the day on which the version was published: `npm run
 * prices -- 2026-09-23`. `--check` compares only.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { waitForUpdate } from '@pydantic/genai-prices';

const projectRoot = join(fileURLToPath(import.meta.url), '..', '..');
const LIST_FILE = join(projectRoot, 'src', 'base', 'catalogue', 'data', 'price-list.json');
const NAME = '@pydantic/genai-prices';
const PROVIDER_MEMBERS = ['id', 'name', 'api_pattern', 'model_match', 'provider_match', 'fallback_model_providers'];
const MODEL_MEMBERS = ['id', 'match', 'prices'];

const readJson = (file) => JSON.parse(readFileSync(file, 'utf8'));
const pick = (from, members) => Object.fromEntries(members.filter((name) => from[name] !== undefined).map((name) => [name, from[name]]));

/** One model a line, so that a newer list shows in a diff what it changes. */
function listText(providers, head) {
  const lines = providers.map((provider) => {
    const own = JSON.stringify(pick(provider, PROVIDER_MEMBERS)).slice(0, -1);
    const models = provider.models.map((model) => JSON.stringify(pick(model, MODEL_MEMBERS)));
    return `${own},"models":[\n${models.join(',\n')}\n]}`;
  });
  return `${JSON.stringify(head).slice(0, -1)},"providers":[\n${lines.join(',\n')}\n]}\n`;
}

const { version } = readJson(join(projectRoot, 'node_modules', ...NAME.split('/'), 'package.json'));
const arguments_ = process.argv.slice(2);
const check = arguments_.includes('--check');
const day = arguments_.find((argument) => /^\d{4}-\d{2}-\d{2}$/.test(argument));

let before = '';
try {
  before = readFileSync(LIST_FILE, 'utf8');
} catch {
  process.stderr.write(`${LIST_FILE} is new\n`);
}
const old = before === '' ? {} : JSON.parse(before);
const date = day ?? (old.version === version ? old.date : undefined);
if (date === undefined) throw new Error(`say on which day ${NAME} ${version} was published: npm run prices -- 2026-09-23`);

const text = listText(await waitForUpdate(), { schema: 'gw.price_list.v1', from: NAME, version, date });
if (check && text !== before) {
  process.stdout.write('src/base/catalogue/data/price-list.json is not that of the pinned package: run "npm run prices"\n');
  process.exitCode = 1;
} else if (!check && text !== before) {
  writeFileSync(LIST_FILE, text);
  process.stdout.write(`wrote the list of ${NAME} ${version}\n`);
}
