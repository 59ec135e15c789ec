// A row of a table that nothing in the code uses would be a promise of the reference pages that nobody keeps.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { SETTINGS } from '../../src/base/config/settings.ts';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { ERROR_CODES } from '../../src/base/model/error-codes.ts';
import { REASON_CODES } from '../../src/base/model/reason-codes.ts';
import { RECORD_MEMBERS } from '../../src/record/canonical-record.ts';
import { METRICS } from '../../src/surfaces/metrics/metric-table.ts';

const folder = join(packageRoot(), 'src');
const texts = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => readFileSync(join(folder, file), 'utf8'));

/**
 * Names that stand in no file but those of their table; of `missing:project_id` the last part counts.
 * @param declares how such a file is known
 */
function unused(names: readonly string[], declares: RegExp): readonly string[] {
  const users = texts.filter((text) => !declares.test(text));
  const words = new Set(users.flatMap((text) => text.match(/\w+/g) ?? []));
  return names.filter((name) => !words.has(name.split(':').at(-1) ?? ''));
}

const TABLES = {
  'a setting that nothing reads': [Object.keys(SETTINGS), /^export const \w*SETTINGS = /m],
  'a metric that nothing counts': [Object.keys(METRICS), /^export const \w*METRICS = /m],
  'a reason code that no decision gives': [Object.keys(REASON_CODES), /^export const REASON_CODES = /m],
  'an error code that nothing answers': [Object.keys(ERROR_CODES), /^export const ERROR_CODES = /m],
} as const;

for (const [what, [names, declares]] of Object.entries(TABLES))
  t.test(`there is not ${what}`, async (t) => {
    t.ok(names.length > 15);
    t.ok(texts.some((text) => declares.test(text)));
    t.strictSame(unused(names, declares), []);
    t.strictSame(unused(['planted_row'], declares), ['planted_row'], 'it would be found');
  });

t.test('every member of a record stands in the table of the interface or in that of decision 7.2', (t) => {
  const pages = ['docs/interface/resources.md', 'docs/decisions/7-records.md'].map((page) =>
    readFileSync(join(packageRoot(), page), 'utf8'),
  );
  const cells = pages.flatMap((page) => page.match(/^\| `[^|]+\|/gm) ?? []);
  const told = new Set(cells.flatMap((cell) => cell.match(/\w+/g) ?? []));
  t.strictSame(
    RECORD_MEMBERS.filter((name) => !told.has(name)),
    [],
  );
  t.end();
});
