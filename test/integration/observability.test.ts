import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { createLogger } from '../../src/base/lib/log.ts';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { METRICS, type MetricRow } from '../../src/surfaces/metrics/metric-table.ts';
import { ADMIN_TOKEN, startTestGateway } from '../support/gateway.ts';
import { CHAT, chat, startGoverned } from '../support/governed.ts';
import { managedAs } from '../support/managed.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';
import type { UpstreamHandler } from '../support/tls-upstream.ts';

interface Specified {
  readonly type: string;
  readonly labels: readonly string[];
  readonly buckets: string;
}

/** The rows of the interface, which are fixed (specification, "Metrics"). */
function specified(): ReadonlyMap<string, Specified> {
  const page = readFileSync(join(packageRoot(), 'docs', 'interface', 'endpoints.md'), 'utf8');
  const rows = page.slice(page.indexOf('## Metrics')).matchAll(/^\| `(\w+)` \| (\w+) \| ([^|]*)\| ([^|]*)\|$/gm);
  return new Map(
    [...rows].map(([, name = '', type = '', labels = '', buckets = '']) => [
      name,
      { type, labels: [...labels.matchAll(/\w+/g)].map(String), buckets: buckets.trim() },
    ]),
  );
}

/**
 * What promtool has against names: the first three are the interface's, the others those that every Node process shows.
 */
const TOLERATED: readonly string[] = [
  'gw_request_duration_ms metric names should not contain abbreviated units',
  'gw_rate_limit_hits counter metrics should have "_total" suffix',
  'gw_risk_signals counter metrics should have "_total" suffix',
  'nodejs_active_handles_total non-counter metrics should not have "_total" suffix',
  'nodejs_active_requests_total non-counter metrics should not have "_total" suffix',
  'nodejs_active_resources_total non-counter metrics should not have "_total" suffix',
];

const answerEither: UpstreamHandler = (_request, response, body) =>
  void body.then((sent) => {
    const usage = { prompt_tokens: 11, completion_tokens: 7 };
    if (!sent.includes('"stream":true')) response.setHeader('content-type', 'application/json').end(JSON.stringify({ usage }));
    else response.setHeader('content-type', 'text/event-stream').end(`data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`);
  });

async function exercised(t: Parameters<typeof startGoverned>[0]): Promise<string> {
  const { gw, send, execute } = await startGoverned(t);
  await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'theirs', org_id: 'acme' });
  await send(chat());
  await send(chat(['X-GW-Org-ID', 'acme', 'X-GW-Workload-ID', 'theirs']));
  await execute({ org_id: 'made-up-org' }, { type: 'my.own.type' });
  await execute({ org_id: 'made-up-org', workload_id: 'nobody' });
  await execute({}, {}, { authorization: 'Bearer gwk_x' });
  return (await gw.admin('GET', '/metrics')).text;
}

t.test('metrics have the names, types, labels and buckets of the specification', async (t) => {
  const text = await exercised(t);
  const rows = specified();
  t.equal(rows.size, 14);
  const table = new Map<string, MetricRow>(Object.values(METRICS).map((row) => [row.name, row]));
  for (const [name, { type, labels, buckets }] of rows) {
    t.match(text, new RegExp(`^# TYPE ${name} ${type}$`, 'm'));
    t.match(table.get(name), { type, labels: [...labels] }, name);
    if (buckets !== '') t.equal(table.get(name)?.buckets?.join(', '), buckets);
    const sample = new RegExp(`^${name}${type === 'histogram' ? '_count' : ''}(?:\\{([^}]*)\\})? `, 'm').exec(text);
    if (sample === null) continue;
    t.same([...(sample[1] ?? '').matchAll(/(\w+)="/g)].map(([, label]) => label).sort(), [...labels].sort(), `as it is shown: ${name}`);
  }
  const seen = [...text.matchAll(/^gw_request_duration_ms_bucket\{le="([^"]+)",action_type="ai.infer",decision="allow"/gm)].map(
    ([, le]) => le,
  );
  t.equal(seen.join(', '), `${rows.get('gw_request_duration_ms')?.buckets}, +Inf`);
  t.match(text, /^gw_pending_hash_submissions 0$/m);
  t.match(text, /gw_requests_total\{action_type="ai\.infer",decision="allow",org_id="acme"\} 1/);
  t.match(text, /gw_requests_total\{action_type="other",decision="allow",org_id="other"\} 1/, 'what callers invent is other');
  t.match(text, /gw_policy_deny_total\{org_id="other",reason_code="workload_not_registered"\} 1/);
  t.notMatch(text, 'made-up');
});

t.test('an org for which anybody has laid down something is known to labels from then on, and over a restart', async (t) => {
  const { gw, execute } = await startGoverned(t);
  const objects: readonly (readonly [org: string, method: string, path: string, body: object])[] = [
    ['of-key', 'POST', '/v1/admin/api-keys', { org_id: 'of-key', name: 'k' }],
    ['of-manager', 'POST', '/v1/admin/mgmt-keys', { org_id: 'of-manager', name: 'k', kind: 'management', scopes: ['read'] }],
    ['of-limit', 'POST', '/v1/admin/budgets/limits', { org_id: 'of-limit', scope: 'org', limit_usd: '5' }],
    [
      'of-credential',
      'PUT',
      '/v1/admin/credentials',
      { org_id: 'of-credential', credential_id: 'c', connector_id: 'openai', mode: 'alias', secret_ref: 's' },
    ],
    ['of-workload', 'PUT', '/v1/admin/workloads', { org_id: 'of-workload', workload_id: 'w' }],
  ];
  const requests = async (admin: typeof gw.admin, org: string): Promise<string | undefined> =>
    new RegExp(`^gw_requests_total\\{[^}]*org_id="${org}"\\} (\\d+)`, 'm').exec((await admin('GET', '/metrics')).text)?.[1];
  for (const [org, method, path, body] of objects) {
    const call = () => execute({ org_id: org, credential_hint: 'sk' });
    await call();
    t.equal(await requests(gw.admin, org), undefined, `${org} before`);
    t.ok((await gw.admin(method, path, body)).status < 300, org);
    await call();
    t.equal(await requests(gw.admin, org), '1', org);
  }
  const { manage } = await managedAs(gw, 'of-management');
  const places: readonly (readonly [path: string, body: object])[] = [
    ['projects', { project_id: 'p', display_name: 'P' }],
    ['org/defaults', { project_id: 'p' }],
  ];
  for (const [path, body] of places) t.ok((await manage(path === 'projects' ? 'POST' : 'PATCH', path, body)).status < 300, path);
  await gw.gateway.stop();
  const again = await startTestGateway(t, { env: { GW_DATA_DIR: gw.dataDir } });
  for (const org of [...objects.map(([name]) => name), 'of-management', 'made-up'])
    await fetch(`${again.url}/proxy/openai/v1/models`, { headers: { 'X-GW-Org-ID': org, 'X-GW-Workload-ID': 'nobody' } });
  for (const [org] of objects) t.equal(await requests(again.admin, org), '1', `${org} after a restart`);
  t.equal(await requests(again.admin, 'of-management'), '1');
  t.equal(await requests(again.admin, 'made-up'), undefined);
});

t.test('promtool reads the metrics', { skip: skipWithout(['promtool']) }, async (t) => {
  const check = spawnSync(requirePeer('promtool'), ['check', 'metrics'], { input: await exercised(t), encoding: 'utf8' });
  const said = (check.stdout + check.stderr).trim().split('\n');
  t.same(
    said.filter((line) => !TOLERATED.includes(line)),
    [],
  );
  t.ok(said.includes(TOLERATED[0] ?? ''), 'it was read');
  t.ok(check.status === 0 || check.status === 3, check.stderr);
});

t.test('tokens and cost are counted by org and provider, exactly, and the time to the first byte of a stream', async (t) => {
  const { gw, send } = await startGoverned(t, { handler: answerEither });
  for (let call = 0; call < 10; call++) t.equal((await send(chat())).status, 200);
  t.equal((await send(chat([], undefined, { ...CHAT, stream: true }))).status, 200);
  const { text } = await gw.admin('GET', '/metrics');
  t.match(text, /^gw_tokens_total\{org_id="default",provider="openai",direction="in"\} 121$/m);
  t.match(text, /^gw_tokens_total\{org_id="default",provider="openai",direction="out"\} 77$/m);
  // 11 calls of 11 tokens at 0.15 and 7 tokens at 0.60 per million: as numbers they would add up to
  // 0.00006435000000000001.
  t.match(text, /^gw_cost_usd_total\{org_id="default",provider="openai"\} 0\.00006435$/m);
  t.match(text, /^gw_stream_first_byte_seconds_count\{provider="openai"\} 1$/m);
  t.match(text, /^gw_build_info\{version="[^"]+"\} 1$/m);
  t.match(text, /^gw_root_expiry_timestamp_seconds \d{10}/m);
});

t.test('metrics count every call of many at once', async (t) => {
  const { gw, execute } = await startGoverned(t);
  const answers = await Promise.all(Array.from({ length: 200 }, () => execute()));
  t.ok(answers.every(({ status }) => status === 200));
  const { text } = await gw.admin('GET', '/metrics');
  for (const [name, count] of [
    ['gw_requests_total{action_type="ai.infer",decision="allow",org_id="default"}', 200],
    ['gw_request_duration_ms_count{action_type="ai.infer",decision="allow"}', 200],
    ['gw_tokens_total{org_id="default",provider="openai",direction="in"}', 2200],
  ] as const)
    t.ok(text.includes(`\n${name} ${count}\n`), name);
});

t.test('the form of metrics is always the same, since OpenMetrics would rename what the interface names', async (t) => {
  const { gw } = await startGoverned(t);
  const answer = await fetch(`${gw.url}/metrics`, { headers: { Accept: 'application/openmetrics-text; version=1.0.0, text/plain;q=0.5' } });
  t.equal(answer.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8');
  t.notMatch(await answer.text(), '# EOF');
});

t.test('metrics can need a token, or be switched off', async (t) => {
  const guarded = await startGoverned(t, { env: { GW_METRICS_TOKEN: 'metrics-token-0123456789' } });
  t.equal((await guarded.send({ path: '/metrics' })).status, 401);
  t.equal((await guarded.send({ path: '/metrics', headers: ['Authorization', 'Bearer metrics-token-0123456789'] })).status, 200);
  t.equal((await guarded.gw.admin('GET', '/metrics')).status, 401, 'the admin token is another one');
  const off = await startGoverned(t, { env: { GW_METRICS_ENABLED: 'false' } });
  t.equal((await off.send({ path: '/metrics' })).status, 404);
});

t.test('health: starting during the grace, then ok; every connector, and one that fails is not healthy', async (t) => {
  const { gw, execute } = await startGoverned(t, { handler: (request) => request.destroy() });
  const health = async () =>
    (await (await fetch(`${gw.url}/healthz`)).json()) as {
      status: string;
      connectors: { id: string; version: string; healthy: boolean }[];
    };
  const ids = (await health()).connectors.map(({ id }) => id);
  for (const id of ['openai', 'anthropic', 'gemini', 'azure_openai', 'cohere', 'mistral', 'generic_http']) t.ok(ids.includes(id), id);
  t.ok((await health()).connectors.every(({ version, healthy }) => version !== '' && healthy));
  await execute();
  t.same(
    (await health()).connectors.filter(({ healthy }) => !healthy).map(({ id }) => id),
    ['openai'],
  );
  const young = await startGoverned(t, { env: { GW_HEALTHZ_STARTUP_GRACE: '1h' } });
  t.match(await (await fetch(`${young.gw.url}/healthz`)).json(), {
    status: 'starting',
    cp_status: 'unconfigured',
    bundle_id: 'default',
    bundle_version: '1',
  });
});

// Holds: no-content-in-records
t.test('no key, token, prompt or completion is in a log line, a record, an error or a file', async (t) => {
  const lines: string[] = [];
  const log = createLogger({ level: 'trace', format: 'json', destination: { write: (line: string) => void lines.push(line) } });
  const secrets = [
    'sk-client',
    'sk-caller',
    'my-prompt-text',
    'my-completion-text',
    'query-key',
    ADMIN_TOKEN,
    'gwt_wrong',
    'proxy-password',
    'cookie-value',
  ];
  const { gw, send, through, execute, upstream } = await startGoverned(t, {
    log,
    handler: (request, response, body) =>
      void body.then(() => {
        if (request.url?.includes('broken')) response.destroy();
        else response.setHeader('content-type', 'application/json').end('{"choices":[{"message":{"content":"my-completion-text"}}]}');
      }),
  });
  await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'ci' });
  const { token } = (await gw.admin('POST', '/v1/admin/workloads/ci/token')).body as { token: string };
  secrets.push(token);
  const body = { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'my-prompt-text' }] };
  const basic = { 'Proxy-Authorization': `Basic ${Buffer.from('someone:proxy-password').toString('base64')}` };
  const said: string[] = [];
  for (const path of ['/v1/chat/completions?key=query-key', '/v1/broken?key=query-key', '/v1//odd?key=query-key']) {
    const answers = [
      await send(chat(['Cookie', 'cookie-value'], `/proxy/openai${path}`, body)),
      await send(chat(['X-GW-Workload-ID', 'ci', 'X-GW-Workload-Token', 'gwt_wrong'], `/proxy/openai${path}`, body)),
      await send(
        chat(['X-GW-Workload-ID', 'ci', 'X-GW-Workload-Token', token], `/proxy/openai${path}`, '{"model":"a","model":"my-prompt-text"}'),
      ),
      await through('api.openai.com:443', chat([], path, body), basic),
    ];
    said.push(...answers.filter(({ status }) => status !== 200).map((answer) => answer.rawHeaders.join() + answer.body.toString()));
  }
  for (const extra of [{}, { workload_id: 'nobody' }, { credential_hint: 'sk-caller\u0001' }, { credential_hint: 'cred-sk-caller' }]) {
    const answer = await execute(extra, { params: body });
    if (answer.status !== 200) said.push(JSON.stringify(answer.body));
  }
  t.ok(
    upstream.requests.some(({ headers }) => headers['authorization'] === 'Bearer sk-client'),
    'the keys were really there',
  );
  await gw.gateway.stop();
  t.ok(lines.length > 5 && said.length > 5);
  const stored = filesBelow(gw.dataDir).filter((file) => !file.endsWith('admin-token'));
  t.ok(
    stored.some((file) => readFileSync(file, 'latin1').includes('gw.execution_record.v1')),
    'records are searched too',
  );
  const searched = { log: lines.join(''), answers: said.join(''), files: stored.map((file) => readFileSync(file, 'latin1')).join('') };
  for (const [where, text] of Object.entries(searched)) {
    for (const secret of secrets) t.notOk(text.includes(secret), `${secret} in ${where}`);
  }
});

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}
