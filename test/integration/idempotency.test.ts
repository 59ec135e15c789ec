import { readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import type { Store } from '../../src/storage/contract/store.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { startTestGateway } from '../support/gateway.ts';
import { ALLOW_ALL, bundleOf, CHAT, startGoverned } from '../support/governed.ts';
import type { UpstreamHandler } from '../support/tls-upstream.ts';
import { towards } from '../support/upstreams.ts';

const SECRET_ANSWER = 'the-only-copy-of-this-sentence';

/** Answers each call with its number; what the call asks for in `user` decides the form. */
function numbered(): { handler: UpstreamHandler; calls: () => number } {
  let calls = 0;
  const handler: UpstreamHandler = (_request, response, whole) =>
    void whole.then((body) => {
      calls += 1;
      const { user = '' } = JSON.parse(body.toString()) as { user?: string };
      const usage = { prompt_tokens: 11, completion_tokens: 7 };
      if (user === 'stream') {
        response.setHeader('content-type', 'text/event-stream');
        response.end(`data: {"n":${calls}}\n\ndata: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`);
      } else if (user === 'finished' || user === 'unfinished') {
        const finish_reason = user === 'finished' ? 'stop' : null;
        response.setHeader('content-type', 'text/event-stream');
        response.end(`data: ${JSON.stringify({ n: calls, choices: [{ index: 0, delta: {}, finish_reason }], usage })}\n\n`);
      } else if (user === 'cut') {
        response.setHeader('content-type', 'text/event-stream').write('data: {"n":1}\n\n');
        setImmediate(() => response.destroy());
      } else {
        response.statusCode = user.startsWith('status') ? Number(user.slice('status'.length)) : 200;
        const filler = user === 'large' ? 'x'.repeat(1_100_000) : '';
        response.setHeader('content-type', 'application/json').end(JSON.stringify({ n: calls, text: SECRET_ANSWER, filler, usage }));
      }
    });
  return { handler, calls: () => calls };
}

t.test('the same key gives the same answer and runs nothing', async (t) => {
  const { handler, calls } = numbered();
  const governed = await startGoverned(t, {
    handler,
    bundle: ALLOW_ALL,
    env: { GW_MONTHLY_REQUEST_LIMIT: '3', GW_RATELIMIT_MAX_TOKENS: '3' },
  });
  const first = await governed.execute({ idempotency_key: 'k-1' });
  t.match(first, { status: 200, body: { decision: 'allow', result: { status_code: 200, body: { n: 1 } } } });
  t.equal(first.headers.get('idempotent-replayed'), null);
  t.match(governed.upstream.requests[0]?.headers, { 'idempotency-key': 'k-1' }, 'forwarded to a provider that knows it');
  for (let again = 0; again < 4; again += 1) {
    const second = await governed.execute({ idempotency_key: 'k-1' });
    t.same(second.body, first.body, 'record, hash, decision and result');
    t.equal(second.headers.get('idempotent-replayed'), 'true');
    for (const name of ['x-gw-record-id', 'x-gw-record-hash', 'x-gw-decision']) t.equal(second.headers.get(name), first.headers.get(name));
  }
  t.equal(calls(), 1);
  t.match((await governed.gw.admin('GET', '/metrics')).text, /gw_idempotent_replays_total\{org_id="default"\} 4/);
  t.match(await governed.execute({ idempotency_key: 'k-2' }), { body: { result: { body: { n: 2 } } } }, 'another key is another call');
  t.match(
    await governed.execute({ idempotency_key: 'k-1', org_id: 'other' }),
    { body: { result: { body: { n: 3 } } } },
    'keys are scoped per org',
  );
  t.match(await governed.execute({ idempotency_key: 'k-3' }), { status: 200 }, 'replays counted in no limit');
});

t.test('another action under the same key is refused', async (t) => {
  const { handler, calls } = numbered();
  const { execute } = await startGoverned(t, { handler });
  t.equal((await execute({ idempotency_key: 'k' })).status, 200);
  const reused = {
    status: 409,
    body: { error: { code: 'idempotency_key_reused' }, decision: 'deny', reason_codes: ['idempotency_key_reused'] },
  };
  t.match(await execute({ idempotency_key: 'k' }, { params: { ...CHAT, temperature: 1 } }), reused);
  t.match(await execute({ idempotency_key: 'k' }, { target_host: 'api.mistral.ai' }), reused);
  t.match(
    await execute({ idempotency_key: 'k' }, { params: { messages: CHAT.messages, model: CHAT.model } }),
    { status: 200 },
    'the order of members is none',
  );
  t.equal(calls(), 1);
});

t.test('streams, refusals and errors', async (t) => {
  const { handler, calls } = numbered();
  const bundle = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
    - {id: no, priority: 9, when: {field: context.action.params.user, equals: denied}, effect: {decision: deny, reason: not you}}
    - {id: whose, when: {field: context.action.params.user, equals: whose}, effect: {enforce_attribution: {require: [project_id]}}}
    - {id: wait, priority: 9, when: {field: context.action.params.user, equals: wait}, effect: {decision: quarantine}}
`);
  const { execute, gw } = await startGoverned(t, { handler, bundle });
  const call = (user: string, stream = false) =>
    execute({ idempotency_key: `key-${user}`, caller_id: user }, { params: { ...CHAT, user, stream } });

  const stream = await call('stream', true);
  const streamed = await call('stream', true);
  t.match(stream.body['text'], /\[DONE\]/);
  t.same(streamed.body, stream.body, 'a stream comes raw');
  t.match([streamed.headers.get('content-type'), streamed.headers.get('idempotent-replayed')], ['text/event-stream', 'true']);
  t.match(await gw.record(String(streamed.headers.get('x-gw-record-id'))), { idempotency_key: 'key-stream', stream_outcome: 'complete' });

  const finished = await call('finished', true);
  t.same((await call('finished', true)).body, finished.body, 'one that ends behind its finish reason too');
  const unfinished = await call('unfinished', true);
  t.notSame((await call('unfinished', true)).body, unfinished.body, 'one that does not say that it is finished is asked for again');

  for (const user of ['denied', 'whose', 'status400', 'status404']) {
    const first = await call(user);
    const second = await call(user);
    t.same([second.status, second.body], [first.status, first.body], user);
    t.equal(second.headers.get('idempotent-replayed'), 'true', user);
  }
  for (const user of ['wait', 'status408', 'status409', 'status429', 'status500', 'status503']) {
    const before = calls();
    await call(user);
    t.equal((await call(user)).headers.get('idempotent-replayed'), null, `${user} is tried again`);
    if (user !== 'wait') t.equal(calls(), before + 2);
  }
  await call('cut', true).catch(() => undefined);
  await call('cut', true).catch(() => undefined);
  t.equal(calls(), 1 + 1 + 2 + 2 + 10 + 2, 'a stream that broke off is not kept');

  const large = await call('large');
  t.match(large.body, { result: { body: { text: SECRET_ANSWER } } });
  const { result: _, ...rest } = large.body;
  t.same((await call('large')).body, rest, 'what is larger than 1 MiB is replayed without its result');
});

t.test('an answer that could not be stored is not taken for kept', async (t) => {
  let full = false;
  const { handler, calls } = numbered();
  const store = (opened: Store): Store =>
    new Proxy(opened, {
      get(target, name) {
        if (name === 'commit' && full) return () => Promise.reject(new Error('the disk is full'));
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === 'function' ? (value.bind(target) as unknown) : value;
      },
    });
  const { execute } = await startGoverned(t, { handler, bundle: ALLOW_ALL, store });
  full = true;
  await execute({ idempotency_key: 'k' }).catch(() => undefined);
  full = false;
  const second = await execute({ idempotency_key: 'k' });
  t.match([second.status, second.headers.get('idempotent-replayed')], [200, null]);
  const third = await execute({ idempotency_key: 'k' });
  t.same([third.headers.get('idempotent-replayed'), third.body], ['true', second.body], 'the second answer is kept');
  t.equal(calls(), 2);
});

t.test('a replay survives a restart, and its text is nowhere to be read', async (t) => {
  const { handler, calls } = numbered();
  const governed = await startGoverned(t, { handler });
  const first = await governed.execute({ idempotency_key: 'k' });
  await governed.gw.gateway.stop();
  for (const name of await readdir(governed.gw.dataDir, { recursive: true, withFileTypes: true })) {
    if (!name.isFile()) continue;
    const text = readFileSync(join(name.parentPath, name.name));
    t.notOk(text.includes(SECRET_ANSWER) || text.includes(Buffer.from(SECRET_ANSWER).toString('base64').slice(4, 30)), name.name);
  }
  const next = await startTestGateway(t, {
    env: { GW_DATA_DIR: governed.gw.dataDir, ...towards(t, governed.upstream, ['api.openai.com']) },
  });
  const body = {
    schema: 'gw.action_request.v2',
    org_id: 'default',
    workload_id: 'default',
    credential_hint: 'sk-caller',
    idempotency_key: 'k',
  };
  const action = { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params: CHAT };
  const again = await fetch(`${next.url}/v1/actions:execute`, { method: 'POST', body: JSON.stringify({ ...body, action }) });
  t.same(await again.json(), first.body);
  t.equal(calls(), 1);
});

t.test('a key is forgotten after 24 hours', async (t) => {
  const clock = fakeClock();
  const { handler, calls } = numbered();
  const { execute } = await startGoverned(t, { handler, clock });
  await execute({ idempotency_key: 'k' });
  clock.advance(24 * 3_600_000 - 1);
  await execute({ idempotency_key: 'k' });
  t.equal(calls(), 1);
  clock.advance(1);
  await execute({ idempotency_key: 'k' });
  t.equal(calls(), 2);
});

t.test('while the first call is under way the second is processed normally', async (t) => {
  let open: (() => void) | undefined;
  let calls = 0;
  const handler: UpstreamHandler = (_request, response) => {
    calls += 1;
    const answer = () => response.setHeader('content-type', 'application/json').end(`{"n":${calls}}`);
    if (calls === 1) open = answer;
    else answer();
  };
  const { execute } = await startGoverned(t, { handler });
  const first = execute({ idempotency_key: 'k' });
  while (open === undefined) await new Promise((resolve) => setImmediate(resolve));
  const second = await execute({ idempotency_key: 'k' });
  open();
  t.not((await first).body['record_id'], second.body['record_id']);
  t.equal((await execute({ idempotency_key: 'k' })).body['record_id'], second.body['record_id'], 'the one that ended first is kept');
});
