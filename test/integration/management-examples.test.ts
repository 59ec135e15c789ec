/*
 * A stranger with nothing but the OpenAPI document: what its examples ask is asked of a gateway that runs, in their
 * order, and nothing comes back that the document does not tell of. `npm run record` (`RECORD_EXAMPLES=1` for this file
 * alone) writes the answers of the examples again; read the difference before it is kept.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Validator } from '@seriousme/openapi-schema-validator';
import t from 'tap';
import { isJsonObject } from '../../src/base/json/json-object.ts';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { EXAMPLES } from '../../src/operations/management/examples.ts';
import { exampleArgs } from '../../src/operations/management/operation-example.ts';
import { planOf, requestOf, takenNames } from '../../src/operations/operation-request.ts';
import { OPERATIONS } from '../../src/operations/operation-table.ts';
import { DescribedApi } from '../support/described-api.ts';
import { exampleOrg, isOfEveryOrg, SECRETS, TELLS_SECRETS } from '../support/example-org.ts';
import { keptAnswer } from '../support/kept-answer.ts';

const management = OPERATIONS.filter(({ id }) => id.startsWith('mgmt.'));

t.test('every operation of the management API has one example', (t) => {
  const shown = EXAMPLES.map(({ id }) => id);
  const ids = management.map(({ id }) => id);
  const without = ids.filter((id) => !shown.includes(id));
  t.strictSame(without, [], 'add a row to src/operations/management/examples.ts, then npm run record');
  t.strictSame(
    shown.filter((id, at) => !ids.includes(id) || shown.indexOf(id) < at),
    [],
    'examples of no operation, or of one that has another',
  );
  t.end();
});

if (process.env['RECORD_EXAMPLES'] === '1') {
  t.test('the answers of the examples are recorded', async (t) => {
    const { send, setUp } = await exampleOrg(t);
    const answers = new Map<string, unknown>();
    for (const { id, args = {} } of EXAMPLES) {
      const operation = management.find((one) => one.id === id);
      if (operation === undefined) continue;
      const { method, path, body } = requestOf(
        planOf(
          operation,
          takenNames(operation),
          exampleArgs(args, (of) => answers.get(of)),
        ),
      );
      const answer = await send('own', method, path, body);
      if (answer.status !== operation.output.status) throw new Error(`${id} ${path} ${answer.status} ${JSON.stringify(answer.body)}`);
      answers.set(id, answer.body);
      if (id === 'mgmt.ratelimit.configure') await setUp();
    }
    const kept = keptAnswer();
    const lines = [...answers].map(([id, answer]) => `  ${JSON.stringify(id)}: ${JSON.stringify(JSON.stringify(kept(answer)))},\n`);
    const head =
      '/*\n * What the examples answered, as management-examples.test.ts recorded it: times and ids are made up, lists have two\n * items at most.\n */\n';
    const text = `${head}export const EXAMPLE_ANSWERS: Readonly<Record<string, string>> = {\n${lines.join('')}};\n`;
    writeFileSync(join(packageRoot(), 'src', 'operations', 'management', 'example-answers.ts'), text);
    t.ok(answers.size > 0);
  });
} else {
  // Holds: management-says-what-is-described
  t.test('a client that knows the document alone asks every example, and gets what the document promises', async (t) => {
    const { send, setUp, keys } = await exampleOrg(t);
    const api = await DescribedApi.read((path) => send('nobody', 'GET', path));
    const { valid, errors } = await new Validator().validate(api.document);
    t.ok(valid, JSON.stringify(errors));
    const secrets = [...SECRETS, ...Object.values(keys)];
    for (const { id } of EXAMPLES) {
      const { method, path, body, flaws, scope } = api.example(id);
      t.strictSame(flaws, [], `${id} asks what the document permits`);
      t.equal((await send('nobody', method, path, body)).status, 401, `${id} without a key`);
      if (scope === 'write') {
        const refused = await send('reader', method, path, body);
        t.match(refused, { status: 403, body: { error: { code: 'insufficient_scope' } } }, `${id} with a key that may read`);
      }
      if (api.namesOne(id) && !isOfEveryOrg(id)) {
        const strange = await send('other', method, path, body);
        t.equal(strange.status, 404, `${id} of another org: ${JSON.stringify(strange.body)}`);
      }
      const answer = await send('own', method, path, body);
      t.strictSame(api.learn(id, answer), [], `${id} ${path} answers what the document promises`);
      if (scope === 'read' && !api.namesOne(id) && !isOfEveryOrg(id)) {
        const seen = JSON.stringify((await send('other', method, path, body)).body);
        for (const own of api.made()) t.notOk(seen.includes(own), `${id} shows nothing of it to another org`);
      }
      const told = JSON.stringify(answer.body);
      for (const secret of secrets) if (told.includes(secret)) t.ok(TELLS_SECRETS.includes(id), `${id} tells a secret`);
      if (id === 'mgmt.ratelimit.configure') await setUp();
    }
  });

  t.test('the judge can say no', async (t) => {
    const { send } = await exampleOrg(t);
    const api = await DescribedApi.read((path) => send('nobody', 'GET', path));
    const listed = await send('own', 'GET', '/mgmt/v1/keys');
    t.strictSame(api.flaws('mgmt.keys.list', listed), []);
    const more = { ...(isJsonObject(listed.body) ? listed.body : {}), untold: 1 };
    t.match(api.flaws('mgmt.keys.list', { ...listed, body: more }), [/must NOT have additional properties/]);
    t.match(api.flaws('mgmt.keys.list', { ...listed, status: 202 }), [/202/]);
    t.match(api.flaws('mgmt.keys.list', { ...listed, body: { data: [] } }), [/required/]);
  });
}
