// What is charged to whom, by any keys and days: JSON, CSV and `gw spend` agree to the last digit with the bill and
// with the records, and say what of it is in doubt.
import t, { type Test } from 'tap';
import { picoFromUsd, usdFromPico } from '../../src/base/lib/money.ts';
import type { ExecutionRecord } from '../../src/base/model/execution-record.ts';
import { dollars, roughly } from '../../src/cli/money/money-table.ts';
import { exactly } from '../support/exactly.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { ALLOW_ALL, CHAT, type Governed, startGoverned } from '../support/governed.ts';
import { type Answer, type Managed, managedAs } from '../support/managed.ts';
import { gw } from '../support/run-gw.ts';
import type { UpstreamHandler } from '../support/tls-upstream.ts';

const START = Date.UTC(2026, 9, 31, 21, 50);
const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** Tells no usage to who asks `gpt-4o`, and that half of the prompt was cached to all others. */
const asProvider: UpstreamHandler = (_request, response, whole) =>
  void whole.then((body) => {
    const { model } = JSON.parse(body.toString()) as { model: string };
    const usage = { prompt_tokens: 11, completion_tokens: 7, prompt_tokens_details: { cached_tokens: 4 } };
    response.setHeader('content-type', 'application/json').end(JSON.stringify(model === 'gpt-4o' ? { model } : { model, usage }));
  });

interface Scene extends Governed, Managed {
  /** CSV as lines of cells, the head included. */
  csv(query: string, accept?: string): Promise<readonly (readonly string[])[]>;
  run(words: string): ReturnType<typeof gw>;
}

const CALLS = [
  { model: 'gpt-4o-mini', project: 'apollo', customer: 'acme, inc', team: 'red' },
  { model: 'our-own-model', project: 'apollo', customer: '=cmd()', team: 'red' },
  { model: 'gpt-4o', project: 'zeus', customer: undefined, team: 'blue' },
  { model: 'gpt-4o-mini', project: undefined, customer: 'acme, inc', team: undefined },
  { model: 'our-own-model', project: undefined, customer: undefined, team: undefined },
] as const;

async function scene(t: Test): Promise<Scene> {
  const clock = fakeClock(START);
  const governed = await startGoverned(t, { clock, bundle: ALLOW_ALL, handler: asProvider });
  const managed = await managedAs(governed.gw, 'default');
  for (let round = 0; round < 4; round += 1) {
    for (const { model, project, customer, team } of CALLS)
      await governed.execute(
        { attribution: { project_id: project, customer_id: customer, labels: team === undefined ? {} : { team } } },
        { params: { ...CHAT, model } },
      );
    clock.advance(round === 0 ? 3 * HOUR : DAY);
  }
  const { key } = await managed.keyOf('default', ['read']);
  return {
    ...governed,
    ...managed,
    csv: async (query, accept = '*/*') => {
      const response = await fetch(`${governed.gw.url}/mgmt/v1/billing/report?${query}`, {
        headers: { authorization: `Bearer ${key}`, accept },
      });
      t.equal(response.headers.get('content-type'), 'text/csv; charset=utf-8; header=present', query);
      return linesOf(await response.text());
    },
    run: (words) => gw(words.split(' '), { env: { GW_PORT: String(governed.gw.port), GW_MGMT_KEY: key } }),
  };
}

/** Of RFC 4180. */
function linesOf(text: string): readonly (readonly string[])[] {
  return text
    .split('\r\n')
    .filter((line) => line !== '')
    .map((line) =>
      [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain ?? ''),
    );
}

interface Row {
  readonly period: string;
  readonly keys: Readonly<Record<string, string>>;
  readonly cost_usd: string;
  readonly share_pct: string;
  readonly requests: number;
}

const rowsIn = ({ body }: Answer): readonly Row[] => (body as { rows: readonly Row[] }).rows;
const sumOf = (amounts: readonly string[]): string => usdFromPico(amounts.reduce((sum, amount) => sum + picoFromUsd(amount), 0n));

const KEY_OF: Readonly<Record<string, (record: ExecutionRecord) => string | undefined>> = {
  project: (record) => record.project_id,
  customer: (record) => record.customer_id,
  account: (record) => record.account_id,
  workload: (record) => record.workload_id,
  provider: (record) => record.connector_id,
  model: (record) => record.metering?.model,
  'label:team': (record) => record.labels?.['team'],
};

t.test('every combination of keys, as JSON and as CSV, is a recount of the records and adds up to the bill', async (t) => {
  const { manage, csv } = await scene(t);
  const { data } = (await manage('GET', 'records?from=2026-10-01T00:00:00Z&limit=500')).body as { data: readonly ExecutionRecord[] };
  t.equal(data.length, 20);
  const bill = (await manage('GET', 'billing/summary?from=2026-10-31&to=2026-11-03')).body as Record<string, unknown>;
  for (const by of [
    ...Object.keys(KEY_OF),
    'workload,model',
    'project,model',
    'project,customer,label:team,model',
    'label:team,provider',
  ]) {
    const keys = by.split(',');
    const expected = new Map<string, { requests: number; pico: bigint; cached: number; unsure: number; byDefault: bigint }>();
    for (const record of data) {
      const { metering, completed_at: at } = record;
      const name = [at.slice(0, 10), ...keys.map((key) => KEY_OF[key]?.(record) ?? '')].join('|');
      const sum = expected.get(name) ?? { requests: 0, pico: 0n, cached: 0, unsure: 0, byDefault: 0n };
      const cost = picoFromUsd(metering?.cost_usd ?? '0');
      expected.set(name, {
        requests: sum.requests + 1,
        pico: sum.pico + cost,
        cached: sum.cached + (metering?.cached_tokens_in ?? 0),
        unsure: sum.unsure + (metering?.usage_reported === false ? 1 : 0),
        byDefault: sum.byDefault + (metering?.rate_source === 'default' ? cost : 0n),
      });
    }
    const [head, ...lines] = await csv(`by=${by}&per=day&from=2026-10-31&to=2026-11-03&format=csv`);
    t.same(head, [
      ...['period', 'org_id', ...keys, 'requests', 'tokens_in', 'tokens_out', 'cached_tokens_in', 'cost_usd'],
      ...['requests_without_usage', 'cost_without_usage_usd', 'requests_priced_by_default', 'cost_priced_by_default_usd'],
    ]);
    const told = lines.map((cells) => {
      const [requests, , , cached, cost, unsure, , , byDefault] = cells.slice(2 + keys.length);
      const names = cells.slice(2, 2 + keys.length).map((name) => name.replace(/^'(?==)/, ''));
      return [[cells[0], ...names].join('|'), `${requests} ${cost} ${cached} ${unsure} ${byDefault}`] as const;
    });
    t.same(
      Object.fromEntries(told),
      Object.fromEntries(
        [...expected].map(([name, { requests, pico, cached, unsure, byDefault }]) => [
          name,
          `${requests} ${usdFromPico(pico)} ${cached} ${unsure} ${usdFromPico(byDefault)}`,
        ]),
      ),
      by,
    );
    for (const per of ['total', 'month', 'day']) {
      const report = await manage('GET', `billing/report?by=${by}&per=${per}&from=2026-10-31&to=2026-11-03`);
      t.equal(sumOf(rowsIn(report).map(({ cost_usd: cost }) => cost)), bill['total_cost_usd'], `${by} ${per}`);
      t.match(report.body, {
        total_cost_usd: exactly(String(bill['total_cost_usd'])),
        total_requests: 20,
        total_cached_tokens_in: 64,
        total_requests_without_usage: 4,
        total_requests_priced_by_default: 8,
      });
    }
  }
  t.match(bill, { total_requests_without_usage: 4, total_cost_without_usage_usd: exactly('0'), total_requests_priced_by_default: 8 });
});

t.test('filters narrow a report to the calls that had these names, on every face, and its sums are those of their records', async (t) => {
  const { manage, csv, run } = await scene(t);
  const { data } = (await manage('GET', 'records?from=2026-10-01T00:00:00Z&limit=500')).body as { data: readonly ExecutionRecord[] };
  const days = 'from=2026-10-31&to=2026-11-03';
  for (const filters of [
    { project: 'apollo' },
    { project: '' },
    { customer: 'acme, inc' },
    { workload: 'default' },
    { provider: 'openai' },
    { model: 'gpt-4o' },
    { 'label:team': 'red' },
    { 'label:team': '' },
    { project: 'apollo', model: 'gpt-4o-mini' },
    { workload: 'default', model: 'our-own-model' },
    { project: 'zeus', customer: '', workload: 'default', provider: 'openai', 'label:team': 'blue' },
    { project: 'nobody' },
  ] as readonly Readonly<Record<string, string>>[]) {
    const matching = data.filter((record) => Object.entries(filters).every(([key, name]) => (KEY_OF[key]?.(record) ?? '') === name));
    const expected = sumOf(matching.map(({ metering }) => metering?.cost_usd ?? '0'));
    const query = new URLSearchParams();
    for (const [key, name] of Object.entries(filters))
      query.set(...(key === 'label:team' ? (['label', `team=${name}`] as const) : ([key, name] as const)));
    for (const by of ['', '&by=model&per=day', '&by=project,label:team&per=month']) {
      const told = `${query.toString()}${by}`;
      const report = await manage('GET', `billing/report?${days}&${told}`);
      t.match(report.body, { filter: filters, total_requests: matching.length, total_cost_usd: exactly(expected) }, told);
      t.equal(sumOf(rowsIn(report).map(({ cost_usd: cost }) => cost)), expected, told);
      t.equal(
        rowsIn(report).reduce((sum, { requests }) => sum + requests, 0),
        matching.length,
        told,
      );
      t.notOk('unsorted_requests' in (report.body as object), told);
      const [head = [], ...lines] = await csv(`${days}&${told}&format=csv`);
      t.equal(sumOf(lines.map((cells) => cells[head.indexOf('cost_usd')] ?? '')), expected, `${told} as CSV`);
    }
  }
  const named = await manage('GET', `billing/report?${days}&provider=OpenAI`);
  t.match(named.body, { filter: { provider: 'openai' }, total_requests: 20 }, 'as every list reads it');
  const shown = await run('spend --month 2026-11 --by model --label team=red --project apollo');
  t.match(
    shown.out,
    /^Spend of org default by model, only project apollo, label:team red, 2026-11-01 to 2026-11-30 \(UTC\)\n\nMODEL +COST /,
  );
  t.match(shown.out, /\ntotal +\$0\.00\d+ +100\.0 +6 /);
  const [, listing = ''] = /\nThese calls:\n {2}gw (records list .*)\n/.exec(shown.out) ?? [];
  t.equal((await run(`${listing} --all --json`)).out.trim().split('\n').length, 3, 'those calls and no others');
  t.notMatch((await run('spend --month 2026-11 --model our-own-model')).out, /gw records list/, 'the list takes a part of a name');
  t.match(
    (await run('billing report --project apollo --json')).out,
    /"filter": *\{\s*"project": *"apollo"/,
    'the command of the operation, too',
  );
  t.match(
    (await run('spend --project nobody')).out,
    /, only project nobody, .*\n\nThere were no such requests in these days\. Which names there were:\n {2}gw spend --by project --from 2026-11-01 --to 2026-11-\d\d\n$/,
  );
});

t.test('CSV is had by a format or an Accept, and no cell of it is a formula', async (t) => {
  const { csv, manage } = await scene(t);
  const query = 'by=customer&period=2026-11';
  const lines = await csv(`${query}&format=csv`);
  t.same(await csv(query, 'text/csv'), lines);
  t.same(
    lines.map((cells) => cells[2]),
    ['customer', '', "'=cmd()", 'acme, inc'],
  );
  for (const [bad, path] of [
    ['by=colour', 'by'],
    ['by=project,project', 'by'],
    ['by=label:', 'by'],
    ['by=project,customer,account,model,caller', 'by'],
    ['period=soon', 'period'],
    ['period=2026-13', 'period'],
    ['last=7h', 'last'],
    ['last=7d&period=today', 'period'],
    ['from=2026-11-02&to=2026-11-01', 'from'],
    ['from=2026-11-31', 'from'],
    ['per=year', 'per'],
    ['per=day&from=2020-01-01', 'per'],
    ['limit=0', 'limit'],
    ['group=project', 'group'],
    ['label=team', 'label'],
    ['label==red', 'label'],
    ['workload_id=default', 'workload_id'],
  ]) {
    const { status, body } = await manage('GET', `billing/report?${bad}`);
    const { details = [] } = (body as { error: { details?: readonly { path: string }[] } }).error;
    t.same([status, details.map((detail) => detail.path)], [400, [path]], bad ?? '');
  }
});

t.test('days are named as people name them, in the zone of the reader', async (t) => {
  const { manage } = await scene(t);
  for (const [query, from, to, requests] of [
    ['', '2026-11-01', '2026-11-04', 15],
    ['period=today', '2026-11-04', '2026-11-04', 0],
    ['period=yesterday', '2026-11-03', '2026-11-03', 5],
    ['period=last-month', '2026-10-01', '2026-10-31', 5],
    ['period=2026-10', '2026-10-01', '2026-10-31', 5],
    ['period=this-week', '2026-11-02', '2026-11-04', 10],
    ['period=last-week', '2026-10-26', '2026-11-01', 10],
    ['last=2d', '2026-11-03', '2026-11-04', 5],
    ['last=1w', '2026-10-29', '2026-11-04', 20],
    ['to=2026-11-02', '2026-11-01', '2026-11-02', 10],
    ['period=last-month&tz=Europe/Berlin', '2026-10-01', '2026-10-31', 5],
    ['period=2026-10&tz=Asia/Kathmandu', '2026-10-01', '2026-10-31', 0],
  ] as const)
    t.match(
      (await manage('GET', `billing/report?${query}`)).body,
      { from, to, total_requests: requests, rows: requests === 0 ? [] : [{ requests }] },
      query,
    );
  const few = rowsIn(await manage('GET', 'billing/report?by=model&limit=1&from=2026-10-31'));
  t.match(
    few,
    [
      { keys: { model: 'our-own-model' }, requests: 8 },
      { keys: { model: 'other' }, requests: 12 },
    ],
    'the dearest, and all others as one',
  );
});

t.test('gw spend shows dollars, days and what is in doubt; --csv is the export, --json the answer', async (t) => {
  const { run, csv } = await scene(t);
  const plain = await run('spend');
  t.match(plain, { code: 0, err: exactly('') });
  t.match(plain.out, /^Spend of org default\. Days are those of UTC\.\n\nPERIOD +DAYS +COST +REQUESTS +NO USAGE +BY DEFAULT\n/);
  t.match(plain.out, /\ntoday +2026-11-04 +\$0\.00 +0 /);
  t.match(plain.out, /\nlast month +2026-10-01 to 2026-10-31 +\$0\.00\d+ +5 +1 +\$0\.00\d+\n/);
  t.match(plain.out, /\nBy default: \$0\.00\d+ of 6 requests for which the price list lacks a rate:/);
  t.match(plain.out, /\nNo usage: the provider did not say what 3 requests used\.\nWhat that cost nobody knows; it counts as \$0\.\n/);
  t.match(plain.out, /\nof the model, or of a term or tool\. The column BY DEFAULT says of which models\.\n/);
  for (const [words, doubted] of [
    ['spend', 6 + 3],
    ['spend 2026-11-02', 2 + 1],
    ['spend last-month --by project', 2 + 1],
    ['spend --from 2026-11-01 --to 2026-11-02 --tz Asia/Kathmandu', 3 * (2 + 1)],
    ['dashboard --from 2026-11-01T12:00:00Z --to 2026-11-02T12:00:00Z', 2 + 1],
  ] as const) {
    const { out } = await run(words);
    const [, listing = ''] = /\nThese calls:\n {2}gw (records list .*)\n/.exec(out) ?? [];
    t.equal(
      (await run(`${listing} --all --json`)).out.trim().split('\n').length,
      doubted,
      `${words}: those calls and no others; none is both`,
    );
    const [, models] = /\n {2}gw (spend --by model .*)\n/.exec(out) ?? [];
    if (words !== 'spend') t.match((await run(models ?? '')).out, /\nour-own-model .* \$0\.00\d+ /, `${words}: which models have no price`);
  }
  const listed = (await run('records list --from 2026-11-02 --to 2026-11-02')).out;
  t.match(listed, / gpt-4o +\$0 no_usage +[0-9a-f-]{36}\n/, 'what is not certain is said of each call');
  t.match(listed, / our-own-model +\$0\.\d+ default_rate +[0-9a-f-]{36}\n/);
  t.match(listed, / gpt-4o-mini +\$0\.\d+ +[0-9a-f-]{36}\n/);
  t.equal(
    (await run('spend --by project --by model')).out,
    (await run('spend --by project,model')).out,
    'nothing that was asked is dropped',
  );
  const byProject = await run('spend last-month --by project');
  t.match(byProject.out, /^Spend of org default by project, 2026-10-01 to 2026-10-31 \(UTC\)\n\nPROJECT +COST +SHARE % /);
  t.match(byProject.out, /\n\(none\) +\$/);
  t.match(byProject.out, /\ntotal +\$0\.00\d+ +100\.0 +5 +1 /);
  t.match((await run('spend --last 3d --by day')).out, /\nDAY +COST .*\n2026-11-02 .*\n2026-11-03 .*\ntotal /);
  t.match(await run('spend --by colour'), {
    code: 1,
    err: /by must be up to 4 of project, customer, account.*; a label colour is label:colour\n/,
  });
  t.match(await run('spend --by projects'), { code: 1, err: /separated by commas; did you mean project\?\n/ });
  t.match(await run('spend --per week'), { code: 1, err: /\n {2}per must be one of total, month, day\n/ });
  t.match(await run('spend --month 2026-10 today'), { code: 2 });
  t.same(
    linesOf((await run('spend --month 2026-10 --by customer,model --csv')).out),
    await csv('period=2026-10&by=customer,model', 'text/csv'),
  );
  t.same(
    linesOf((await run('billing report --period 2026-10 --by customer,model --format csv')).out),
    await csv('period=2026-10&by=customer,model', 'text/csv'),
  );
  t.match(JSON.parse((await run('spend --by workload --json')).out), { rows: [{ keys: { workload: 'default' }, requests: 15 }] });
  const board = await run('dashboard --from 2026-11-01');
  t.match(
    board.out,
    /^Org default, 2026-11-01 00:00 to 2026-11-04 00:50 \(UTC\)\n\nrequests +15\n[\s\S]*\ncost +\$0\.00\d+\n[\s\S]*\nPERIOD +DAYS /,
  );
  t.match((await run('spend read --window 6h')).out, /^org_id: +default\n[\s\S]*buckets\n/, 'requests by the hour are had as before');
  if (process.env['SHOW'] !== undefined)
    for (const words of [
      'spend',
      'spend --by project',
      'spend --by customer,model --per month --from 2026-10-01',
      'dashboard',
      'spend today',
    ])
      process.stderr.write(`\n$ gw ${words}\n${(await run(words)).out}`);
});

t.test('amounts are shown as people read them', (t) => {
  for (const [amount, text] of [
    ['0', '$0.00'],
    ['0.00000001', '<$0.0001'],
    ['0.00005', '$0.0001'],
    ['0.0042', '$0.0042'],
    ['0.42', '$0.42'],
    ['0.4201', '$0.4201'],
    ['0.99996', '$1.00'],
    ['12.3', '$12.30'],
    ['12.345', '$12.35'],
    ['1204.1', '$1,204.10'],
    ['1234567.891', '$1,234,567.89'],
  ] as const)
    t.equal(dollars(picoFromUsd(amount)), text);
  t.same([940, 999, 1_000, 12_449, 999_949, 999_950, 3_000_000].map(roughly), ['940', '999', '1.0K', '12.4K', '999.9K', '1.0M', '3.0M']);
  t.end();
});
