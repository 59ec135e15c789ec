// Who is charged for a call, on every door: caller, workload, rules, org defaults (decision 6.11), and what is answered
// when somebody must be and nobody is.
import { join } from 'node:path';
import t from 'tap';
import { silentLogger } from '../../src/base/lib/log.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';
import { runningClock } from '../support/fake-clock.ts';
import { bundleOf, chat, type Governed, startGoverned } from '../support/governed.ts';
import { managedAs } from '../support/managed.ts';
import { HOST, RESPONSES, scene } from '../support/metered-sockets.ts';
import { connectThrough, h2Request, h2Session, openTunnel } from '../support/raw-clients.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';
import { opened, refused as refusedSocket, webSocketOn } from '../support/websockets.ts';

const AUTHORITY = `${HOST}:443`;
const INNER = '/v1/chat/completions';

interface Given {
  readonly project?: string;
  readonly customer?: string;
  readonly account?: string;
  readonly labels?: Readonly<Record<string, string>>;
}

const headersOf = ({ project, customer, account, labels = {} }: Given): readonly string[] => [
  ...(project === undefined ? [] : ['X-GW-Project-ID', project]),
  ...(customer === undefined ? [] : ['X-GW-Customer-ID', customer]),
  ...(account === undefined ? [] : ['X-GW-Account-ID', account]),
  ...Object.entries(labels).flatMap(([name, value]) => [`X-GW-Label-${name}`, value]),
];

interface Called {
  readonly status: number;
  readonly body: Record<string, unknown>;
  readonly record: Record<string, unknown>;
}

/** One call on each door for a workload, with what the caller says of who is charged. */
type Door = (governed: Governed, workload: string, given: Given) => Promise<Called>;

async function called({ recordOf }: Governed, answer: Awaited<ReturnType<Governed['send']>>): Promise<Called> {
  return { status: answer.status, body: JSON.parse(answer.body.toString()) as Called['body'], record: await recordOf(answer) };
}

const overH2 = async ({ gw }: Governed, headers: readonly string[]) => {
  const session = h2Session(await connectThrough(gw.port, AUTHORITY, gw.caPem, { alpn: ['h2'] }), HOST);
  const answer = await h2Request(session, chat(headers, INNER));
  session.close();
  return answer;
};

const named = (workload: string, given: Given): readonly string[] => ['X-GW-Workload-ID', workload, ...headersOf(given)];

const DOORS: Readonly<Record<string, Door>> = {
  'structured API': async ({ execute, gw }, workload, { project, customer, account, labels }) => {
    const attribution = { project_id: project, customer_id: customer, account_id: account, labels };
    const { status, body } = await execute({ workload_id: workload, attribution });
    return { status, body, record: await gw.record(String(body['record_id'])) };
  },
  redirect: async (governed, workload, given) => called(governed, await governed.send(chat(named(workload, given)))),
  'tunnel, h1': async (governed, workload, given) =>
    called(governed, await governed.through(AUTHORITY, chat(headersOf(given), INNER), basic(workload))),
  'tunnel, h2': async (governed, workload, given) => called(governed, await overH2(governed, named(workload, given))),
  'absolute-form': async (governed, workload, given) =>
    called(governed, await governed.send({ ...chat(named(workload, given), `http://${HOST}${INNER}`), host: HOST })),
};

function basic(user: string): Record<string, string> {
  return { 'Proxy-Authorization': `Basic ${Buffer.from(`${user}:`).toString('base64')}` };
}

/** A data folder in which org `default` charges what nobody else claims to a project. */
async function withOrgProject(t: HasTeardown, projectId: string): Promise<string> {
  const dataDir = join(tempDir(t), 'data');
  const store = await openEmbeddedStore({ dir: join(dataDir, 'store'), fsync: 'off', clock: runningClock, log: silentLogger });
  await store.commit(undefined, [
    { op: 'put', space: 'org_defaults', key: 'default', value: { org_id: 'default', project_id: projectId } },
  ]);
  await store.close();
  return dataDir;
}

const workloadWith = (id: string, attribution: object) => ({ workload_id: id, default_attribution: attribution });

/**
 * The first of those who give a project is charged; a rule gives one to the workloads whose names begin with `rule`.
 */
const CASES: readonly (readonly [workload: string, given: Given, charged: string])[] = [
  ['rule-own', { project: 'of-caller' }, 'of-caller'],
  ['rule-own', {}, 'of-workload'],
  ['rule-none', { project: 'of-caller' }, 'of-caller'],
  ['rule-none', {}, 'of-rule'],
  ['none', { project: 'of-caller' }, 'of-caller'],
  ['none', {}, 'of-org'],
  ['own', {}, 'of-workload'],
  ['strict', { project: 'of-caller' }, 'of-org'],
  ['strict-own', { project: 'of-caller' }, 'of-workload'],
];

const RULES = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
  budgets:
    - {id: gives, when: {field: context.workload.id, starts_with: rule}, effect: {default_attribution: {project_id: of-rule}}}
    - {id: strict, when: {field: context.workload.id, starts_with: strict}, effect: {enforce_attribution: {require: [project_id], allow_overrides: [labels.team]}}}
`);

t.test('on every door caller, workload, rules and org are asked who is charged, in this order', async (t) => {
  const governed = await startGoverned(t, { bundle: RULES, env: { GW_DATA_DIR: await withOrgProject(t, 'of-org') } });
  const own = { project_id: 'of-workload', labels: { team: 'blue', env: 'prod' } };
  for (const id of ['rule-own', 'own', 'strict-own']) await governed.gw.admin('PUT', '/v1/admin/workloads', workloadWith(id, own));
  for (const id of ['rule-none', 'none', 'strict']) await governed.gw.admin('PUT', '/v1/admin/workloads', { workload_id: id });
  for (const [door, call] of Object.entries(DOORS)) {
    for (const [workload, given, charged] of CASES) {
      const { record } = await call(governed, workload, given);
      t.match(record, { workload_id: workload, project_id: charged }, `${door}: ${workload}, ${JSON.stringify(given)}`);
    }
    const labels = { team: 'red', __proto__x: 'odd' };
    const all = { project: 'p', customer: 'c', account: 'a', labels };
    const { record } = await call(governed, 'own', all);
    t.match(record, { project_id: 'p', customer_id: 'c', account_id: 'a' }, door);
    t.same(record['labels'], { ...labels, env: 'prod' }, `${door}: labels are completed one by one`);
    const strict = await call(governed, 'strict', all);
    t.same(strict.record['labels'], { team: 'red' }, `${door}: what a caller may not set is dropped`);
    t.notOk('customer_id' in strict.record, door);
  }
  const { body } = await governed.execute({ workload_id: 'own', attribution: { project_id: '', labels: { team: '' } } });
  t.match(
    await governed.gw.record(String(body['record_id'])),
    { project_id: 'of-workload', labels: { team: 'blue' } },
    'an empty text is no value',
  );
});

const NEEDY = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
  budgets:
    - {id: needs, effect: {enforce_attribution: {require: [project_id, labels.team, customer_id]}}}
`);

t.test('what is required and given by nobody is named on every door, and nothing goes on', async (t) => {
  const governed = await startGoverned(t, { bundle: NEEDY });
  for (const [door, call] of Object.entries(DOORS)) {
    const { status, body, record } = await call(governed, 'default', { customer: 'c' });
    const codes = ['missing:project_id', 'missing:labels.team'];
    t.match({ status, body }, { status: 403, body: { decision: 'require_attribution', reason_codes: codes } }, door);
    t.match(String(body['reason']), /project_id.*labels\.team/, door);
    t.match(record, { decision: 'require_attribution', reason_codes: codes, customer_id: 'c' }, door);
  }
  t.equal(governed.upstream.requests.length, 0);
  const whole = { project: 'p', customer: 'c', labels: { team: 'blue' } };
  for (const [door, call] of Object.entries(DOORS)) {
    const { record } = await call(governed, 'default', whole);
    t.equal(record['decision'], door === 'absolute-form' ? 'error' : 'allow', `${door}: provider hosts are not there without TLS`);
  }
});

/** By either name of a label a rule finds it. */
const BY_LABEL = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
  risk:
    - {id: of.call, when: {field: context.labels.team, equals: red}, effect: {decision: deny, reason_codes: [of_call]}}
    - {id: of.charge, priority: -1, when: {field: context.attribution.labels.team, equals: blue}, effect: {decision: deny, reason_codes: [of_charge]}}
`);

t.test('a label that a caller gives is found by both of its names on every door', async (t) => {
  const governed = await startGoverned(t, { bundle: BY_LABEL });
  await governed.gw.admin('PUT', '/v1/admin/workloads', workloadWith('blue', { labels: { team: 'blue' } }));
  for (const [door, call] of Object.entries(DOORS)) {
    const codes = async (workload: string, given: Given) => (await call(governed, workload, given)).record['reason_codes'];
    t.same(await codes('default', { labels: { team: 'red' } }), ['of_call'], `${door}: what is charged, as a label of the call`);
    t.same(await codes('default', { labels: { team: 'blue' } }), ['of_charge'], door);
    t.same(await codes('blue', {}), ['of_charge'], `${door}: what a workload gives is no word of the caller's`);
    t.same(await codes('blue', { labels: { team: 'red' } }), ['of_call'], `${door}: the caller comes first`);
  }
});

t.test('a structured call may put a label at either place: it is there at both, and is charged and recorded', async (t) => {
  const { execute, gw } = await startGoverned(t, { bundle: BY_LABEL });
  const called = async (body: Readonly<Record<string, unknown>>) => gw.record(String((await execute(body)).body['record_id']));
  t.match(await called({ context: { labels: { team: 'blue' } } }), { reason_codes: ['of_charge'], labels: { team: 'blue' } });
  t.match(await called({ attribution: { labels: { team: 'red' } } }), { reason_codes: ['of_call'], labels: { team: 'red' } });
  const apart = { context: { labels: { team: 'red', stage: 'test' } }, attribution: { labels: { team: 'green', cost: '1' } } };
  t.match(await called(apart), { reason_codes: ['of_call'], labels: { team: 'green', stage: 'test', cost: '1' } }, 'two values stay two');
  const names = (letter: string) => Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`${letter}${at}`, 'x']));
  const { status, body } = await execute({ context: { labels: names('a') }, attribution: { labels: names('b') } });
  t.match(
    { status, body },
    { status: 400, body: { error: { details: [{ path: 'attribution.labels' }] } } },
    'together they are 32 at most',
  );
});

t.test('a tunnel that is not intercepted has a head only, which can say who is charged', async (t) => {
  const { gw } = await startGoverned(t, { bundle: NEEDY, env: { GW_PROXY_MITM_ENABLED: 'false' } });
  const refused = await openTunnel(gw.port, AUTHORITY).catch((error: unknown) => error);
  t.match(refused, { status: 403, body: /missing|project_id/ });
  const headers = { 'X-GW-Project-ID': 'p', 'X-GW-Customer-ID': 'c', 'X-GW-Label-Team': 'blue' };
  (await openTunnel(gw.port, AUTHORITY, { headers })).destroy();
});

t.test('a label of a tunnel that is not intercepted, and of a handshake, has both names', async (t) => {
  const { gw } = await startGoverned(t, { bundle: BY_LABEL, env: { GW_PROXY_MITM_ENABLED: 'false' } });
  for (const [team, code] of [
    ['red', 'of_call'],
    ['blue', 'of_charge'],
  ] as const) {
    const refused = await openTunnel(gw.port, AUTHORITY, { headers: { 'X-GW-Label-Team': team } }).catch((error: unknown) => error);
    t.match(refused, { status: 403, body: new RegExp(code.replace('_', '.')) }, team);
  }
  const opened = await scene(t, { bundle: BY_LABEL });
  const connection = await connectThrough(opened.gw.port, AUTHORITY, opened.gw.caPem);
  const headers = { Authorization: 'Bearer sk-client', 'X-GW-Label-Team': 'red' };
  const socket = webSocketOn(t, connection, HOST, RESPONSES, { headers });
  t.equal((await refusedSocket(socket)).status, 403);
  t.match(await opened.records(), [{ reason_codes: ['of_call'] }]);
});

t.test('calls on a WebSocket are charged as its handshake says', async (t) => {
  const { gw, records } = await scene(t, { bundle: NEEDY });
  const headers = { Authorization: 'Bearer sk-client', 'X-GW-Project-ID': 'p', 'X-GW-Customer-ID': 'c', 'X-GW-Label-Team': 'blue' };
  const connection = await connectThrough(gw.port, AUTHORITY, gw.caPem);
  const socket = webSocketOn(t, connection, HOST, RESPONSES, { headers });
  await opened(socket);
  socket.send(JSON.stringify({ type: 'response.create', model: 'gpt-4o-mini', input: 'hello' }));
  await new Promise<void>((resolve) => {
    socket.on('message', (data: Buffer) => {
      if (data.toString().includes('"response.completed"')) resolve();
    });
  });
  for (const record of await records()) t.match(record, { project_id: 'p', customer_id: 'c', labels: { team: 'blue' } });
  t.equal((await records()).length, 2);
});

// Holds: archived-projects-pay-nothing
t.test('what an archived project would be charged for is denied on every door and recorded, whoever names the project', async (t) => {
  const governed = await startGoverned(t, { bundle: RULES });
  const { gw } = governed;
  const { manage } = await managedAs(gw, 'default');
  for (const id of ['own', 'strict', 'rule-none', 'none']) await gw.admin('PUT', '/v1/admin/workloads', { workload_id: id });
  await gw.admin('PUT', '/v1/admin/workloads', workloadWith('own', { project_id: 'old' }));
  for (const id of ['old', 'of-rule']) await manage('POST', 'projects', { project_id: id });
  t.equal((await DOORS['redirect']?.(governed, 'own', {}))?.record['decision'], 'allow', 'while it is active');
  for (const id of ['old', 'of-rule']) await manage('PUT', `projects/${id}`, { status: 'archived' });
  const before = governed.upstream.requests.length;
  for (const [door, call] of Object.entries(DOORS)) {
    for (const [workload, given, project] of [
      ['none', { project: 'old' }, 'old'],
      ['own', {}, 'old'],
      ['rule-none', {}, 'of-rule'],
    ] as const) {
      const { status, body, record } = await call(governed, workload, given);
      t.match({ status, body }, { status: 403, body: { decision: 'deny', reason_codes: ['project_archived'] } }, `${door}: ${workload}`);
      t.match(record, { decision: 'deny', reason_codes: ['project_archived'], project_id: project }, `${door}: ${workload}`);
    }
  }
  t.equal(governed.upstream.requests.length, before, 'nothing goes on');
  const free = await DOORS['redirect']?.(governed, 'own', { project: 'nobody-registered' });
  t.equal(free?.record['decision'], 'allow', 'a name that is not registered is as free as ever');
  const dropped = await DOORS['redirect']?.(governed, 'strict', { project: 'old' });
  t.equal(dropped?.body['decision'], 'require_attribution', 'what a caller may not say is not asked about');
  await manage('PUT', 'projects/old', { status: 'active' });
  t.equal((await DOORS['redirect']?.(governed, 'own', {}))?.record['decision'], 'allow');
  await manage('DELETE', 'projects/of-rule');
  t.equal((await DOORS['redirect']?.(governed, 'rule-none', {}))?.record['decision'], 'allow');
});

t.test('labels of header fields keep the bounds of labels', async (t) => {
  const { send } = await startGoverned(t);
  const many = Array.from({ length: 33 }, (_, at) => [`X-GW-Label-l${at}`, 'x']).flat();
  for (const [headers, path] of [
    [many, 'X-GW-Label-*'],
    [['X-GW-Label-team', 'x'.repeat(257)], 'X-GW-Label-team'],
    [[`X-GW-Label-${'n'.repeat(257)}`, 'x'], 'X-GW-Label-n'],
  ] as const) {
    const answer = await send(chat(headers));
    const { error } = JSON.parse(answer.body.toString()) as { error: { details: { path: string }[] } };
    t.equal(answer.status, 400);
    t.ok(error.details[0]?.path.startsWith(path), path);
  }
});
