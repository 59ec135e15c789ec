import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { createLogger } from '../../src/base/lib/log.ts';
import { ADMIN_TOKEN } from '../support/gateway.ts';
import { chat, startGoverned } from '../support/governed.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';

/** The specification's rows for what this version has. */
const SPECIFIED: Readonly<Record<string, { type: string; labels: readonly string[]; buckets?: string }>> = {
  gw_requests_total: { type: 'counter', labels: ['action_type', 'decision', 'org_id'] },
  gw_request_duration_ms: { type: 'histogram', labels: ['action_type', 'decision'], buckets: '5 10 25 50 100 250 500 1000 +Inf' },
  gw_upstream_latency_seconds: { type: 'histogram', labels: ['provider'] },
  gw_auth_failures_total: { type: 'counter', labels: ['reason', 'org_id'] },
  gw_policy_deny_total: { type: 'counter', labels: ['org_id', 'reason_code'] },
};

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
  for (const [name, { type, labels, buckets }] of Object.entries(SPECIFIED)) {
    t.match(text, `# TYPE ${name} ${type}`);
    const sample = new RegExp(`^${name}${type === 'histogram' ? '_count' : ''}\\{([^}]*)\\}`, 'm').exec(text)?.[1] ?? '';
    t.same([...sample.matchAll(/(\w+)="/g)].map(([, label]) => label).sort(), [...labels].sort(), name);
    if (buckets === undefined) continue;
    const seen = [...text.matchAll(new RegExp(`^${name}_bucket\\{le="([^"]+)",action_type="ai.infer",decision="allow"`, 'gm'))].map(
      ([, le]) => le,
    );
    t.equal(seen.join(' '), buckets);
  }
  t.match(text, /gw_requests_total\{action_type="ai\.infer",decision="allow",org_id="acme"\} 1/);
  t.match(text, /gw_requests_total\{action_type="other",decision="allow",org_id="other"\} 1/, 'what callers invent is other');
  t.match(text, /gw_policy_deny_total\{org_id="other",reason_code="workload_not_registered"\} 1/);
  t.notMatch(text, 'made-up');
});

t.test('promtool reads the metrics', { skip: skipWithout(['promtool']) }, async (t) => {
  const check = spawnSync(requirePeer('promtool'), ['check', 'metrics'], { input: await exercised(t), encoding: 'utf8' });
  const said = (check.stdout + check.stderr).split('\n').filter((line) => line.startsWith('gw_'));
  // The specification names these so: promtool would have base units and no suffix but its own.
  const named = /^gw_request_duration_ms /;
  t.same(
    said.filter((line) => !named.test(line)),
    [],
  );
  t.ok(check.status === 0 || check.status === 3, check.stderr);
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
    'gwt_',
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
