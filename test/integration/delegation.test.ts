// Delegation tokens on the structured API: what they let through, what they refuse and why, whom they charge, how much
// they may spend, and how they end.
import t from 'tap';
import { DELEGATED_AT, everydayToken, Issuer, type Token } from '../decide/delegation/delegation-tokens.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { ALLOW_ALL, bundleOf, CHAT, chat, type Governed, startGoverned } from '../support/governed.ts';
import type { HasTeardown } from '../support/temp-dir.ts';

const issuer = new Issuer('ci');
const KEYS = { GW_DELEGATION_VERIFY_KEY: `ci=${issuer.publicKey}` };

const token = everydayToken;
const child = (parent: Token, more: Token = {}): Token => token({ delegation_id: 'child', parent: issuer.signed(parent), ...more });

async function open(t: HasTeardown, options: { bundle?: string; env?: Record<string, string>; keys?: Record<string, string> } = {}) {
  const clock = fakeClock(DELEGATED_AT);
  const { bundle = ALLOW_ALL, env = {}, keys = KEYS } = options;
  return { clock, ...(await startGoverned(t, { bundle, clock, env: { ...keys, ...env } })) };
}

/** A call under a token: its status and reason codes, and what its record says. */
async function under({ execute, gw }: Pick<Governed, 'execute' | 'gw'>, text: string, extra: object = {}, action: object = {}) {
  const answer = await execute({ delegation_token: text, ...extra }, action);
  const record = await gw.record(String(answer.body['record_id']));
  return { ...answer, record, code: (record['reason_codes'] as string[])[0] ?? String(record['decision']) };
}

t.test('a token lets through what it covers, and the record says under which delegations it was', async (t) => {
  const governed = await open(t);
  const root = token({ issued_by: 'olga', budget: { usd_max: '5' }, scope: { methods_allow: ['POST'], actions_allow: ['ai.infer'] } });
  const leaf = child(root, {
    principal_id: 'agent-7',
    budget: { allowed_models: ['gpt-4o-mini'] },
    scope: { targets_allow: ['API.openai.com'] },
  });
  const answer = await under(governed, issuer.text(leaf));
  t.equal(answer.status, 200);
  t.match(answer.record, {
    decision: 'allow',
    delegation_id: 'child',
    delegation_chain: [
      { delegation_id: 'root', issued_by: 'olga', usd_max: '5', expires_at: '2026-11-23T13:00:00.000Z' },
      { delegation_id: 'child', principal_id: 'agent-7' },
    ],
  });
  t.equal(governed.upstream.requests.length, 1);
  t.notMatch(JSON.stringify(governed.upstream.requests), /delegation|gw\.del/, 'nobody is told of it');
  t.equal((await under(governed, issuer.text(leaf), { delegation_id: 'child' })).status, 200);
  const metrics = (await governed.gw.admin('GET', '/metrics')).text;
  t.match(metrics, /gw_delegation_tokens_total\{result="verified"\} 1\n/);
  t.match(metrics, /gw_delegation_tokens_total\{result="hit"\} 1\n/, 'it is verified once');
});

const stranger = new Issuer('ci');
const REFUSED: readonly (readonly [code: string, text: string, extra?: object, action?: object])[] = [
  ['delegation_malformed', 'e30='],
  ['delegation_malformed', issuer.text(token()), { delegation_id: 'another' }],
  ['delegation_unknown_key', new Issuer('other').text(token())],
  ['delegation_bad_signature', stranger.text(token())],
  ['delegation_expired', issuer.text(token({ expires_at: '2026-11-23T12:00:00Z', issued_at: '2026-11-23T11:00:00Z' }))],
  ['delegation_not_yet_valid', issuer.text(token({ issued_at: '2026-11-23T12:00:31Z' }))],
  ['delegation_org_mismatch', issuer.text(token({ org_id: 'acme' }))],
  ['delegation_workload_mismatch', issuer.text(token({ workload_id: 'w' }))],
  ['delegation_method_not_allowed', issuer.text(token({ scope: { methods_allow: ['GET'] } }))],
  ['delegation_resource_not_allowed', issuer.text(token({ scope: { resource_patterns_allow: ['/v1/*'] } }))],
  ['delegation_action_not_allowed', issuer.text(token({ scope: { actions_allow: ['ai.embed'] } }))],
  ['delegation_target_not_allowed', issuer.text(token({ scope: { targets_allow: ['api.anthropic.com'] } }))],
  ['delegation_model_not_allowed', issuer.text(token({ budget: { allowed_models: ['gpt-4o'] } }))],
  ['delegation_budget_exceeded', issuer.text(token({ delegation_id: 'poor', budget: { usd_max: '0.000000001' } }))],
  ['delegation_depth_exceeded', issuer.text(token({ depth: 4 }))],
  ['delegation_bundle_mismatch', issuer.text(token({ policy_bundle_id: 'other' }))],
  ['delegation_not_attenuated', issuer.text(child(token(), { expires_at: '2026-11-23T14:00:00Z' }))],
];

// Holds: delegation-narrows
t.test('every reason for which a token is refused is 403 with its code, recorded, and nothing is sent', async (t) => {
  const governed = await open(t);
  for (const [code, text, extra, action] of REFUSED) {
    const answer = await under(governed, text, extra, action);
    t.match([answer.status, answer.body, answer.code], [403, { decision: 'deny', reason_codes: [code] }, code], code);
    t.notMatch(JSON.stringify(answer.record), text, 'the token is in no record');
  }
  t.equal(governed.upstream.requests.length, 0);
  t.equal((await under(governed, issuer.text(token({ policy_bundle_id: 'test' })))).status, 200, 'pinned to the active bundle');
});

t.test('without a key no token is believed, and one that has expired since is refused though it was verified', async (t) => {
  const keyless = await open(t, { keys: {} });
  t.match(await under(keyless, issuer.text(token())), { status: 403, code: 'delegation_unknown_key' });
  const { clock, ...governed } = await open(t);
  const text = issuer.text(token({ expires_at: '2026-11-23T12:00:30Z' }));
  t.equal((await under(governed, text)).status, 200);
  clock.advance(30_000);
  t.match(await under(governed, text), { status: 403, code: 'delegation_expired' });
});

// Holds: delegation-narrows
t.test(
  'the scope holds for what is really sent: the path of the connector, the model that the path names, and what policy makes of both',
  async (t) => {
    const bundle = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
  custom.cost:
    - id: cheaper
      when: {field: context.purpose, equals: bulk}
      effect: {decision: downgrade, mutations: [{key: action.params.model, value: gpt-4o-nano}]}
`);
    const governed = await open(t, { bundle });
    const narrow = issuer.text(token({ budget: { allowed_models: ['gpt-4o-mini', 'gemini-2.0-flash'] } }));
    t.equal((await under(governed, narrow)).status, 200);
    const downgraded = await under(governed, narrow, { context: { purpose: 'bulk' } });
    t.match(downgraded, { status: 403, code: 'delegation_model_not_allowed' }, 'also of a model that policy chose');
    const beside = { params: { ...CHAT, models: ['gpt-4o', 'gpt-4o-mini'] } };
    t.match(await under(governed, narrow, {}, { ...beside, target_host: 'openrouter.ai' }), {
      status: 403,
      code: 'delegation_model_not_allowed',
    });
    const path = '/v1beta/models/gemini-1.5-pro:generateContent';
    const gemini = { target_host: 'generativelanguage.googleapis.com', target_path: path, params: { contents: [] } };
    t.match(await under(governed, narrow, {}, gemini), { status: 403, code: 'delegation_model_not_allowed' });
    t.equal((await under(governed, narrow, {}, { ...gemini, target_path: path.replace('1.5-pro', '2.0-flash') })).status, 200);
    const chatOnly = issuer.text(token({ scope: { resource_patterns_allow: ['/v1/chat/*'] } }));
    t.equal((await under(governed, chatOnly)).status, 200, 'the path that the connector gives');
    t.match(await under(governed, chatOnly, {}, { target_path: '/v1/completions' }), { code: 'delegation_resource_not_allowed' });
    t.match(await under(governed, chatOnly, {}, { target_path: '/v1/chat/completions/x' }), { code: 'delegation_resource_not_allowed' });
  },
);

t.test('policy sees the intersection of the chain', async (t) => {
  const bundle = bundleOf(`  targets:
    - id: known
      when:
        all:
          - {field: context.delegation.issued_by, equals: olga}
          - {field: context.delegation.principal_id, equals: agent-7}
          - {field: context.delegation.audience, equals: gw}
          - {field: context.delegation.token_id, equals: child}
          - {field: context.delegation.depth, equals: 2}
          - {field: context.delegation.max_cost_usd, lte: "2"}
          - {field: context.delegation.actions_allow, in: [ai.infer]}
          - {field: context.delegation.policy_bundle_id, equals: test}
      effect: {decision: allow}
`);
  const governed = await open(t, { bundle });
  const root = token({
    issued_by: 'olga',
    audience: 'gw',
    policy_bundle_id: 'test',
    budget: { usd_max: '9' },
    scope: { actions_allow: ['ai.infer', 'ai.embed'] },
  });
  const leaf = (usd: string) =>
    issuer.text(child(root, { principal_id: 'agent-7', budget: { usd_max: usd }, scope: { actions_allow: ['ai.infer'] } }));
  t.equal((await under(governed, leaf('2'))).status, 200);
  t.match(await under(governed, leaf('3')), { status: 403, code: 'target_not_allowed' });
  t.match(await under(governed, issuer.text(root)), { status: 403, code: 'target_not_allowed' });
});

t.test('who is charged: the caller as far as the token lets it, then the token, then its workload', async (t) => {
  const governed = await open(t);
  await governed.gw.admin('PUT', '/v1/admin/workloads', {
    workload_id: 'default',
    name: 'd',
    default_attribution: { account_id: 'acc', customer_id: 'cust' },
  });
  const root = token({
    attribution: {
      defaults: { project_id: 'p-token', labels: { team: 'red' }, 'labels.tier': 'x' },
      allow_overrides: ['customer_id', 'labels.team'],
    },
  });
  const attribution = { project_id: 'mine', customer_id: 'c-own', labels: { team: 'blue', other: 'y' } };
  t.match((await under(governed, issuer.text(root), { attribution })).record, {
    project_id: 'p-token',
    customer_id: 'c-own',
    account_id: 'acc',
    labels: { team: 'blue', tier: 'x', other: undefined },
  });
  const leaf = child(root, { attribution: { defaults: { project_id: 'p-child', account_id: 'acc-child' } } });
  t.match(
    (await under(governed, issuer.text(leaf), { attribution })).record,
    { project_id: 'p-token', account_id: 'acc-child' },
    'what the root says stands',
  );
  const open_ = token({ attribution: { defaults: { project_id: 'p-token' } } });
  t.match((await under(governed, issuer.text(open_), { attribution })).record, { project_id: 'mine' }, 'no list, no restriction');
});

// Holds: delegation-narrows
t.test(
  'usd_max is spent over the life of the token, by all its calls and those of its children, exactly, and across a restart',
  async (t) => {
    const governed = await open(t);
    const { upstream } = governed;
    // A call is charged 11 tokens in and 7 out of gpt-4o-mini: 0.00000585 USD; 10 tokens of output at most are set
    // aside.
    const small = { params: { ...CHAT, max_tokens: 10 } };
    const root = token({ delegation_id: 'r', budget: { usd_max: '0.00003' } });
    const leaf = (id: string, usd?: string) =>
      issuer.text(child(root, { delegation_id: id, ...(usd === undefined ? {} : { budget: { usd_max: usd } }) }));
    const answers = await Promise.all(
      Array.from({ length: 64 }, (_, at) => under(governed, at % 2 === 0 ? leaf('a') : leaf('b', '0.00002'), {}, small)),
    );
    const ran = answers.filter(({ status }) => status === 200).length;
    t.ok(ran >= 1 && ran <= 5, `${ran} ran`);
    for (const { status, body, code } of answers)
      if (status !== 200) t.match([status, body, code], [403, { reason: 'budget_exceeded' }, 'delegation_budget_exceeded']);
    while ((await under(governed, leaf('a'), {}, small)).status === 200);
    const spent = upstream.requests.length;
    t.ok(spent * 0.00000585 <= 0.00003 && spent >= 3, `${spent} calls`);
    const refused = await under(governed, leaf('a'), {}, small);
    const details = JSON.stringify(refused.body);
    t.match(details, /the budget of its delegation r, 0\.00003 USD/, 'which one it was, and its amount');
    t.match(details, /It never resets\./);
    t.equal(
      (await under(governed, issuer.text(token({ delegation_id: 'other', budget: { usd_max: '1' } })), {}, small)).status,
      200,
      'another has its own',
    );
    t.equal((await under(governed, 'none', { delegation_token: undefined }, small)).status, 200);
  },
);

t.test('what a token has left is known after a restart, and X-GW-Delegation-ID on another door spends nothing of it', async (t) => {
  const small = { params: { ...CHAT, max_tokens: 10 } };
  const text = issuer.text(token({ delegation_id: 'r', budget: { usd_max: '0.000018' } }));
  const first = await open(t);
  for (let at = 0; at < 4; at += 1) {
    const answer = await first.send(chat(['X-GW-Delegation-ID', 'r']));
    t.match(await first.recordOf(answer), { delegation_id: 'r', delegation_chain: undefined });
  }
  t.equal((await under(first, text, {}, small)).status, 200);
  await first.gw.gateway.stop();
  const second = await open(t, { env: { GW_DATA_DIR: first.gw.dataDir } });
  t.equal((await under(second, text, {}, small)).status, 200);
  t.match(await under(second, text, {}, small), { status: 403, code: 'delegation_budget_exceeded' });
  t.match((await under(second, text, {}, small)).body, { reason: 'budget_exceeded' });
});

t.test('a stream under a token is ended where it would pass the budget', async (t) => {
  const word = 'data: {"choices":[{"delta":{"content":"word "}}]}\n\n';
  const clock = fakeClock(DELEGATED_AT);
  const governed = await startGoverned(t, {
    bundle: ALLOW_ALL,
    clock,
    env: { ...KEYS, GW_STREAM_STOP_AT_CAP: 'true' },
    handler: (_request, response) => response.writeHead(200, { 'content-type': 'text/event-stream' }).end(word.repeat(400)),
  });
  const text = issuer.text(token({ budget: { usd_max: '0.00002' } }));
  const answer = await governed.execute({ delegation_token: text }, { params: { ...CHAT, stream: true, max_tokens: 10 } });
  t.ok(answer.text.length < word.length * 400, 'it is cut');
  t.match(await governed.gw.record(answer.headers.get('x-gw-record-id') ?? ''), {
    decision: 'allow',
    reason_codes: ['stream_stopped_at_cap', 'delegation_budget_exceeded'],
    delegation_chain: [{ delegation_id: 'root' }],
  });
});

t.test('what is revoked ends at once, with all that was made of it, over a restart, until that is taken back', async (t) => {
  const { clock, ...governed } = await open(t);
  const { gw } = governed;
  const [root, other] = [token(), issuer.text(token({ delegation_id: 'other' }))];
  const leaf = issuer.text(child(root));
  t.equal((await under(governed, leaf)).status, 200);
  const put = await gw.admin('PUT', '/v1/admin/delegations/revoked', {
    delegation_id: 'root',
    reason: 'lost',
    expires_at: '2026-11-23T13:00:00Z',
  });
  t.match([put.status, put.body], [200, { delegation_id: 'root', reason: 'lost', revoked_at: '2026-11-23T12:00:00.000Z' }]);
  t.match(await under(governed, leaf), { status: 403, code: 'delegation_revoked', record: { delegation_id: 'child' } });
  t.match(await under(governed, issuer.text(root)), { code: 'delegation_revoked' });
  t.equal((await under(governed, other)).status, 200);
  clock.advance(1000);
  await gw.admin('PUT', '/v1/admin/delegations/revoked', { delegation_id: 'never-seen' });
  t.match((await gw.admin('GET', '/v1/admin/delegations/revoked')).body, {
    revoked: [{ delegation_id: 'never-seen' }, { delegation_id: 'root' }],
  });
  t.match((await gw.admin('PUT', '/v1/admin/delegations/revoked', { expires_at: 'tomorrow', id: 'x' })).body, {
    error: { code: 'invalid_request', details: [{ path: 'id' }, { path: 'delegation_id' }, { path: 'expires_at' }] },
  });
  const ended = { delegation_id: 'a b', expires_at: '2026-11-23T12:00:01Z' };
  t.match(await gw.admin('PUT', '/v1/admin/delegations/revoked', ended), {
    status: 400,
    body: {
      error: {
        details: [
          { path: 'delegation_id', message: 'must be 1 to 128 visible ASCII characters' },
          { path: 'expires_at', message: 'must be a time to come, as RFC 3339 writes it' },
        ],
      },
    },
  });
  t.match((await gw.admin('GET', '/v1/admin/delegations/revoked')).body, { revoked: { length: 2 } }, 'it is not listed');
  await gw.gateway.stop();
  const second = await open(t, { env: { GW_DATA_DIR: gw.dataDir } });
  t.match(await under(second, leaf), { code: 'delegation_revoked' });
  t.equal((await second.gw.admin('DELETE', '/v1/admin/delegations/revoked/root')).status, 204);
  t.equal((await second.gw.admin('DELETE', '/v1/admin/delegations/revoked/root')).status, 404);
  t.equal((await under(second, leaf)).status, 200);
});

t.test('a revocation is removed a day after the end of its delegation, and one without an end stays', async (t) => {
  const { clock, gw } = await open(t);
  await gw.admin('PUT', '/v1/admin/delegations/revoked', { delegation_id: 'a', expires_at: '2026-11-23T13:00:00Z' });
  await gw.admin('PUT', '/v1/admin/delegations/revoked', { delegation_id: 'b' });
  const ids = async () =>
    ((await gw.admin('GET', '/v1/admin/delegations/revoked')).body as { revoked: { delegation_id: string }[] }).revoked.map(
      (one) => one.delegation_id,
    );
  for (let hour = 0; hour < 24; hour += 1) clock.advance(3_600_000);
  t.same((await ids()).sort(), ['a', 'b']);
  clock.advance(2 * 3_600_000);
  // The look of an hour before may still be under way; the next one comes an hour after it.
  while ((await ids()).length > 1) {
    clock.advance(3_600_000);
    await new Promise((resolve) => setImmediate(resolve));
  }
  t.same(await ids(), ['b']);
});

t.test('an answer that is kept for an idempotency key is given again to no other delegation', async (t) => {
  const governed = await open(t);
  const extra = { idempotency_key: 'once' };
  const text = issuer.text(token());
  const first = await under(governed, text, extra);
  t.match((await under(governed, text, extra)).body, { record_id: first.body['record_id'] });
  const other = await governed.execute({ ...extra, delegation_token: issuer.text(token({ delegation_id: 'other' })) });
  t.match([other.status, other.body], [409, { error: { code: 'idempotency_key_reused' } }]);
  t.equal(governed.upstream.requests.length, 1);
});

t.test('a key that cannot be read stops the start, and is not shown', async (t) => {
  await t.rejects(open(t, { keys: { GW_DELEGATION_VERIFY_KEY: 'ci=tooshort' } }), /GW_DELEGATION_VERIFY_KEY/);
});
