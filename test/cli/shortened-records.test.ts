// A list leaves members of records out: what it shows is marked, refused where a whole record is needed, and had whole
// when that is asked for (decision 7.13).
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { checkRecord } from '../../src/record/verify-record.ts';
import { ADMIN_TOKEN } from '../support/gateway.ts';
import { bundleOf, CHAT, startGoverned } from '../support/governed.ts';
import { managedOf } from '../support/managed.ts';
import { gw } from '../support/run-gw.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

type Json = Readonly<Record<string, unknown>>;

const RULES = `  connectors:
    - {id: openai, when: {field: context.connector.id, equals: openai}, effect: {decision: allow}}
  budgets:
    - id: no.big.models
      when: {field: context.action.params.max_tokens, gt: 100}
      effect: {decision: deny, reason_codes: [model_not_allowed]}
`;

const parsed = (line: string) => JSON.parse(line) as Json;
const linesOf = (text: string) => text.split('\n').filter((line) => line !== '');

async function startRecorded(t: HasTeardown) {
  const governed = await startGoverned(t, { bundle: bundleOf(RULES) });
  for (const tokens of [10, 500, 20]) await governed.execute({ org_id: 'acme' }, { params: { ...CHAT, max_tokens: tokens } });
  // Refused before policy was asked: there is nothing that a list could leave out.
  const managed = await managedOf(governed.gw);
  await managed.manage('PUT', 'workloads', { workload_id: 'elsewhere', allowed_connection_types: ['sdk_redirect'] });
  await governed.execute({ org_id: 'acme', workload_id: 'elsewhere' });
  const env = { GW_PORT: String(governed.gw.port), GW_ADMIN_TOKEN: ADMIN_TOKEN, GW_ORG_ID: 'acme' };
  // The gateway of a test has a day of its own.
  const since = (words: string) => words.replace(/^logs --json/, `logs --json --since 2000-01-01T00:00:00Z`);
  const run = (words: string, stdin?: string) => gw(since(words).split(' '), { env, ...(stdin === undefined ? {} : { stdin }) });
  const dir = tempDir(t);
  const file = (name: string, text: string) => {
    const path = join(dir, name);
    writeFileSync(path, text);
    return path;
  };
  return { ...managed, run, file, bundle: file('bundle.yaml', bundleOf(RULES)) };
}

t.test('what lists show of records is marked where something is left out, and whole where that is asked for', async (t) => {
  const { run, manage, gw: gateway } = await startRecorded(t);
  const { data } = (await manage('GET', 'records')).body as { data: Json[] };
  t.equal(data.filter((one) => one['shortened'] === true).length, 3);
  for (const one of data) {
    const { stored, computed } = one['shortened'] === true ? { stored: 1, computed: 1 } : checkRecord(JSON.stringify(one));
    t.equal(stored, computed, 'what is not marked is whole');
    t.equal(one['record_hash'], (await gateway.record(String(one['record_id'])))['record_hash'], 'the hash names the whole record');
  }
  const page = (await manage('GET', 'records?whole=true&limit=3')).body as { data: Json[]; next_cursor: string };
  const rest = (await manage('GET', `records?whole=true&limit=3&cursor=${page.next_cursor}`)).body as { data: Json[] };
  const all = [...page.data, ...rest.data];
  t.equal(all.length, data.length, 'in pages as ever');
  for (const one of all) t.strictSame(one, await gateway.record(String(one['record_id'])));
  t.equal((await manage('GET', 'records?whole=yes')).status, 400);
  t.equal((await manage('GET', `records?cursor=${page.next_cursor}`)).status, 400, 'a cursor is good for what it was asked with');
  for (const words of ['records list --all --json', 'logs --json']) {
    const [short, whole] = [linesOf((await run(words)).out).map(parsed), linesOf((await run(`${words} --whole`)).out).map(parsed)];
    t.equal(short.filter((one) => one['shortened'] === true).length, 3, words);
    t.equal(whole.length, 4, words);
    for (const one of whole) t.strictSame(one, await gateway.record(String(one['record_id'])), words);
  }
  t.match(await run('logs --whole'), { code: 2, err: /--whole goes with --json/ });
  t.match(await run('logs - --json --whole', ''), { code: 2, err: /--whole goes with --json/ });
});

t.test('every reader of records refuses a shortened one, and says how whole ones are had', async (t) => {
  const { run, file, bundle } = await startRecorded(t);
  const short = (await run('logs --json --decision deny')).out;
  const lines = linesOf(short);
  const shortened = lines.find((line) => line.includes('shortened')) ?? '';
  const one = file('one.json', shortened);
  const many = file('many.ndjson', short);
  const told = { code: 2, out: '', err: /shortened .*gw logs --json --whole/ };
  for (const words of [
    `verify ${one}`,
    `verify ${one} --json`,
    `policy diff ${bundle} ${bundle} --records ${one}`,
    `policy diff ${bundle} ${bundle} --records ${many}`,
    `policy explain ${one} --policies ${bundle}`,
    `replay ${one} --policies ${bundle}`,
    `risk replay --records ${one}`,
  ])
    t.match(await run(words), told, words);
  t.match(await run('verify -', shortened), told);
  t.match(await run(`policy diff ${bundle} ${bundle} --records -`, short), told);
  t.match(await run('verify -', (await run('records list --json')).out), { code: 2 }, 'a page is no record');
  const false_ = file('false.json', JSON.stringify({ ...parsed(shortened), shortened: false }));
  t.match(await run(`verify ${false_}`), told, 'whatever the mark says: no record has it');
});

t.test('whole records go through a pipe: each is verified, and a policy is compared by all of them', async (t) => {
  const { run, file, bundle } = await startRecorded(t);
  const whole = (await run('logs --json --whole')).out;
  const checked = await run('verify -', whole);
  t.match(checked, { code: 0, out: /^(?:verified {2}[0-9a-f-]{36}\n){4}4 records: 4 verified, 0 not\n$/, err: '' });
  t.match(
    linesOf((await run('verify - --json', whole)).out).map(parsed),
    Array.from({ length: 4 }, () => ({ verified: true })),
  );
  const changed = whole.replace('"workload_id":"default"', '"workload_id":"somebody"');
  t.match(await run('verify -', changed), { code: 1, out: /MISMATCH {2}[\s\S]*4 records: 3 verified, 1 not\n$/ });
  t.match(await run('verify -', `${whole}{"record_id":"x"}\n`), { code: 2, err: /standard input, line 5: there is no record_hash/ });
  t.match(await run('verify - --proof p.json --keys k.json', whole), {
    code: 2,
    err: /--proof is of one record, and standard input has 4/,
  });
  t.match(
    await run('verify -', JSON.stringify(parsed(linesOf(whole)[0] ?? ''), null, 2)),
    { code: 0, out: /^verified/ },
    'one record over many lines',
  );
  const after = file('after.yaml', bundleOf(RULES.replace('gt: 100', 'gt: 15')));
  t.match(await run(`policy diff ${bundle} ${after} --records -`, whole), {
    code: 1,
    out: /allow -> deny[\s\S]*1 would change, 2 would not/,
  });
});
