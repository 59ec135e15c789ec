// A call may name models beside its own: ones that may answer in its place, ones that run inside of it. Rules and
// delegations hold for each of them, by every door.
import { readFileSync } from 'node:fs';
import t from 'tap';
import { fields, Issuer } from '../decide/delegation/delegation-tokens.ts';
import { fakeClock } from '../support/fake-clock.ts';
import {
  ALLOW,
  ANTHROPIC,
  chatBody,
  direct,
  GEMINI,
  HIDDEN,
  HOSTS,
  input,
  LISTED,
  NAMED,
  type Named,
  NO_EVIL,
  NOT_UNDERSTOOD,
  named,
  OPENAI,
  OPENROUTER,
  PLAIN,
  proxied,
  titleOf,
} from '../support/further-models.ts';
import { bundleOf, startGoverned } from '../support/governed.ts';
import { RESPONSES, scene } from '../support/metered-sockets.ts';

// Holds: every-named-model-is-judged
t.test('a rule holds for each model that a call names, wherever it stands', async (t) => {
  const denies = await startGoverned(t, { hosts: HOSTS, bundle: bundleOf(NO_EVIL) });
  const lists = await startGoverned(t, { hosts: HOSTS, bundle: bundleOf(LISTED) });
  for (const one of NAMED) {
    const title = titleOf(one);
    t.same(await proxied(denies, one), ['evil'], `denied: ${title}`);
    t.same(await direct(denies, one), ['evil'], `denied, structured: ${title}`);
    t.same(await proxied(lists, one), ['target_not_allowed'], `not listed: ${title}`);
    const text = JSON.stringify([one.body, one.headers ?? []]).replaceAll(/evil/gi, 'fine');
    const [body, headers] = JSON.parse(text) as [Named['body'], readonly string[]];
    t.equal(await proxied(lists, { ...one, body, headers }), 'sent', `all of them listed: ${title}`);
  }
  for (const one of NAMED.filter(({ path }) => /responses|messages|completions$/.test(path)).slice(0, 12)) {
    const streamed = { ...one, body: { ...one.body, stream: true } };
    t.same(await proxied(denies, streamed), ['evil'], `denied, streamed: ${titleOf(one)}`);
    t.same(await direct(lists, streamed), ['target_not_allowed'], `not listed, structured and streamed: ${titleOf(one)}`);
  }
  for (const one of PLAIN) {
    t.equal(await proxied(denies, one), 'sent', `denied for nothing: ${titleOf(one)}`);
    t.equal(await proxied(lists, one), 'sent', `listed: ${titleOf(one)}`);
  }
});

// Holds: every-named-model-is-judged
t.test('what leads to models that nobody knows hides them, and what the call may cost', async (t) => {
  const denies = await startGoverned(t, { hosts: HOSTS, bundle: bundleOf(NO_EVIL) });
  const capped = await startGoverned(t, {
    hosts: HOSTS,
    bundle: bundleOf(`${ALLOW}  budgets:\n    - {id: cap, effect: {budget: {usd_max: "50"}}}\n`),
  });
  const free = await startGoverned(t, { hosts: HOSTS });
  const lists = await startGoverned(t, { hosts: HOSTS, bundle: bundleOf(LISTED) });
  for (const one of HIDDEN) {
    t.same(await proxied(denies, one), NOT_UNDERSTOOD, titleOf(one));
    t.same(await proxied(lists, one), NOT_UNDERSTOOD, `not listed: ${titleOf(one)}`);
    t.same(await direct(denies, one), NOT_UNDERSTOOD, `structured: ${titleOf(one)}`);
    t.same(await proxied(capped, one), NOT_UNDERSTOOD, `under a cap: ${titleOf(one)}`);
    t.equal(await proxied(free, one), 'sent', `where nothing needs to know: ${titleOf(one)}`);
  }
});

t.test('a form says nothing of further models that could be read in one way', async (t) => {
  const denies = await startGoverned(t, { bundle: bundleOf(NO_EVIL) });
  const field = (name: string, value: string) => `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
  const form = (fields: readonly (readonly [string, string])[]) => `${fields.map(([name, value]) => field(name, value)).join('')}--b--\r\n`;
  const headers = ['Authorization', 'Bearer sk', 'Content-Type', 'multipart/form-data; boundary=b'];
  const send = async (path: string, more: readonly (readonly [string, string])[]) => {
    const answer = await denies.through(`${OPENAI}:443`, { method: 'POST', path, headers, body: form([['model', 'good'], ...more]) });
    return answer.status === 200 ? 'sent' : (await denies.recordOf(answer))['reason_codes'];
  };
  for (const path of ['/v1/audio/transcriptions', '/v1/images/edits']) {
    t.same(await send(path, [['fallbacks', '["evil"]']]), NOT_UNDERSTOOD, path);
    t.same(await send(path, [['models', 'evil']]), NOT_UNDERSTOOD, path);
    t.same(await send(path, [['models[]', 'evil']]), ['ambiguous_body'], path);
    t.equal(await send(path, [['n', '2']]), 'sent', `${path}, with a number as forms write it`);
  }
});

t.test('a model that is run where none is named is the one that the provider takes', async (t) => {
  const rule = (model: string) =>
    bundleOf(
      `${ALLOW}  targets:\n    - {id: a, when: {field: action.params.model, equals: ${model}}, effect: {decision: deny, reason_codes: [evil]}}\n`,
    );
  for (const [model, one] of [
    ['gpt-image-2', named(OPENAI, '/v1/responses', { ...input, tools: [{ type: 'image_generation' }] })],
    [
      'openai/gpt-5-image',
      named(OPENROUTER, '/api/v1/chat/completions', { ...chatBody, tools: [{ type: 'openrouter:image_generation' }] }),
    ],
    [
      'flux-1.1-pro-ultra',
      named('api.mistral.ai', '/v1/conversations', { model: 'good', inputs: 'x', tools: [{ type: 'image_generation' }] }),
    ],
  ] as const) {
    t.same(await proxied(await startGoverned(t, { hosts: HOSTS, bundle: rule(model) }), one), ['evil'], model);
  }
});

t.test('names that some reader takes for those of a place are refused', async (t) => {
  const governed = await startGoverned(t, { hosts: HOSTS, bundle: bundleOf(NO_EVIL) });
  const raw = (host: string, path: string, body: string) => ({ host, path, body: body as unknown as Named['body'] });
  for (const one of [
    raw(OPENROUTER, '/api/v1/chat/completions', '{"model":"good","messages":[],"models":["good"],"Models":["evil"]}'),
    raw(OPENROUTER, '/api/v1/chat/completions', '{"model":"good","messages":[],"MODELS":["evil"]}'),
    raw(OPENROUTER, '/api/v1/chat/completions', '{"model":"good","messages":[],"models":["evil"],"models":["good"]}'),
    raw(OPENROUTER, '/api/v1/chat/completions', '{"model":"good","messages":[],"fallbacks":[{"model":"good","Model":"evil"}]}'),
    raw(OPENROUTER, '/api/v1/chat/completions', '{"model":"good","messages":[],"fallbacks":[{"model":"evil","model":"good"}]}'),
    raw(
      OPENROUTER,
      '/api/v1/chat/completions',
      '{"model":"good","messages":[],"fallbacks":[{"model":"good","max_tokens":1,"Max_Tokens":9}]}',
    ),
    raw(
      OPENROUTER,
      '/api/v1/chat/completions',
      '{"model":"good","messages":[],"tools":[{"type":"openrouter:advisor","parameters":{"model":"evil","model":"good"}}]}',
    ),
    raw(
      OPENROUTER,
      '/api/v1/chat/completions',
      '{"model":"good","messages":[],"providerOptions":{"gateway":{"models":["evil"],"models":[]}}}',
    ),
    raw(OPENAI, '/v1/responses', '{"model":"good","input":"x","Tools":[{"type":"image_generation","model":"evil"}]}'),
    raw(OPENAI, '/v1/responses', '{"model":"good","input":"x","tools":[{"type":"image_generation","Model":"evil"}]}'),
    raw(OPENAI, '/v1/responses', '{"model":"good","input":"x","tools":[{"type":"image_generation","model":"evil","model":"good"}]}'),
    raw(OPENAI, '/v1/responses', '{"model":"good","input":"x","tools":[{"type":"image_generation","\\u006dodel":"evil","model":"good"}]}'),
    raw(OPENAI, '/v1/responses', '{"model":"good","input":"x","tools":[{"type":"web_search","Type":"image_generation"}]}'),
    raw(
      ANTHROPIC,
      '/v1/messages',
      '{"model":"good","max_tokens":5,"messages":[],"tools":[{"type":"advisor_1","model":"good","max_uses":1,"max_uses":9}]}',
    ),
    raw(
      GEMINI,
      '/v1beta/models/good:generateContent',
      '{"contents":[],"generationConfig":{"routingConfig":{},"routing_config":{"autoMode":{}}}}',
    ),
  ]) {
    t.same(await proxied(governed, one), ['ambiguous_body'], String(one.body));
  }
});

t.test('a delegation that lists models allows no further one', async (t) => {
  const issuer = new Issuer('ci');
  const clock = fakeClock();
  const governed = await startGoverned(t, { hosts: HOSTS, clock, env: { GW_DELEGATION_VERIFY_KEY: `ci=${issuer.publicKey}` } });
  const now = clock.now();
  const at = (ms: number) => new Date(ms).toISOString();
  const token = issuer.text(
    fields({
      org_id: 'default',
      workload_id: 'default',
      issued_at: at(now - 1000),
      expires_at: at(now + 3_600_000),
      budget: { allowed_models: ['good', 'fine'] },
    }),
  );
  for (const one of [...NAMED, ...HIDDEN])
    t.same(await direct(governed, one, { delegation_token: token }), ['delegation_model_not_allowed'], titleOf(one));
  for (const one of PLAIN.filter(({ host }) => host === OPENROUTER))
    t.equal(await direct(governed, one, { delegation_token: token }), 'sent', titleOf(one));
});

t.test('calls on an open WebSocket name them too', async (t) => {
  const { open, records } = await scene(t, { bundle: bundleOf(NO_EVIL) });
  const { say } = await open(RESPONSES);
  const event = { type: 'response.create', model: 'good', input: [] };
  t.equal((await say({ ...event, tools: [{ type: 'web_search' }] }, 'response.completed'))['type'], 'response.completed');
  const refused = await say({ ...event, tools: [{ type: 'image_generation', model: 'evil' }] }, 'error');
  t.match(refused, { error: { message: /no evil/ } });
  t.match((await records()).at(-1), { decision: 'deny', reason_codes: ['evil'] });
});

t.test('the shipped list of approved models holds for tools and for models to fall back on', async (t) => {
  const text = readFileSync('policies/presets/approved-models.yaml', 'utf8');
  const rules = `${ALLOW}  targets:\n${text.slice(text.indexOf('rules:\n') + 'rules:\n'.length).replaceAll(/^/gm, '  ')}`;
  const governed = await startGoverned(t, { hosts: HOSTS, bundle: bundleOf(rules) });
  const own = { model: 'gpt-4o', input: 'x' };
  t.same(await proxied(governed, named(OPENAI, '/v1/responses', { ...own, tools: [{ type: 'image_generation', model: 'gpt-image-1' }] })), [
    'model_not_approved',
  ]);
  t.same(
    await proxied(governed, named(OPENROUTER, '/api/v1/chat/completions', { model: 'gpt-4o', messages: [], models: ['gpt-4o', 'opus'] })),
    ['model_not_approved'],
  );
  t.equal(
    await proxied(governed, named(OPENAI, '/v1/responses', { ...own, tools: [{ type: 'image_generation', model: 'gpt-4o-mini' }] })),
    'sent',
  );
});

t.test('tokens for thought count under a cap, without a maximum, by every door and in every spelling', async (t) => {
  const cap = (usd: string) => bundleOf(`${ALLOW}  budgets:\n    - {id: cap, effect: {decision: allow, budget: {usd_max: "${usd}"}}}\n`);
  const capped = await startGoverned(t, { hosts: HOSTS, bundle: cap('0.05') });
  const month = await startGoverned(t, {
    hosts: HOSTS,
    bundle: bundleOf(`${ALLOW}  budgets:\n    - {id: cap, effect: {decision: allow, budget: {monthly_usd_max: "0.05"}}}\n`),
  });
  const loose = await startGoverned(t, { hosts: HOSTS, bundle: cap('5') });
  const gemini = (verb: string, body: object) => named(GEMINI, `/v1beta/models/gemini-2.5-pro:${verb}`, { contents: [], ...body });
  const chatOf = (body: object) => named(GEMINI, '/v1beta/openai/chat/completions', { model: 'gemini-2.5-pro', messages: [], ...body });
  const thinks: readonly Named[] = [
    gemini('generateContent', { generationConfig: { thinkingConfig: { thinkingBudget: 32_000 } } }),
    gemini('generateContent', { generation_config: { thinking_config: { thinking_budget: 32_000 } } }),
    gemini('streamGenerateContent', { generationConfig: { thinkingConfig: { thinkingBudget: 32_000 } } }),
    gemini('generateContent', { generationConfig: { thinkingConfig: { thinkingBudget: -1 } } }),
    chatOf({ extra_body: { google: { generationConfig: { thinkingConfig: { thinkingBudget: 32_000 } } } } }),
    chatOf({ extra_body: { google: { thinking_config: { thinking_budget: 32_000 } } } }),
    chatOf({ extra_body: { google: { generationConfig: { maxOutputTokens: 60_000 } } } }),
    chatOf({ reasoning_effort: 'high' }),
    chatOf({ stream: true, extra_body: { google: { thinking_config: { thinking_budget: 32_000 } } } }),
    named(OPENROUTER, '/api/v1/chat/completions', { model: 'openai/gpt-4o', messages: [], reasoning: { max_tokens: 32_000 } }),
  ];
  for (const one of thinks) {
    const title = titleOf(one);
    t.same(await proxied(capped, one), ['budget_usd_max_exceeded'], title);
    t.same(await direct(capped, one), ['budget_usd_max_exceeded'], `structured: ${title}`);
    t.same(await proxied(month, one), ['budget_monthly_usd_max_exceeded'], `cap of a month: ${title}`);
    t.equal(await proxied(loose, one), 'sent', `a cap above it: ${title}`);
  }
  const small = gemini('generateContent', { generationConfig: { maxOutputTokens: 900, thinkingConfig: { thinkingBudget: 500 } } });
  t.equal(await proxied(capped, small), 'sent');
});
