// The price list of a whole gateway: renewed while calls run, by hand and from an address, seen from outside.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { loadCatalogue } from '../../src/base/catalogue/catalogue.ts';
import { loadConfig } from '../../src/base/config/config.ts';
import type { AuditEntry } from '../../src/base/model/audit-entry.ts';
import type { PriceListStatus } from '../../src/operations/price-list-operations.ts';
import { exactly } from '../support/exactly.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { ADMIN_TOKEN, startTestGateway, type TestGateway } from '../support/gateway.ts';
import { ALLOW_ALL, chat, startGoverned } from '../support/governed.ts';
import { heardLog } from '../support/heard-log.ts';
import { startParentProxy } from '../support/parent-proxy.ts';
import { listOf, shippedList } from '../support/price-lists.ts';
import { gw as runGw } from '../support/run-gw.ts';
import { tempDir } from '../support/temp-dir.ts';
import type { UpstreamHandler } from '../support/tls-upstream.ts';

const LISTS = 'lists.example.com';
const LIST_URL = `https://${LISTS}/prices/data.json`;
const USAGE = '{"model":"m","usage":{"prompt_tokens":1000,"completion_tokens":100}}';

const costing = (input: number, output: number): string => listOf({ m: { input_mtok: input, output_mtok: output } });
const CATALOGUE = { sources: { priceList: shippedList(costing(2, 8)) } };

const answering: UpstreamHandler = (_request, response, body) =>
  void body.then(() => response.setHeader('content-type', 'application/json').end(USAGE));

async function status(gw: TestGateway): Promise<PriceListStatus> {
  return (await gw.admin('GET', '/v1/admin/prices/status')).body as PriceListStatus;
}

/** Until the source was asked, and what came of it. */
async function asked(gw: TestGateway): Promise<PriceListStatus> {
  for (;;) {
    const shown = await status(gw);
    if (shown.last !== null) return shown;
  }
}

const update = (gw: TestGateway, body: unknown) => gw.admin('POST', '/v1/admin/prices/update', body);

async function auditOf(gw: TestGateway): Promise<readonly AuditEntry[]> {
  return ((await gw.admin('GET', '/v1/admin/audit')).body as { items: readonly AuditEntry[] }).items;
}

function commandsOf(gw: TestGateway) {
  const env = { GW_ADMIN_TOKEN: ADMIN_TOKEN };
  return (...words: readonly string[]) => runGw(['prices', ...words, '--url', gw.url], { env });
}

// Holds: one-price-list-a-call
t.test('while the list changes again and again, every call is charged by one of them from beginning to end, and none fails', async (t) => {
  const { gw, execute } = await startGoverned(t, { bundle: ALLOW_ALL, catalogue: CATALOGUE, handler: answering });
  let over = false;
  const ids: string[] = [];
  const caller = async (): Promise<void> => {
    while (!over) {
      const answer = await execute({}, { params: { model: 'm', messages: [] } });
      t.equal(answer.status, 200, answer.text);
      ids.push(String(answer.body['record_id']));
    }
  };
  const callers = Promise.all([caller(), caller(), caller(), caller()]);
  for (let round = 0; round < 12; round++) {
    const taken = await update(gw, { list: round % 2 === 0 ? costing(3, 30) : costing(5, 50) });
    t.match(taken, { status: 200, body: { outcome: 'taken', held: [] } });
    const soFar = ids.length;
    while (ids.length < soFar + 4) await new Promise((resolve) => setImmediate(resolve));
  }
  over = true;
  await callers;
  const costs = new Map([
    ['2 8', '0.0028'],
    ['3 30', '0.006'],
    ['5 50', '0.01'],
  ]);
  const seen = new Set<string>();
  for (const id of ids) {
    const { metering } = (await gw.record(id)) as { metering: { rate_in: string; rate_out: string; cost_usd: string } };
    const rates = `${metering.rate_in} ${metering.rate_out}`;
    seen.add(rates);
    if (costs.get(rates) !== metering.cost_usd) t.fail(`${rates} and ${metering.cost_usd} are of no one list`);
  }
  t.ok(seen.has('3 30') && seen.has('5 50'), `${ids.length} calls, by ${[...seen].join(', ')}`);
});

t.test('a stream that is open while the list changes is charged by the one it began with, and the next by the new one', async (t) => {
  let finish: () => void = () => undefined;
  let begun: () => void = () => undefined;
  const beginning = new Promise<void>((resolve) => {
    begun = resolve;
  });
  const handler: UpstreamHandler = (_request, response, whole) =>
    void whole.then((body) => {
      if ((JSON.parse(body.toString()) as { stream?: boolean }).stream !== true) {
        response.setHeader('content-type', 'application/json').end(USAGE);
        return;
      }
      response.setHeader('content-type', 'text/event-stream');
      response.write('data: {"model":"m","choices":[{"delta":{"content":"Hi"}}]}\n\n');
      finish = () => response.end(`data: {"model":"m","choices":[],${USAGE.slice(13, -1)}}\n\ndata: [DONE]\n\n`);
      begun();
    });
  const { gw, send, recordOf, execute } = await startGoverned(t, { bundle: ALLOW_ALL, catalogue: CATALOGUE, handler });
  const body = { model: 'm', stream: true, stream_options: { include_usage: true }, messages: [] };
  const streaming = send(chat([], undefined, body));
  await beginning;
  t.match(await update(gw, { list: costing(4, 16) }), { status: 200 });
  const next = await execute({}, { params: { model: 'm', messages: [] } });
  t.match(await gw.record(String(next.body['record_id'])), { metering: { rate_in: exactly('4'), cost_usd: exactly('0.0056') } });
  finish();
  t.match(await recordOf(await streaming), { metering: { rate_in: exactly('2'), rate_out: exactly('8'), cost_usd: exactly('0.0028') } });
});

t.test(
  'an address is asked at the start and from time to time, by the door for what is no call; the gateway itself is who changes it',
  async (t) => {
    const clock = fakeClock();
    let list = costing(3, 8);
    const requests: string[] = [];
    const handler: UpstreamHandler = (request, response, body) => {
      if (request.headers.host !== LISTS) return answering(request, response, body);
      requests.push(`${request.method} ${request.url} ${request.headers['if-none-match'] ?? '-'}`);
      response.setHeader('etag', '"1"').end(list);
    };
    const { log, lines } = heardLog();
    const { gw } = await startGoverned(t, {
      clock,
      log,
      bundle: ALLOW_ALL,
      catalogue: CATALOGUE,
      hosts: [LISTS],
      handler,
      env: { GW_PRICE_LIST: `${LIST_URL}?key=planted-secret`, GW_PRICE_LIST_REFRESH: '6h', GW_NODE_ID: 'n-1' },
    });
    const first = await asked(gw);
    t.match(first, {
      source: LIST_URL,
      refresh_seconds: 21_600,
      last: { outcome: 'taken' },
      in_force: { from: 'address', name: LIST_URL, date: '2026-11-21', age_days: 0, taken_by: 'n-1' },
    });
    t.match(await auditOf(gw), [{ principal: { kind: 'node', id: 'n-1' }, operation: 'prices.update', object: first.in_force.sha256 }]);
    list = 'no list at all';
    while ((await status(gw)).next_at === null);
    clock.advance(6 * 3_600_000);
    while ((await status(gw)).last?.outcome === 'taken');
    const refused = await status(gw);
    t.match(refused, { last: { outcome: 'refused', detail: /is no JSON/ }, in_force: { sha256: first.in_force.sha256 } });
    t.same(requests, ['GET /prices/data.json?key=planted-secret -', 'GET /prices/data.json?key=planted-secret "1"']);
    t.match((await gw.admin('GET', '/healthz')).body, { warnings: [{ code: 'price_list_not_renewed', message: /stays in force/ }] });
    const told = lines.filter((line) => line.includes('price list'));
    t.match(told, [/^info: another price list is in force$/, /^warn: the price list was not renewed; that of 2026-11-21 stays in force/]);
    t.equal(told.length, 2);
    t.notMatch(JSON.stringify([refused, await auditOf(gw), lines]), 'planted-secret');
    const metrics = (await gw.admin('GET', '/metrics')).text;
    for (const line of [
      'gw_price_list_age_seconds 64800',
      'gw_price_list_held_rates 0',
      'gw_price_list_updates_total{outcome="taken"} 1',
      'gw_price_list_updates_total{outcome="refused"} 1',
    ])
      t.ok(metrics.includes(`${line}\n`), line);
  },
);

t.test('an address that is not public is not asked, and one behind a parent proxy is asked through it', async (t) => {
  const { gw } = await startGoverned(t, {
    bundle: ALLOW_ALL,
    catalogue: CATALOGUE,
    env: { GW_PRICE_LIST: 'https://127.0.0.1:9/list.json' },
  });
  t.match(await asked(gw), { last: { outcome: 'failed', detail: /it is a loopback address/ }, in_force: { from: 'shipped' } });
  t.match(await update(gw, { source: 'https://169.254.169.254/latest' }), {
    status: 502,
    body: { error: { code: 'price_list_unavailable', message: /^The price list of [^\n]* the one before stays in force: .*metadata/ } },
  });

  const ports: Record<string, number> = {};
  const parent = await startParentProxy({ ports });
  t.teardown(() => parent.close());
  const handler: UpstreamHandler = (_request, response) => void response.end(costing(3, 8));
  const env = { GW_UPSTREAM_CONNECT_TO: '', GW_UPSTREAM_PROXY: `http://127.0.0.1:${parent.port}` };
  const behind = await startGoverned(t, { bundle: ALLOW_ALL, catalogue: CATALOGUE, hosts: [LISTS], handler, env });
  ports[`${LISTS}:443`] = behind.upstream.port;
  t.match(await update(behind.gw, { source: LIST_URL }), { status: 200, body: { outcome: 'taken' } });
  t.match(parent.requests, [{ method: 'CONNECT', target: `${LISTS}:443` }]);
  t.match(await update(behind.gw, { source: 'https://nobody.example.com/' }), { status: 502 });
});

t.test('whoever changes it by hand is in the audit trail, and what is refused is said whole', async (t) => {
  const { gw } = await startGoverned(t, { clock: fakeClock(), bundle: ALLOW_ALL, catalogue: CATALOGUE });
  for (const [body, code, why] of [
    [{ list: costing(-1, 8) }, 'invalid_price_list', /m prices input_mtok must be an amount from 0/],
    [{ list: '[]' }, 'invalid_price_list', /it has no models/],
    [{ list: '' }, 'invalid_request', /text of a price list/],
    [{ list: costing(3, 8), source: 'shipped' }, 'invalid_request', /has no place beside list/],
    [{ source: '/etc/passwd' }, 'invalid_request', /must be `shipped` or an https URL/],
    [{ source: 'http://lists.example.com/' }, 'invalid_request', /https URL/],
    [{ list: costing(3, 8), date: '2026-02-30' }, 'invalid_request', /must be a day/],
    [{ lists: 'x' }, 'invalid_request', /not a member/],
  ] as const) {
    const refused = await update(gw, body);
    t.match(refused, { status: 400, body: { error: { code } } }, JSON.stringify(body));
    t.match(refused.text, why);
    t.match(await gw.admin('POST', '/v1/admin/prices/diff', body), { status: 400, body: { error: { code } } });
  }
  t.match(await update(gw, { list: 'x'.repeat(25_000_000) }), { status: 413 });
  t.match(await gw.admin('POST', '/v1/admin/prices/accept', {}), { status: 400 });
  t.match(await gw.admin('POST', '/v1/admin/prices/accept', { all: true, models: [{ provider: 'p', model: 'm' }] }), { status: 400 });
  t.match(await gw.admin('POST', '/v1/admin/prices/accept', { models: [{ provider: 'openai', model: 'm' }] }), { status: 404 });
  t.match(await gw.admin('GET', '/v1/admin/prices/explain?provider=nobody&model=m'), { status: 404 });
  t.same((await auditOf(gw)).length, 0, 'nothing has changed');

  t.match(await update(gw, { list: costing(3, 0), name: 'from-mail.json', date: '2026-11-01' }), {
    status: 200,
    body: { outcome: 'taken', changed: 2, in_force: { from: 'given', name: 'from-mail.json', date: '2026-11-01', taken_by: 'admin' } },
  });
  t.match(await gw.admin('POST', '/v1/admin/prices/accept', { all: true }), {
    status: 200,
    body: { accepted: [{ provider: 'openai', model: 'm', rate: 'out', before: '8', after: '0' }], held: [] },
  });
  t.match(await update(gw, { source: 'shipped' }), { status: 200, body: { outcome: 'taken', in_force: { from: 'shipped' } } });
  t.match(
    (await auditOf(gw)).map(({ operation, principal, object }) => [operation, principal.id, object]),
    [
      ['prices.update', 'admin', 'shipped'],
      ['prices.accept', 'admin', /^[0-9a-f]{64}$/],
      ['prices.update', 'admin', /^[0-9a-f]{64}$/],
    ],
  );
});

t.test('an entry that would price a known name so waits for a yes, whatever prices the name now; a new model is taken', async (t) => {
  const { gw } = await startGoverned(t, { clock: fakeClock(), bundle: ALLOW_ALL });
  const planted: readonly (readonly [list: string, match: Record<string, string>, rate: number, provider: string, model: string])[] = [
    ['anthropic', { starts_with: 'claude-sonnet-4-5-2' }, 0, 'anthropic', 'claude-sonnet-4-5-20250929'],
    ['azure', { starts_with: 'gpt-4o' }, 0, 'azure_openai', 'gpt-4o'],
    ['azure', { contains: 'claude' }, 0.001, 'azure_openai', 'claude-opus-4-1'],
    ['aws', { equals: 'deepseek.v3.2' }, 0, 'bedrock', 'deepseek.v3.2'],
    ['google', { equals: 'meta/llama-3.3-70b-instruct-maas' }, 0, 'vertex', 'meta/llama-3.3-70b-instruct-maas'],
    [
      'aws',
      { starts_with: 'arn:' },
      0,
      'bedrock',
      'arn:aws:bedrock:us-east-1:999999999999:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0',
    ],
    ['openrouter', { contains: 'claude' }, 0, 'openrouter', 'anthropic/claude-sonnet-4.5:nitro'],
  ];
  const list = JSON.parse(JSON.stringify(loadCatalogue().priceList.providers)) as { id: string; models: unknown[] }[];
  for (const [at, [id, match, rate]] of planted.entries())
    list.find((one) => one.id === id)?.models.unshift({ id: `planted-${at}`, match, prices: { input_mtok: rate, output_mtok: rate } });
  list
    .find(({ id }) => id === 'openai')
    ?.models.push({ id: 'gpt-9', match: { equals: 'gpt-9' }, prices: { input_mtok: 0.5, output_mtok: 0.5 } });
  const rates = async (provider: string, model: string): Promise<unknown> => {
    const asking = `/v1/admin/prices/explain?provider=${provider}&model=${encodeURIComponent(model)}`;
    return ((await gw.admin('GET', asking)).body as { price: { rates: unknown } }).price.rates;
  };
  const all = (): Promise<readonly unknown[]> => Promise.all(planted.map(([, , , provider, model]) => rates(provider, model)));
  const before = await all();
  const taken = await update(gw, { list: JSON.stringify(list) });
  t.match(taken, { status: 200, body: { outcome: 'taken', added: 8 } });
  const { held } = await status(gw);
  t.same(
    [...new Set(held.map(({ provider, model }) => `${provider} ${model}`))].sort(),
    planted.map(([id], at) => `${id} planted-${at}`).sort(),
  );
  t.ok(
    held.every(({ name }) => name !== undefined),
    'each says which name has shown it',
  );
  t.same(await all(), before);
  t.match(await rates('openai', 'gpt-9'), { in: '0.5', out: '0.5' });
  t.match(await gw.admin('POST', '/v1/admin/prices/accept', { models: [{ provider: 'azure', model: 'planted-1' }] }), { status: 200 });
  t.same((await all())[1], { in: '0', out: '0' }, 'what is accepted holds');
  t.same((await all())[3], before[3], 'and nothing else');
  t.match(await gw.admin('POST', '/v1/admin/prices/accept', { all: true }), { status: 200, body: { held: [] } });
  t.same(
    await all(),
    planted.map(([, , rate]) => ({ in: String(rate), out: String(rate) })),
  );
});

t.test('only the operator changes prices: no key of the management API and no tool of an assistant does', async (t) => {
  const { gw } = await startGoverned(t, { bundle: ALLOW_ALL, catalogue: CATALOGUE });
  const made = (await gw.admin('POST', '/v1/admin/mgmt-keys', { name: 'ops', kind: 'management', scopes: ['read', 'write'] })).body as {
    key: string;
  };
  for (const path of ['status', 'explain?provider=openai&model=m', 'diff', 'update', 'accept']) {
    const method = path === 'update' || path === 'accept' ? 'POST' : 'GET';
    const answer = await fetch(`${gw.url}/v1/admin/prices/${path}`, { method, headers: { Authorization: `Bearer ${made.key}` } });
    t.equal(answer.status, 401, path);
  }
  const { paths } = (await gw.admin('GET', '/v1/openapi.json')).body as { paths: Record<string, Record<string, unknown>> };
  const writing = Object.entries(paths).flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method} ${path}`));
  t.same(
    writing.filter((route) => /pric/.test(route) && !route.startsWith('get')),
    ['post /v1/admin/prices/diff', 'post /v1/admin/prices/update', 'post /v1/admin/prices/accept'],
  );
});

t.test('a file is in force when the ports open, is taken as it changes, and what was taken is kept over a restart', async (t) => {
  const dir = tempDir(t);
  const file = join(dir, 'prices.json');
  writeFileSync(file, costing(3, 8));
  const env = { GW_PRICE_LIST: file, GW_DATA_DIR: join(dir, 'data'), GW_NODE_ID: 'n-1' };
  const first = await startTestGateway(t, { catalogue: CATALOGUE, env });
  t.match(await status(first), { last: { outcome: 'taken' }, in_force: { from: 'file', name: file } });
  writeFileSync(file, costing(4, 0));
  for (;;) {
    const { held, in_force: list } = await status(first);
    if (held.length > 0) {
      t.match(held, [{ provider: 'openai', model: 'm', rate: 'out', before: '8', after: '0', held: true }]);
      t.equal(list.taken_by, 'n-1');
      break;
    }
  }
  await first.gateway.stop();
  const again = await startTestGateway(t, { catalogue: CATALOGUE, env: { ...env, GW_PRICE_LIST: 'shipped' } });
  t.match(await again.admin('GET', '/v1/admin/prices/explain?provider=openai&model=m'), {
    body: {
      price: { rates: { in: '4', out: '8' }, rate_source: 'catalogue' },
      from: 'list',
      listed: { list: 'openai', rule: 'equals "m"' },
    },
  });
  t.equal((await auditOf(again)).length, 2, 'the start has changed nothing');
});

t.test('a value of GW_PRICE_LIST that is none stops the start with one line that says what it takes', (t) => {
  for (const text of ['shiped', 'http://lists.example.com/x', 'ftp://x/', 'https://u:p@lists.example.com/'])
    t.throws(() => loadConfig({ GW_PRICE_LIST: text }, false), {
      message: /^GW_PRICE_LIST: .* it takes `shipped`, the path of a file[^\n]*$/,
    });
  t.throws(() => loadConfig({ GW_PRICE_LIST_REFRESH: '1m' }, false), {
    message: /^GW_PRICE_LIST_REFRESH: "1m" is not allowed; it takes a duration/,
  });
  t.match(loadConfig({}, false).config, { priceList: { kind: 'shipped' }, priceListRefresh: 86_400_000 });
  t.end();
});

t.test('gw prices: what a person types, and reads', async (t: Test) => {
  const long = { base: 1, tiers: [{ start: 200_000, price: 2 }] };
  const shipped = listOf({
    m: { input_mtok: long, output_mtok: 8, web_searches_kcount: 10 },
    old: { input_mtok: 1, output_mtok: 1 },
    timed: [
      { prices: { input_mtok: 1, output_mtok: 1 } },
      { constraint: { start_date: '2026-12-01' }, prices: { input_mtok: 2, output_mtok: 2 } },
    ],
  });
  const { gw, execute } = await startGoverned(t, {
    clock: fakeClock(),
    bundle: ALLOW_ALL,
    catalogue: { sources: { priceList: shippedList(shipped) } },
  });
  const prices = commandsOf(gw);
  t.match(await prices('status'), {
    code: 0,
    out: /^in force: 2026-09-23, version 0\.1\.8: 3 models of 1 provider, 59 days old\nfrom: {5}the package\n/,
  });

  const explained = await prices('explain', 'OpenAI', 'M@2026-11-20');
  t.equal(explained.code, 0);
  t.match(
    explained.out,
    /^model: {9}M@2026-11-20 at openai, 2026-11-21 12:00:00Z\nfound as: {6}m(?:-2026-11-20)? \(taken off: @ before a date\)\n/,
  );
  t.match(explained.out, /in the list: {3}m of openai\nby the rule: {3}equals "m"\n/);
  t.match(
    explained.out,
    /\nRATE {10}FOR {8}USD {2}ABOVE 200,000\nin {12}1M tokens {4}1 {14}2\nout {11}1M tokens {4}8 {14}8\nweb_searches {2}1,000 {7}10\n/,
  );
  t.match((await prices('explain', 'openai', 'timed')).out, /\nin +1M tokens +1\n/);
  t.match(
    (await prices('explain', 'openai', 'timed', '--at', '2026-12-02T00:00:00Z')).out,
    /holds: +from 2026-12-01\n[\s\S]*\nin +1M tokens +2\n/,
  );
  t.match((await prices('explain', 'openai', 'unheard-of')).out, /priced by: +nowhere: no list and no row knows this model\n/);
  t.match(JSON.parse((await prices('explain', 'openai', 'm', '--json')).out), {
    price: { long_prompts: [{ above: 200_000, rates: { in: '2' } }] },
  });
  t.match(await prices('explain', 'openai'), { code: 2, err: /name a provider and a model/ });
  t.match(await prices('explain', 'openai', 'm', '--at', 'noon'), { code: 2, err: /--at takes a time/ });
  t.match(await prices('explain', 'nobody', 'm'), { code: 1, err: /There is no provider nobody/ });

  const file = join(tempDir(t), 'new.json');
  writeFileSync(file, listOf({ m: { input_mtok: 0, output_mtok: 9, sparkle_mtok: 1 }, young: { input_mtok: 1, output_mtok: 1 } }));
  const diff = await prices('diff', file);
  t.equal(diff.code, 1, 'something would change');
  t.match(
    diff.out,
    /^\d rates would change, \d of them held back:\n\nPROVIDER {2}MODEL {2}RATE +FROM +TO +TIMES\nopenai {4}m {6}in +1 +0 +0 {2}held\n/,
  );
  t.match(diff.out, /\n1 model would be added:\n\nPROVIDER {2}MODEL\nopenai {4}young\n\n2 models would be gone:\n/);
  t.match(diff.out, /note: the price key sparkle_mtok is not understood/);
  t.match(JSON.parse((await prices('diff', file, '--json')).out), { added: [{ provider: 'openai', model: 'young' }] });
  t.match(await prices('diff'), { code: 0, out: 'It says the same as the list in force.\n' }, 'that of the setting');

  const updated = await prices('update', file);
  t.match(updated, {
    code: 0,
    out: /^In force from the next call on: 2026-11-21: 2 models of 1 provider \(1 model added, 2 removed, \d rates changed\)\./,
  });
  t.match(updated.out, /These would fall to zero or change more than tenfold; [^\n]*\(gw prices accept openai m, or --all\):\n/);
  t.match(await prices('update', file), { code: 0, out: /^Nothing has changed: / });
  t.match(await prices('update', file, '--json'), { out: /^\{"outcome":"unchanged"/ });
  t.match(await prices('status'), {
    out: /\nfrom: {5}new\.json\ntaken: {4}2026-11-21 12:00:00Z by admin\n[\s\S]*\nHeld back until somebody says yes /,
  });
  t.match(await prices('accept', 'openai', 'other'), { code: 1, err: /No price of openai other waits for a yes/ });
  t.match(await prices('accept'), { code: 2, err: /name models by PROVIDER MODEL, or give --all/ });
  t.match(await prices('accept', 'openai'), { code: 2, err: /openai is alone/ });
  t.match(await prices('accept', 'openai', 'm', '--all'), { code: 2 });
  t.match(await prices('accept', 'openai', 'm'), {
    code: 0,
    out: /^In force from the next call on \(\d rates?, none is held back any more\):\n/,
  });
  t.match(await prices('accept', '--all'), { code: 0, out: 'No price is held back.\n' });
  t.match(await prices('update', 'shipped'), { code: 0, out: /^In force from the next call on: 2026-09-23, version 0\.1\.8/ });

  writeFileSync(file, '[{"id":"openai"');
  t.match(await prices('update', file), {
    code: 1,
    err: /^gw prices update: The price list of new\.json cannot be used; the one before stays in force: is no JSON/,
  });
  t.match(await prices('update', join(file, 'none')), { code: 2, err: /new\.json.none: / });
  t.match(await prices('update', 'http://lists.example.com/'), { code: 1, err: /must be `shipped` or an https URL/ });
  t.match(await runGw(['prices', 'update', '-', '--url', gw.url], { env: { GW_ADMIN_TOKEN: ADMIN_TOKEN }, stdin: costing(1, 7) }), {
    code: 0,
  });
  t.match((await status(gw)).in_force, { name: 'standard input' });

  for (const model of ['strange-one', 'strange-one', 'strange-\u001b[31mtwo']) await execute({}, { params: { model, messages: [] } });
  // The event of a call comes behind its last byte.
  while ((await status(gw)).priced_by_default.reduce((sum, { calls }) => sum + calls, 0) < 3);
  const shown = await prices('status');
  t.match(shown.out, /\nCalled without a price since the start, and charged 10 \/ 30 [^\n]*:\n\nPROVIDER {2}MODEL +CALLS {2}LAST\n/);
  t.notMatch(shown.out, '\u001b');
  t.match(await runGw(['prices', 'status', '--url', 'http://127.0.0.1:9'], { env: { GW_ADMIN_TOKEN: ADMIN_TOKEN } }), {
    code: 2,
    err: /^gw prices status: http:\/\/127\.0\.0\.1:9 cannot be asked: /,
  });
});
