// Refused calls of callers who have shown nothing: what they may write, what counts them, and who is never held to it
// (decision 7.11).
import t from 'tap';
import { checkRecord } from '../../src/record/verify-record.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { bundleOf, CHAT, chat, type Governed, startGoverned } from '../support/governed.ts';
import { ConnectRefused, openTunnel } from '../support/raw-clients.ts';
import { storedRecords } from '../support/stored-records.ts';

const DENY_ALL = bundleOf('');
const MANY = 12;
/** A budget of one address that three calls use up, while the clock stands still. */
const THREE = { GW_STRANGER_RECORDS: '1/3' };
const NOBODY = 'nobody-registered-me';

type Summed = Record<string, unknown> & { readonly summed_requests?: number };

/** Stops the gateway, and gives what it has written. */
async function written({ gw }: Governed): Promise<readonly Summed[]> {
  await gw.gateway.stop();
  const records = await storedRecords(gw.dataDir);
  for (const record of records) {
    const { stored, computed } = checkRecord(JSON.stringify(record));
    if (stored !== computed) throw new Error(`the hash of ${String(record['record_id'])} does not hold`);
  }
  return records;
}

const single = (records: readonly Summed[]) => records.filter(({ summed_requests: summed }) => summed === undefined);
const sums = (records: readonly Summed[]) => records.filter(({ summed_requests: summed }) => summed !== undefined);

/** Ways of being refused without having shown anything. */
const STRANGERS: Readonly<Record<string, (place: Governed) => Promise<unknown>>> = {
  'a workload that is not registered': ({ send }) => send(chat(['X-GW-Workload-ID', NOBODY])),
  'a structured call for one': ({ execute }) => execute({ workload_id: NOBODY }, {}, { Authorization: 'Bearer gww_made-up' }),
  'a structured call of an org that is not served': ({ execute }) => execute({ org_id: `made-up-${Math.random()}` }),
  'one inside of a tunnel': ({ through }) => through('api.openai.com:443', chat(['X-GW-Workload-ID', NOBODY], '/v1/chat/completions')),
  'a CONNECT to an address that is not public': ({ gw }) => refusedTunnel(gw.port, '10.0.0.1:443'),
  'a CONNECT of a workload that is not registered': ({ gw }) =>
    refusedTunnel(gw.port, 'api.openai.com:443', { 'X-GW-Workload-ID': NOBODY }),
  'an absolute URL at an address that is not public': ({ send }) => send({ method: 'GET', path: 'http://10.0.0.1/', host: '10.0.0.1' }),
  'a token of a workload that is shown inside of no tunnel that it opened': ({ through }) =>
    through('api.openai.com:443', chat(['X-GW-Workload-ID', 'guarded'], '/v1/chat/completions')),
};

async function refusedTunnel(port: number, authority: string, headers: Record<string, string> = {}): Promise<void> {
  try {
    (await openTunnel(port, authority, { headers })).destroy();
  } catch (error) {
    if (!(error instanceof ConnectRefused)) throw error;
  }
}

t.test('every way of being refused without having shown anything leaves few records, and one that counts the rest', async (t) => {
  for (const [way, call] of Object.entries(STRANGERS)) {
    const env = { ...THREE, GW_ORG_ID: 'acme', ...(way.includes('CONNECT of') ? { GW_PROXY_MITM_ENABLED: 'false' } : {}) };
    const place = await startGoverned(t, { clock: fakeClock(), env });
    await place.gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'guarded' });
    await place.gw.admin('POST', '/v1/admin/workloads/guarded/token');
    for (let i = 0; i < MANY; i++) await call(place);
    const records = await written(place);
    t.equal(single(records).length, 3, way);
    t.match(sums(records), [{ decision: 'deny', summed_requests: MANY - 3, caller_ip: '127.0.0.1' }], way);
    t.match(sums(records)[0]?.['reason_codes'], ['records_summed_up', ...((single(records)[0]?.['reason_codes'] ?? []) as string[])], way);
  }
});

t.test('the answer is the same, totals and metrics count every call, and the minute has one record', async (t) => {
  const clock = fakeClock();
  const place = await startGoverned(t, { clock, env: THREE });
  const { gw, send } = place;
  const answers = [];
  for (let i = 0; i < MANY; i++) answers.push(await send(chat(['X-GW-Workload-ID', NOBODY])));
  const shapes = answers.map(({ status, rawHeaders, body }) => {
    const told = JSON.parse(body.toString()) as Record<string, unknown>;
    return JSON.stringify([
      status,
      rawHeaders.filter((_, at) => at % 2 === 0),
      Object.keys(told),
      { ...told, record_id: '', request_id: '', record_hash: '', trace_id: '', evaluated_at: '' },
    ]);
  });
  t.same([...new Set(shapes)], [shapes[0]]);
  const metrics = (await gw.admin('GET', '/metrics')).text;
  const shown = (name: string) => metrics.split('\n').filter((line) => line.startsWith(`${name}{`));
  t.same(shown('gw_requests_total'), [`gw_requests_total{action_type="ai.infer",decision="deny",org_id="default"} ${MANY}`]);
  t.same(shown('gw_policy_deny_total'), [`gw_policy_deny_total{org_id="default",reason_code="workload_not_registered"} ${MANY}`]);
  t.same(shown('gw_records_summed_total'), [`gw_records_summed_total{org_id="default"} ${MANY - 3}`]);
  clock.advance(60_000);
  for (let i = 0; i < 5; i++) await send(chat(['X-GW-Workload-ID', NOBODY]));
  t.match((await gw.admin('GET', '/v1/reports/usage?org_id=default&period=2026-11')).body, {
    workloads: [{ workload_id: 'unregistered workloads', requests: MANY + 3 }],
  });
  const records = await written(place);
  t.equal(single(records).length, 6);
  t.same(
    sums(records).map(({ summed_requests: summed }) => summed),
    [MANY - 3, 2],
    'what was under way was written at the end',
  );
  const again = await startGoverned(t, { clock, env: { ...THREE, GW_DATA_DIR: gw.dataDir } });
  t.match((await again.gw.admin('GET', '/v1/reports/usage?org_id=default&period=2026-11')).body, {
    workloads: [{ workload_id: 'unregistered workloads', requests: MANY + 5 }],
  });
});

t.test('no name makes a record long', async (t) => {
  const place = await startGoverned(t, { clock: fakeClock(), env: { GW_STRANGER_RECORDS: '50/1000' } });
  const long = '\u0001'.repeat(256);
  const labels = Object.fromEntries(Array.from({ length: 32 }, (_, i) => [`${i}${long}`.slice(0, 256), long]));
  const attribution = { project_id: long, customer_id: long, account_id: long, labels };
  const named = { workload_id: '"'.repeat(128), org_id: '\\'.repeat(128), caller_id: long, attribution, delegation_id: '"'.repeat(128) };
  const target_path = `/v1/${'"'.repeat(8_000)}`;
  const params = { ...CHAT, model: '\u0001'.repeat(10_000) };
  const calls = [
    () => place.execute(named),
    () => place.execute(named, { params }),
    () => place.execute({ ...named, idempotency_key: '"'.repeat(128) }, { target_host: 'www.example.com', target_path, params }),
    () => place.send(chat(['X-GW-Workload-ID', NOBODY, 'X-GW-Caller-ID', '"'.repeat(256)], `/proxy/openai/v1/${'%22'.repeat(5_000)}`)),
  ];
  for (const call of calls) await call();
  const records = await written(place);
  t.equal(records.length, calls.length);
  for (const record of records) t.ok(JSON.stringify(record).length <= 4_096, String(JSON.stringify(record).length));
});

t.test('bytes are counted, too', async (t) => {
  const place = await startGoverned(t, { clock: fakeClock(), env: { GW_STRANGER_RECORDS: '1/10' } });
  const long = ['X-GW-Customer-ID', 'c'.repeat(256), 'X-GW-Account-ID', 'a'.repeat(256), 'X-GW-Caller-ID', 'u'.repeat(256)];
  const labels = Array.from({ length: 4 }, (_, i) => [`X-GW-Label-${i}`, 'l'.repeat(256)]).flat();
  for (let i = 0; i < MANY; i++) await place.send(chat(['X-GW-Workload-ID', NOBODY, ...long, ...labels]));
  const records = await written(place);
  const bytes = single(records).reduce((sum, record) => sum + JSON.stringify(record).length, 0);
  t.ok(single(records).length < 10, String(single(records).length));
  t.ok(bytes <= 10 * 2_048, String(bytes));
  t.equal(single(records).length + (sums(records)[0]?.summed_requests ?? 0), MANY);
});

t.test('who has shown a token or a key, and a workload that is registered, has a record of every call', async (t) => {
  const place = await startGoverned(t, { clock: fakeClock(), bundle: DENY_ALL, env: { GW_STRANGER_RECORDS: '0' } });
  const { gw, send, execute, through } = place;
  await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'ci' });
  await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'open' });
  const { token } = (await gw.admin('POST', '/v1/admin/workloads/ci/token')).body as { token: string };
  const { key } = (await gw.admin('POST', '/v1/admin/api-keys', { org_id: 'acme', name: 'k' })).body as { key: string };
  const calls = [
    () => send(chat(['X-GW-Workload-ID', 'open'])),
    () => send(chat(['X-GW-Workload-Token', token])),
    () => send(chat(['X-GW-API-Key', key, 'X-GW-Workload-ID', NOBODY])),
    () => send(chat(['X-GW-API-Key', key, 'X-GW-Org-ID', 'other'])),
    () => execute({ workload_id: NOBODY }, {}, { Authorization: `Bearer ${token}` }),
    () =>
      through('api.openai.com:443', chat(['X-GW-Workload-ID', 'default'], '/v1/chat/completions'), {
        'Proxy-Authorization': `Basic ${Buffer.from(`ci:${token}`).toString('base64')}`,
      }),
    () => send({ method: 'GET', path: 'http://10.0.0.1/', host: '10.0.0.1', headers: ['X-GW-Workload-Token', token] }),
  ];
  for (const call of calls) for (let i = 0; i < MANY; i++) await call();
  const records = await written(place);
  t.same([single(records).length, sums(records).length], [calls.length * MANY, 0]);
});

t.test('keys and tokens of an org leave so many bytes of long records of denials, and no other org loses by it', async (t) => {
  const clock = fakeClock();
  const place = await startGoverned(t, { clock, bundle: DENY_ALL });
  const { gw, send, execute } = place;
  const keyOf = async (org: string): Promise<string> =>
    ((await gw.admin('POST', '/v1/admin/api-keys', { org_id: org, name: 'k' })).body as { key: string }).key;
  const [acme, globex] = [await keyOf('acme'), await keyOf('globex')];
  await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'ci', org_id: 'acme' });
  const { token } = (await gw.admin('POST', '/v1/admin/workloads/ci/token?org_id=acme')).body as { token: string };
  const long = '\u0001'.repeat(256);
  const labels = Object.fromEntries(Array.from({ length: 32 }, (_, i) => [`${i}${long}`.slice(0, 256), long]));
  const dear = (secret: string, org: string) =>
    execute({ org_id: org, attribution: { labels } }, {}, { Authorization: `Bearer ${secret}` });
  const AT_ONCE = 8 * 1_048_576;
  for (let i = 0; i < 60; i++) for (const secret of [acme, acme, token]) await dear(secret, 'acme');
  await send(chat(['X-GW-API-Key', acme, 'X-GW-Label-Team', 'sales']));
  await dear(globex, 'globex');
  clock.advance(1_000);
  await dear(acme, 'acme');
  const metrics = (await gw.admin('GET', '/metrics')).text;
  const records = await written(place);
  t.equal(records.length, 183, 'each call has its record');
  const size = (record: Summed): number => Buffer.byteLength(JSON.stringify(record));
  const isLong = (record: Summed): boolean => size(record) > 4_096;
  const own = records.slice(0, 180);
  const bytes = own.filter(isLong).reduce((sum, record) => sum + size(record), 0);
  t.ok(bytes <= AT_ONCE && bytes > AT_ONCE - 150_000, `${bytes} bytes of long records`);
  const cut = own.filter((record) => !isLong(record)).length;
  t.ok(cut > 0, `${cut} are cut`);
  t.match(metrics, `\ngw_records_shortened_total{org_id="acme"} ${cut}\n`);
  t.match(records[180], { labels: { team: 'sales' } }, 'usual ones of the org are whole');
  t.same(records.slice(181).map(isLong), [true, true], 'and so are long ones of another org, and later ones');
});

t.test('who names no workload has shown nothing, and neither has who names that of callers who name none', async (t) => {
  for (const headers of [[], ['X-GW-Workload-ID', 'default']]) {
    const place = await startGoverned(t, { clock: fakeClock(), bundle: DENY_ALL, env: THREE });
    for (let i = 0; i < MANY; i++) await place.send(chat(headers));
    const records = await written(place);
    t.equal(single(records).length, 3);
    t.match(sums(records), [{ summed_requests: MANY - 3, workload_id: 'default', reason_codes: ['records_summed_up', 'default_deny'] }]);
  }
});

t.test('an address has its own budget, an IPv6 network one, and all of them four', async (t) => {
  const place = await startGoverned(t, { clock: fakeClock(), env: { ...THREE, GW_TRUSTED_PROXIES: '127.0.0.1' } });
  const from = (address: string) => place.send(chat(['X-GW-Workload-ID', NOBODY, 'X-Forwarded-For', address]));
  for (let i = 0; i < 6; i++) await from('192.0.2.1');
  for (let i = 0; i < 6; i++) await from(`2001:db8:0:1::${i}`);
  for (let i = 0; i < 20; i++) await from(`198.51.100.${i}`);
  const records = await written(place);
  const of = (address: string) => single(records).filter(({ caller_ip: ip }) => String(ip).startsWith(address)).length;
  t.same([of('192.0.2.1'), of('2001:db8:0:1:'), of('198.51.100.')], [3, 3, 6]);
  t.match(
    sums(records)
      .map(({ caller_ip: ip, summed_requests: summed }) => [ip, summed])
      .slice(0, 3),
    [
      ['192.0.2.1', 3],
      ['2001:db8:0:1::', 3],
      ['198.51.100.6', 1],
    ],
  );
  t.equal(sums(records).length, 2 + 14);
});

const CONTROLS = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
  risk:
    - {id: asks, when: {field: context.action.params.user, equals: ask}, effect: {decision: require_approval}}
    - {id: bad, when: {field: context.action.params.user, equals: bad}, effect: {decision: quarantine, reason: bad}}
    - {id: no, when: {field: context.action.params.user, equals: no}, effect: {decision: deny}}
`);

t.test('who is refused too often for a record each is put into quarantine and waits for approvals all the same', async (t) => {
  const place = await startGoverned(t, { clock: fakeClock(), bundle: CONTROLS, env: THREE });
  const { gw, execute, upstream } = place;
  const say = (user: string, caller: string) => execute({ caller_id: caller }, { params: { ...CHAT, user } });
  for (let i = 0; i < MANY; i++) t.equal((await say('no', 'a')).status, 403);
  const asked = await say('ask', 'b');
  t.equal(asked.status, 202);
  t.equal((await say('ask', 'b')).body['approval_id'], asked.body['approval_id']);
  t.equal((await say('bad', 'c')).body['decision'], 'quarantine');
  t.match((await say('hello', 'c')).body, { decision: 'quarantine' }, 'he is held');
  t.equal((await say('hello', 'd')).status, 200);
  t.equal(upstream.requests.length, 1);
  const { items } = (await gw.admin('GET', '/v1/admin/quarantine')).body as { items: readonly Record<string, unknown>[] };
  t.match(items, [{ caller_id: 'c', released_at: null }]);
  const records = await written(place);
  const ids = new Set(single(records).map(({ record_id: id }) => id));
  t.ok(ids.has(asked.body['record_id']), 'the record that the approval names');
  t.ok(ids.has(items[0]?.['record_id']), 'that of the entry');
  t.equal(ids.size, 6, 'three by the budget, one each of approval, entry and answer');
});
