// Two gateways on one PostgreSQL: what one is told holds on the other, what both leave adds up, and a database that is
// away stops no call.
import { join } from 'node:path';
import t from 'tap';
import { picoFromUsd, usdFromPico } from '../../src/base/lib/money.ts';
import { until } from '../contract/store-under-test.ts';
import { PostgresServer } from '../storage/postgres/server.ts';
import { Browser, SESSION } from '../support/console-browser.ts';
import { ADMIN_TOKEN, type TestGateway } from '../support/gateway.ts';
import { bundleOf, CHAT, chat, type Governed, startGoverned } from '../support/governed.ts';
import { skipWithout } from '../support/peers.ts';
import { gw as command } from '../support/run-gw.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';
import type { UpstreamHandler } from '../support/tls-upstream.ts';

const BUNDLE = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
  risk:
    - id: large
      when: {field: context.action.params.user, equals: ask}
      effect: {decision: require_approval, reason: large jobs are agreed on first}
    - id: held
      when: {field: context.action.params.user, equals: hold}
      effect: {decision: require_approval, reason: it waits, approval: {hold: 2m}}
`);
const SECRETS_KEY = Buffer.alloc(32, 7).toString('base64');

/** Charges as many output tokens as the call allows, and no input. */
const chargeAll: UpstreamHandler = (_request, response, whole) =>
  void whole.then((body) => {
    const { max_tokens: out = 1 } = JSON.parse(body.toString()) as { max_tokens?: number };
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ usage: { prompt_tokens: 0, completion_tokens: out } }));
  });

type Json = Record<string, unknown>;

/** A node of a cluster; the names of two differ. */
type StartNode = (name: string, env?: Readonly<Record<string, string>>) => Promise<Governed>;

/** What all nodes of a test have in common. */
function cluster(t: HasTeardown, url: string): StartNode {
  const common = { GW_DATABASE_URL: url, GW_SECRETS_KEY: SECRETS_KEY, GW_CA_DIR: join(tempDir(t), 'ca') };
  return (name, env = {}) => startGoverned(t, { bundle: BUNDLE, handler: chargeAll, env: { ...common, GW_NODE_ID: name, ...env } });
}

async function admin(gw: TestGateway, method: string, path: string, body?: unknown): Promise<Json> {
  const answer = await gw.admin(method, path, body);
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
  return answer.body as Json;
}

const totalOf = async (gw: TestGateway): Promise<unknown> => (await admin(gw, 'GET', '/v1/dashboard/summary'))['total_requests'];

await t.test('on one database', { skip: skipWithout(['postgresql']), timeout: 300_000 }, async (t) => {
  const server = await PostgresServer.start(t);
  const name = await server.createDatabase();
  const node = cluster(t, server.url(name));
  const [a, b] = [await node('node-a'), await node('node-b')];

  await t.test('each says how it runs, and knows the other', async (t) => {
    const health = await admin(a.gw, 'GET', '/healthz');
    t.match(health, { node_id: 'node-a', mode: 'distributed', backlog: { records: 0, seconds: 0 } });
    const { nodes } = (await admin(b.gw, 'GET', '/v1/admin/nodes')) as { nodes: Json[] };
    t.match(nodes, [
      { node_id: 'node-a', mode: 'distributed', version: String, last_seen_at: String, backlog: { records: 0 } },
      { node_id: 'node-b', mode: 'distributed' },
    ]);
    const metrics = (await b.gw.admin('GET', '/metrics')).text;
    for (const line of ['gw_backlog_records 0', 'gw_backlog_seconds 0', 'gw_database_connected 1'])
      t.ok(metrics.includes(`\n${line}\n`), line);
  });

  await t.test('a key that one makes is let in by the other, and is not any more when it is revoked', async (t) => {
    const made = await admin(a.gw, 'POST', '/v1/admin/api-keys', { org_id: 'default', name: 'shared' });
    const ask = () => b.send(chat(['X-GW-API-Key', String(made['key'])]));
    await until(async () => (await ask()).status === 200);
    await admin(a.gw, 'DELETE', `/v1/admin/api-keys/${String(made['id'])}`);
    await until(async () => (await ask()).status === 401);
    t.pass();
  });

  await t.test('who signs in at one has signed in at the other; a link lets in once, and who is sent away is gone from both', async (t) => {
    const { url } = await admin(a.gw, 'POST', '/v1/console/links');
    const code = String(url).split('#code=')[1] ?? '';
    const [one, other] = [new Browser(a.gw.port), new Browser(b.gw.port)];
    const said = await Promise.all([one.signIn({ code }), other.signIn({ code })]);
    t.strictSame(said.map(({ status }) => status).sort(), [201, 401], 'whichever is first');
    const [here, there] = said[0].status === 201 ? [one, one.at(b.gw.port)] : [other, other.at(a.gw.port)];
    await until(async () => (await there.ask('GET', SESSION)).status === 200);
    await admin(a.gw, 'DELETE', `/v1/admin/sessions/${String(here.session['id'])}`);
    for (const browser of [here, there]) await until(async () => (await browser.ask('GET', SESSION)).status === 401);
  });

  await t.test('a policy that is put on one decides on the other', async (t) => {
    const denies = bundleOf('  targets:\n    - {id: none, effect: {decision: deny}}\n');
    await admin(a.gw, 'PUT', '/v1/admin/policies', { bundle_yaml: denies });
    await until(async () => (await b.send(chat())).status === 403);
    await admin(b.gw, 'PUT', '/v1/admin/policies', { bundle_yaml: BUNDLE });
    await until(async () => (await a.send(chat())).status === 200);
    t.pass();
  });

  await t.test('a request that waits on one is approved on the other, and runs once', async (t) => {
    const params = { ...CHAT, user: 'ask' };
    const first = await a.execute({}, { params });
    t.equal(first.status, 202);
    const waiting = (gw: TestGateway) => admin(gw, 'GET', '/v1/admin/approvals?status=pending');
    const items = async (gw: TestGateway) => (await waiting(gw))['items'] as Json[];
    await until(async () => (await items(b.gw)).length === 1);
    await admin(b.gw, 'POST', `/v1/admin/approvals/${String((await items(b.gw))[0]?.['approval_id'])}/approve`);
    await until(async () => (await items(a.gw)).length === 0);
    const answers = await Promise.all([a, b, a, b].map((one) => one.execute({}, { params })));
    t.strictSame(answers.map(({ status }) => status).sort(), [200, 202, 202, 202], 'one use of it, wherever it comes first');
  });

  await t.test('a call that one holds is shown by the other, which decides it; one whose client leaves is withdrawn on both', async (t) => {
    const shown = async (gw: TestGateway): Promise<Json | undefined> => {
      const { items } = (await admin(gw, 'GET', '/v1/admin/approvals?status=pending')) as { items: Json[] };
      return items.find(({ held }) => held !== undefined);
    };
    const call = a.execute({}, { params: { ...CHAT, user: 'hold' } });
    await until(async () => (await shown(b.gw)) !== undefined);
    const waiting = await shown(b.gw);
    t.match([waiting?.['held'], waiting?.['on_approval']], [{ calls: 1 }, 'sends the waiting request now']);
    await admin(b.gw, 'POST', `/v1/admin/approvals/${String(waiting?.['approval_id'])}/approve`);
    t.equal((await call).status, 200);
    const leaving = new AbortController();
    const body = JSON.stringify({ ...CHAT, user: 'hold', seed: 1 });
    const left = fetch(`${a.gw.url}/proxy/openai/v1/chat/completions`, { method: 'POST', body, signal: leaving.signal }).catch(
      () => 'left',
    );
    await until(async () => (await shown(b.gw)) !== undefined);
    const { approval_id: id } = (await shown(b.gw)) ?? {};
    leaving.abort();
    t.equal(await left, 'left');
    await until(async () => (await admin(b.gw, 'GET', `/v1/admin/approvals/${String(id)}`))['status'] === 'withdrawn');
    t.equal((await b.gw.admin('POST', `/v1/admin/approvals/${String(id)}/approve`)).status, 409);
  });

  await t.test('a keyed answer of one is replayed by the other', async (t) => {
    const keyed = (one: Governed) => one.execute({ idempotency_key: 'k-1' });
    t.equal((await keyed(a)).headers.get('idempotent-replayed'), null);
    t.equal((await keyed(b)).headers.get('idempotent-replayed'), 'true');
  });

  await t.test('what both leave adds up on both, and each record is found on both', async (t) => {
    const before = Number(await totalOf(a.gw));
    const answers = await Promise.all(Array.from({ length: 40 }, (_, n) => (n % 2 === 0 ? a : b).send(chat())));
    t.ok(answers.every(({ status }) => status === 200));
    for (const { gw } of [a, b]) await until(async () => (await totalOf(gw)) === before + 40);
    for (const answer of answers.slice(0, 4))
      for (const { gw } of [a, b]) {
        const id = answer.headers['x-gw-record-id'] ?? '';
        await until(async () => (await gw.admin('GET', `/v1/verify/${id}`)).status < 500);
        t.equal((await gw.record(id))['record_id'], id);
      }
  });

  // Holds: no-cap-passed-by-nodes
  await t.test('a cap is one for both, to the last call', async (t) => {
    // Each may cost what it costs, 0.0015 USD: twenty reach the cap.
    const cost = picoFromUsd('0.0015');
    const limit = await admin(a.gw, 'POST', '/v1/admin/budgets/limits', {
      scope: 'project',
      scope_id: 'capped',
      period: 'monthly',
      limit_usd: '0.03',
      actions: ['cap'],
    });
    const listed = async (gw: TestGateway): Promise<Json | undefined> =>
      ((await admin(gw, 'GET', '/v1/admin/budgets/limits'))['limits'] as Json[]).find(({ limit_id: id }) => id === limit['limit_id']);
    await until(async () => (await listed(b.gw)) !== undefined);
    const reached = () => a.upstream.requests.length + b.upstream.requests.length;
    const before = reached();
    const params = { model: 'gpt-4o-2024-05-13', messages: [], max_tokens: 100 };
    const call = (one: Governed) => one.execute({ attribution: { project_id: 'capped' } }, { params });
    const answers = await Promise.all(Array.from({ length: 80 }, (_, n) => call(n % 2 === 0 ? a : b)));
    for (let n = 0; n < 10; n += 1) answers.push(await call(a), await call(b));
    t.strictSame([...new Set(answers.map(({ status }) => status))].sort(), [200, 403]);
    const paid = answers.filter(({ status }) => status === 200).length;
    t.equal(reached() - before, paid, 'who was refused reached no provider');
    t.ok(paid <= 20, `${paid} are no more than fit`);
    t.ok(paid >= 18, `${paid} are nearly all that fit: what one holds and does not use is less than two calls`);
    for (const { gw } of [a, b]) await until(async () => (await listed(gw))?.['spent_usd'] === usdFromPico(BigInt(paid) * cost));
    t.match(answers.find(({ status }) => status === 403)?.body, { reason: 'budget_exceeded' });
  });

  await t.test('a node that was stopped and comes back has its name, and others cannot take it', async (t) => {
    const c = await node('node-c');
    await c.gw.gateway.stop();
    t.match(await node('node-c').catch((error: unknown) => error), {
      message: /^GW_DATABASE_URL: the database knows the node node-c by another/,
    });
    const other = node('node-d', { GW_SECRETS_KEY: Buffer.alloc(32, 8).toString('base64') });
    t.match(await other.catch((error: unknown) => error), { message: /^GW_SECRETS_KEY is another than that of the nodes/ });
    const rooted = node('node-e', { GW_CA_DIR: join(tempDir(t), 'ca') });
    t.match(await rooted.catch((error: unknown) => error), { message: /^GW_CA_DIR has another root than the nodes/ });
  });

  // Holds: no-cap-passed-by-nodes
  await t.test('a node that never comes back is forgotten, and what it held counts as spent', async (t) => {
    const f = await node('node-f');
    const forget = (name: string) => a.gw.admin('DELETE', `/v1/admin/nodes/${name}`);
    t.match(await forget('node-a'), { status: 409, body: { error: { message: /^node-a is the node that was asked/ } } });
    t.match(await forget('none'), { status: 404 });
    t.match(await forget('node-f'), { status: 409, body: { error: { message: /within the last minute: stop it first/ } } });
    await f.gw.gateway.stop();
    const silent = `UPDATE gw_nodes SET seen_at = now() - interval '2 minutes' WHERE node = 'node-f'`;
    await server.sql(`${silent}; INSERT INTO gw_leases VALUES ('spend|default|project|lost|', 'node-f', 1500000000)`, name);
    const listed = async () =>
      ((await admin(a.gw, 'GET', '/v1/admin/nodes'))['nodes'] as Json[]).find(({ node_id: id }) => id === 'node-f');
    t.match(await listed(), { allowances: { accounts: 1, usd: '0.0015' } });
    t.match((await forget('node-f?dry_run=true')).status, 200);
    t.match(await listed(), { node_id: 'node-f' }, 'tried, and not done');
    let terminal = {};
    const gw = (...words: string[]) =>
      command(['nodes', 'forget', ...words, '--url', a.gw.url], { env: { GW_ADMIN_TOKEN: ADMIN_TOKEN }, ...terminal });
    t.match(await gw('node-f'), {
      code: 1,
      out: '',
      err: /had 0 records that the database does not have; 0.0015 USD that it held count as spent.\nNobody can be asked/,
    });
    t.match(await gw('node-a', '--yes'), { code: 1, err: /node-a is the node that was asked/ });
    t.match(await gw(), { code: 2, err: /it takes the ID of one node/ });
    terminal = { columns: 80, lines: ['n'] };
    t.match(await gw('node-f'), { code: 1, err: /is to be forgotten\? \[y\/N\] Nothing was changed\.\n$/ });
    t.match(await listed(), { node_id: 'node-f' }, 'nothing was changed');
    const done = await gw('node-f', '--yes', '--json');
    t.match(JSON.parse(done.out), { node_id: 'node-f', last_seen_at: String, charged: { accounts: 1, usd: '0.0015' } });
    t.equal(await listed(), undefined);
    const { items } = (await admin(a.gw, 'GET', '/v1/admin/audit?operation=nodes.forget')) as { items: Json[] };
    t.match(items, [{ operation: 'nodes.forget', object: 'node-f', changes: [{}, {}] }]);
    const limit = { scope: 'project', scope_id: 'lost', period: 'monthly', limit_usd: '0.003', actions: ['cap'] };
    await admin(a.gw, 'POST', '/v1/admin/budgets/limits', limit);
    const params = { model: 'gpt-4o-2024-05-13', messages: [], max_tokens: 100 };
    const call = () => a.execute({ attribution: { project_id: 'lost' } }, { params });
    t.equal((await call()).status, 200, 'half of the cap is left');
    t.match(await call(), { status: 403, body: { reason: 'budget_exceeded' } });
    const again = node('node-f', { GW_DATA_DIR: f.gw.dataDir });
    t.match(await again.catch((error: unknown) => error), {
      message: /^GW_DATABASE_URL: the database does not know the node of this data folder/,
    });
  });

  await t.test('while the database is away calls go on, and nothing of them is lost', async (t) => {
    const before = Number(await totalOf(a.gw));
    await server.stop('SIGQUIT');
    const answers = await Promise.all(Array.from({ length: 10 }, () => a.send(chat())));
    t.ok(answers.every(({ status }) => status === 200));
    t.match(await a.gw.admin('POST', '/v1/admin/api-keys', { org_id: 'default', name: 'x' }), {
      status: 503,
      body: { error: { code: 'record_store_unavailable' } },
    });
    const codes = async () => ((await admin(a.gw, 'GET', '/healthz'))['warnings'] as Json[]).map(({ code }) => code);
    await until(async () => (await codes()).includes('database_unavailable'));
    t.match(await admin(a.gw, 'GET', '/healthz'), { backlog: { records: 10 } });
    t.equal((await a.gw.admin('GET', '/readyz')).status, 200, 'it takes calls');
    await server.run();
    for (const { gw } of [a, b])
      await until(async () => (await gw.admin('GET', '/v1/dashboard/summary')).status === 200 && (await totalOf(gw)) === before + 10);
    await until(async () => !(await codes()).includes('database_unavailable'));
  });
});
