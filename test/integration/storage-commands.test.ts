// A person moves the store of a gateway into a database, and sees where it is.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import t from 'tap';
import { silentLogger } from '../../src/base/lib/log.ts';
import { openStore } from '../../src/storage/drivers/open-store.ts';
import { until } from '../contract/store-under-test.ts';
import { CHECKED_USER, PostgresServer } from '../storage/postgres/server.ts';
import { launch } from '../support/child.ts';
import { exactly } from '../support/exactly.ts';
import { runningClock } from '../support/fake-clock.ts';
import { type GatewayProcess, MAIN, startGatewayProcess, startGatewayWith } from '../support/gateway-process.ts';
import { ALLOW_ALL, chat, startGoverned } from '../support/governed.ts';
import { skipWithout } from '../support/peers.ts';
import type { RawResponse } from '../support/raw-clients.ts';
import { gw as command } from '../support/run-gw.ts';
import { tempDir } from '../support/temp-dir.ts';
import { startTlsUpstream } from '../support/tls-upstream.ts';
import { towards } from '../support/upstreams.ts';
import { WHOLE_MONTH } from '../support/whole-month.ts';

const PASSWORD = 'secret-word';

t.test('where there is nothing to move, or to move to', async (t) => {
  const dir = tempDir(t);
  const GW_DATA_DIR = join(dir, 'data');
  const none = `GW_DATA_DIR: there is no store of a gateway in ${dir}/data: run this in the gateway's own folder, or with its GW_DATA_DIR\n`;
  t.same(await command(['storage', 'status'], { env: { GW_DATA_DIR } }), { code: 1, out: '', err: `gw storage status: ${none}` });
  t.match(await command(['storage', 'move'], { env: { GW_DATA_DIR } }), {
    code: 2,
    out: '',
    err: /^gw storage move: GW_DATABASE_URL is not set; it says where to move the store/,
  });
  const env = { GW_DATA_DIR, GW_DATABASE_URL: `postgres://user:${PASSWORD}@127.0.0.1:1/db` };
  t.same(await command(['storage', 'move'], { env }), { code: 1, out: '', err: `gw storage move: ${none}` });
  t.same(await command(['storage', 'move', '--dry-run'], { env }), { code: 1, out: '', err: `gw storage move: ${none}` });
  t.match(await command(['storage', 'status'], { env }), {
    code: 1,
    out: '',
    err: /^gw storage status: nothing listens at 127\.0\.0\.1 port 1/,
  });
  const odd = await command(['storage', 'move'], { env: { GW_DATA_DIR, GW_DATABASE_URL: `mysql://user:${PASSWORD}@host/db` } });
  t.match(odd, { code: 2, out: '', err: /^gw storage move: GW_DATABASE_URL: / });
  t.notMatch(odd.err, PASSWORD);
  t.same(readdirSync(dir), [], 'nothing is made');
});

t.test('where the store of a gateway is', async (t) => {
  const { gw } = await startGoverned(t, { bundle: ALLOW_ALL });
  const env = { GW_DATA_DIR: gw.dataDir };
  t.match(await command(['storage', 'status'], { env }), {
    code: 0,
    out: new RegExp(`^storage: embedded\nfolder: +${gw.dataDir}/store, format 1, \\d+ bytes\nof: +a gateway that is alone\n$`),
  });
  t.match(JSON.parse((await command(['storage', 'status', '--json'], { env })).out), {
    storage: 'embedded',
    folder: { path: join(gw.dataDir, 'store'), format: 1, is_of_node: false },
    database: null,
  });
});

t.test('the store of a stopped gateway is moved, and stays moved', { skip: skipWithout(['postgresql']), timeout: 300_000 }, async (t) => {
  const server = await PostgresServer.start(t);
  await server.sql(`CREATE USER ${CHECKED_USER} SUPERUSER PASSWORD '${PASSWORD}'`);
  const name = await server.createDatabase();
  const url = (database: string) => server.url(database, `${CHECKED_USER}:${PASSWORD}`);
  const first = await startGoverned(t, { bundle: ALLOW_ALL });
  const answers: RawResponse[] = [];
  for (let n = 0; n < 5; n += 1) answers.push(await first.send(chat()));
  await first.gw.admin('POST', '/v1/admin/api-keys', { name: 'one' });
  const { dataDir } = first.gw;
  const env = { GW_DATA_DIR: dataDir, GW_NODE_ID: 'node-1', GW_DATABASE_URL: url(name) };
  /** What a command answers; it never says the password. */
  const asked = async (argv: readonly string[], more: Record<string, string> = {}) => {
    const outcome = await command(['storage', ...argv], { env: { ...env, ...more } });
    t.notMatch(outcome.out + outcome.err, PASSWORD);
    return outcome;
  };

  t.match(await asked(['move']), { code: 1, out: '', err: /^gw storage move: The data folder .* is in use by another gateway|is open in/ });
  await first.gw.gateway.stop();

  const planned = JSON.parse((await asked(['move', '--dry-run', '--json'])).out) as { readonly records: number };
  t.match(planned, { outcome: 'planned', moved_at: null, records: 5, entities: { api_key: 1 }, kept: { clock: 1 } });
  t.match(await asked(['move', '--dry-run']), {
    code: 0,
    out: /^records: +5\nentities: +\d+ of \d+ spaces\n(?:.*\n)*dry run: nothing was changed\n$/,
  });
  t.strictSame(await server.sql(`SELECT relname FROM pg_class WHERE relname LIKE 'gw_%'`, name), [], 'no table is made');
  t.notOk(readdirSync(dataDir).includes('node-claims'));
  t.match(await asked(['status']), { code: 0, out: /^storage: +postgres\ndatabase: test_1 at 127\.0\.0\.1 port \d+\ntables: +none yet\n/ });

  const moved = await asked(['move']);
  t.match(moved, { code: 0, err: '' });
  t.match(
    moved.out,
    /^records: 5 of 5 copied\nentities: (\d+) of \1 copied\ncounters: (\d+) of \2 copied\ncounted on both sides: the same\nkept .*\nMoved\./,
  );
  t.match(await asked(['move']), { code: 0, out: /^This data folder was moved at \d{4}-.*Z; there is nothing left to do\.\n$/ });
  t.match(JSON.parse((await asked(['move', '--json'])).out), { outcome: 'done', records: null });
  t.match(await asked(['status']), {
    code: 0,
    out: /^records: +5\nsize: +\d+ bytes\nnode: +node-1, seen \d{4}-.*Z, carried up to segment 1, offset \d+\nmove: +node-1, over \d{4}-.*\nfolder: .*\nof: +a node of a database\n$/m,
  });
  t.match(JSON.parse((await asked(['status', '--json'])).out), {
    storage: 'postgres',
    folder: { is_of_node: true },
    database: { name, records: 5, nodes: [{ node: 'node-1' }], moves: [{ node: 'node-1', stage: 'done' }] },
  });

  await t.rejects(startGoverned(t, { bundle: ALLOW_ALL, env: { GW_DATA_DIR: dataDir } }), {
    message: /^GW_DATABASE_URL is not set, and the data folder is that of a node/,
  });
  const node = await startGoverned(t, { bundle: ALLOW_ALL, env });
  t.match(await node.gw.record(answers[0]?.headers['x-gw-record-id'] ?? ''), { decision: 'allow' }, 'what was before');
  const later = await node.send(chat());
  t.match(await node.recordOf(later), { decision: 'allow' });
  t.strictSame(await server.sql('SELECT count(*)::int AS n FROM gw_records', name), [{ n: 6 }]);
  t.match((await node.gw.admin('GET', '/v1/dashboard/summary')).body, { total_requests: 6 }, 'each call counts once');
  t.equal(((await node.gw.admin('GET', '/v1/admin/api-keys')).body as { api_keys: unknown[] }).api_keys.length, 1);
  await node.gw.gateway.stop();
  t.match(await asked(['move']), { code: 0, out: /^This data folder was moved at / });

  const other = await server.createDatabase();
  t.match(await asked(['move'], { GW_DATABASE_URL: url(other) }), {
    code: 1,
    err: /^gw storage move: this data folder is that of a node already, and this database does not know it/,
  });
  const second = await startGoverned(t, { bundle: ALLOW_ALL });
  await second.gw.gateway.stop();
  const claims = readFileSync(join(dataDir, 'node-claims'), 'utf8');
  for (const more of [[], ['--dry-run']])
    t.match(await asked(['move', ...more], { GW_DATA_DIR: second.gw.dataDir, GW_NODE_ID: 'node-2' }), {
      code: 1,
      out: '',
      err: /^gw storage move: the database has the node node-1 already: .* or begin this node with an empty data folder \(GW_DATA_DIR\)\n$/,
    });
  t.equal(readFileSync(join(dataDir, 'node-claims'), 'utf8'), claims);
});

t.test('a move as a process, which is killed and run again', { skip: skipWithout(['postgresql']), timeout: 300_000 }, async (t) => {
  const server = await PostgresServer.start(t);
  const name = await server.createDatabase();
  const { gw, send } = await startGoverned(t, { bundle: ALLOW_ALL });
  for (let n = 0; n < 3; n += 1) await send(chat());
  await gw.gateway.stop();
  const env = { GW_DATA_DIR: gw.dataDir, GW_DATABASE_URL: server.url(name) };
  await (await openStore(server.url(name), { fsync: 'off', clock: runningClock, log: silentLogger })).store.close();
  // Entities can be read and not written: the move waits there, with its records copied.
  const client = new pg.Client({ connectionString: server.url(name) });
  await client.connect();
  await client.query('BEGIN; LOCK TABLE gw_entities IN SHARE MODE');
  const child = launch(t, process.execPath, [MAIN, 'storage', 'move'], { env });
  const waits = `SELECT 1 AS n FROM pg_stat_activity WHERE datname = '${name}' AND wait_event_type = 'Lock'`;
  await until(async () => (await server.sql(waits)).length > 0);
  child.kill('SIGKILL');
  t.match(await child.ended, { signal: 'SIGKILL', stdout: 'records: 3 of 3 copied\n' });
  await client.end();
  await until(async () => (await server.backends(name)) === 0);
  t.match(await command(['storage', 'status'], { env }), { code: 0, out: /^records: +3\n(?:.*\n)*^move: .*, not over: entities\n/m });
  t.match(await command(['storage', 'move'], { env }), {
    code: 0,
    err: '',
    out: /^A move that was broken off goes on\.\nentities: (\d+) of \1 copied\ncounters: (\d+) of \2 copied\ncounted on both sides: the same\n/,
  });
  t.strictSame(await server.sql('SELECT count(*)::int AS n FROM gw_records', name), [{ n: 3 }]);
});

t.test(
  'a call that was under way when the gateway was killed is charged once, by the node',
  { skip: skipWithout(['postgresql']), timeout: 300_000 },
  async (t) => {
    const server = await PostgresServer.start(t);
    let arrived = (): void => undefined;
    const reached = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    const upstream = await startTlsUpstream({ hosts: ['api.openai.com'], handler: () => arrived() });
    t.teardown(() => upstream.close());
    const first = await startGatewayProcess(t, { env: { ...WHOLE_MONTH, ...towards(t, upstream, ['api.openai.com']) } });
    await first.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd: '1', actions: ['cap'] });
    // 2,000 tokens of its output cost 0.03 USD.
    const params = { model: 'gpt-4o-2024-05-13', messages: [], max_tokens: 2000 };
    const action = { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params };
    const body = { schema: 'gw.action_request.v2', org_id: 'default', workload_id: 'default', credential_hint: 'k', action };
    const call = fetch(`${first.url}/v1/actions:execute`, { method: 'POST', body: JSON.stringify(body) }).catch(() => 'broken off');
    await reached;
    first.child.kill('SIGKILL');
    await first.child.ended;
    t.equal(await call, 'broken off');

    const env = { ...first.env, GW_DATABASE_URL: server.url(await server.createDatabase()) };
    t.match(JSON.parse((await command(['storage', 'move', '--json'], { env })).out), { outcome: 'moved', records: 0, kept: { intent: 1 } });
    const charged = async (node: GatewayProcess) => (await node.admin('GET', '/v1/admin/budgets/limits')).body;
    const node = await startGatewayWith(t, env);
    t.match(await charged(node), { limits: [{ spent_usd: exactly('0.03'), reserved_usd: exactly('0') }] });
    node.child.kill('SIGKILL');
    await node.child.ended;
    const again = await startGatewayWith(t, env);
    t.match(await charged(again), { limits: [{ spent_usd: exactly('0.03'), reserved_usd: exactly('0') }] }, 'the intent is gone');
  },
);
