// What no row of the registry describes hides its model, its params and its cost: nothing is judged by a member that
// the provider may ignore.
import { readFileSync } from 'node:fs';
import t, { type Test } from 'tap';
import { exactly } from '../support/exactly.ts';
import { bundleOf, chat, type Governed, startGoverned } from '../support/governed.ts';
import { REALTIME, RESPONSES, scene } from '../support/metered-sockets.ts';
import type { UpstreamHandler } from '../support/tls-upstream.ts';

const NOT_UNDERSTOOD = ['operation_not_understood'];
const ALLOW = '  connectors:\n    - {id: all, effect: {decision: allow}}\n';
/** The preset as it is shipped, indented into a bundle. */
const APPROVED = `${ALLOW}  targets:\n${preset('approved-models')}`;
const AZURE = 'res.openai.azure.com:443';
const GEMINI = 'generativelanguage.googleapis.com:443';
const GOOD = { model: 'gpt-4o-mini', messages: [] };
const NO_EVIL = `${ALLOW}  targets:\n    - {id: evil, when: {field: context.action.params.model, equals: evil}, effect: {decision: deny}}\n`;
const CAPPED = `${ALLOW}  budgets:\n    - {id: cap, effect: {budget: {usd_max: "0.50"}}}\n`;

function preset(name: string): string {
  const text = readFileSync(`policies/presets/${name}.yaml`, 'utf8');
  return text.slice(text.indexOf('rules:\n') + 'rules:\n'.length).replaceAll(/^/gm, '  ');
}

async function refusedAs(
  t: Test,
  { through, gw, upstream }: Governed,
  authority: string,
  path: string,
  body: unknown = GOOD,
): Promise<unknown> {
  const before = upstream.requests.length;
  const answer = await through(authority, chat([], path, body));
  t.equal(upstream.requests.length, before, `${path} goes nowhere`);
  t.equal(answer.status, 403, path);
  const record = await gw.record(answer.headers['x-gw-record-id'] ?? '');
  t.equal(record['decision'], 'deny', path);
  return record['reason_codes'];
}

t.test('a model in the body says nothing where the path names another, or may', async (t) => {
  const governed = await startGoverned(t, { bundle: bundleOf(APPROVED) });
  for (const [authority, path, codes] of [
    [AZURE, '/openai/deployments/gpt-4-evil/extensions/chat/completions', ['model_not_approved']],
    [AZURE, '/openai/deployments/gpt-4-evil/chat%2Fcompletions', ['model_not_approved']],
    [AZURE, '/openai/deployments/gpt-4-evil/brand/new', ['model_not_approved']],
    [AZURE, '/OPENAI/Deployments/gpt-4-evil/brand/new', ['model_not_approved']],
    [AZURE, '/openai/deployments%2Fgpt-4-evil/chat/completions', NOT_UNDERSTOOD],
    [AZURE, '/openai/deployments;x/gpt-4-evil/chat/completions', NOT_UNDERSTOOD],
    [GEMINI, '/v1beta/dynamic/evil:generateContent', ['model_not_approved']],
    [GEMINI, '/v1beta/models/gemini-evil:generateAnswer', ['model_not_approved']],
    [GEMINI, '/v1beta/models/gemini-evil:brandNew', ['model_not_approved']],
    [GEMINI, '/v1beta/models%2Fgemini-evil:generateContent', NOT_UNDERSTOOD],
    ['api.openai.com:443', '/v1/brand/new', NOT_UNDERSTOOD],
    ['api.openai.com:443', '/v1/engines/gpt-4/completions', ['model_not_approved']],
    ['api.openai.com:443', '/v1/chat/completions;x', NOT_UNDERSTOOD],
    ['api.openai.com:443', '/v1/chat/completions/more', NOT_UNDERSTOOD],
  ] as const) {
    // Where a row says how a body is read, another model in it is a contradiction, which Azure alone ignores.
    const body = path.includes('generateAnswer') || path.includes('dynamic') || path.includes('engines') ? {} : GOOD;
    t.same(await refusedAs(t, governed, authority, path, body), codes, path);
  }
  const known = await governed.through(AZURE, chat([], '/openai/deployments/gpt-4o-mini/extensions/chat/completions'));
  t.equal(known.status, 200, 'a deployment that is approved');
});

t.test('an endpoint of one model runs that, whatever model a call to it names', async (t) => {
  const governed = await startGoverned(t, {
    bundle: bundleOf(APPROVED),
    hosts: ['phi-3.eastus2.models.ai.azure.com', 'x.us-east-1.aws.endpoints.huggingface.cloud'],
  });
  for (const [authority, path] of [
    ['phi-3.eastus2.models.ai.azure.com:443', '/chat/completions'],
    ['phi-3.eastus2.models.ai.azure.com:443', '/v1/chat/completions'],
    ['phi-3.eastus2.models.ai.azure.com:443', '/v1/embeddings'],
    ['phi-3.eastus2.models.ai.azure.com:443', '/v2/chat'],
    ['x.us-east-1.aws.endpoints.huggingface.cloud:443', '/v1/chat/completions'],
  ] as const) {
    t.same(await refusedAs(t, governed, authority, path), NOT_UNDERSTOOD, path);
    t.same(await refusedAs(t, governed, authority, path, { messages: [] }), NOT_UNDERSTOOD, `${path} without a model`);
  }
});

// Holds: no-rule-by-an-unknown-body
t.test('a path that some servers take for that of another operation is none of both', async (t) => {
  const governed = await startGoverned(t, { bundle: bundleOf(NO_EVIL) });
  for (const [authority, path] of [
    ['api.openai.com:443', '/v1/threads/t%2Fruns'],
    ['api.openai.com:443', '/v1/threads/t%252Fruns'],
    ['api.openai.com:443', '/v1/threads/t%5Cruns'],
    ['api.openai.com:443', '/v1/threads/t/runs;x'],
    ['api.openai.com:443', '/v1/threads;x/t/runs'],
    ['api.openai.com:443', '/v1/threads/t/runs%3Fx'],
    ['api.openai.com:443', '/v1/threads/t/runs%23x'],
    ['api.mistral.ai:443', '/v1/agents/completions%2F'],
    ['api.mistral.ai:443', '/v1/agents/completions%3Bx'],
    [GEMINI, '/v1beta/models/evil:generateContent%3Fx:countTokens'],
    [AZURE, '/openai/deployments/evil%2Fchat%2Fcompletions'],
  ] as const) {
    t.same(await refusedAs(t, governed, authority, path, { model: 'evil', messages: [] }), NOT_UNDERSTOOD, path);
  }
  for (const [authority, path] of [
    ['api.openai.com:443', '/v1/threads/t%2Fmessages'],
    ['api.openai.com:443', '/v1/files/a%2Fb;c'],
    [GEMINI, '/v1beta/models/x%2Fy:countTokens'],
  ] as const) {
    t.equal((await governed.through(authority, chat([], path, {}))).status, 200, `${path} is read in one way`);
  }
});

t.test('a model that the provider keeps is known to no rule', async (t) => {
  const governed = await startGoverned(t, { bundle: bundleOf(NO_EVIL) });
  const { through } = governed;
  const openai = 'api.openai.com:443';
  t.same(await refusedAs(t, governed, openai, '/v1/responses', { prompt: { id: 'pmpt_1' } }), NOT_UNDERSTOOD, 'a stored prompt');
  t.same(await refusedAs(t, governed, GEMINI, '/v1beta/interactions', { agent: 'deep-research', input: 'x' }), NOT_UNDERSTOOD, 'an agent');
  t.equal((await through(openai, chat([], '/v1/responses', { prompt: { id: 'pmpt_1' }, model: 'good' }))).status, 200, 'one that is named');
  t.equal((await through(openai, { path: '/v1/responses/resp_1' })).status, 200, 'to ask for a response runs no model');
});

t.test('a body that leads to models which nobody knows hides which of them answers, and its price', async (t) => {
  const hosts = ['openrouter.ai'];
  const governed = await startGoverned(t, { hosts, bundle: bundleOf(NO_EVIL) });
  const capped = await startGoverned(t, { hosts, bundle: bundleOf(CAPPED) });
  for (const path of ['/api/v1/chat/completions', '/api/v1/responses', '/api/v1/messages']) {
    const body = { ...GOOD, preset: 'mine' };
    t.same(await refusedAs(t, governed, 'openrouter.ai:443', path, body), NOT_UNDERSTOOD, path);
    t.same(await refusedAs(t, capped, 'openrouter.ai:443', path, { ...body, max_tokens: 5 }), NOT_UNDERSTOOD, `a cap, ${path}`);
  }
  const free = await startGoverned(t, { hosts });
  const body = { ...GOOD, preset: 'mine' };
  const passes = await free.through('openrouter.ai:443', chat([], '/api/v1/chat/completions', body));
  t.equal(passes.status, 200, 'where nothing needs to know');
  const rules = `${ALLOW}  transforms:\n    - {id: small, effect: {mutations: [{key: action.params.model, value: small}]}}\n`;
  const mutated = await startGoverned(t, { hosts, bundle: bundleOf(rules) });
  t.same(await refusedAs(t, mutated, 'openrouter.ai:443', '/api/v1/chat/completions', body), ['mutation_not_applicable']);
});

t.test('the refusal says which rule needs what, and how the path may pass', async (t) => {
  const { through, execute, gw } = await startGoverned(t, { bundle: bundleOf(APPROVED) });
  const answer = await through('api.openai.com:443', chat([], '/v1/brand/new'));
  const { error } = JSON.parse(answer.body.toString()) as { error: { message: string } };
  t.match(
    error.message,
    /rule "preset.approved_models" of the targets layer needs context\.action\.params\.model.*context\.action\.target_path/,
  );
  const direct = await execute({}, { target_path: '/v1/brand/new', params: GOOD });
  t.match(direct, { status: 403, body: { decision: 'deny', reason_codes: NOT_UNDERSTOOD } }, 'on the structured API too');
  const record = await gw.record(String(direct.body['record_id']));
  t.notOk('model' in record, 'the record names no model that nobody knows');
  const excepted = APPROVED.replace(
    '- {field: context.action.type, not_in:',
    '- {not: {field: context.action.target_path, starts_with: /v1/brand/}}\n          - {field: context.action.type, not_in:',
  );
  t.not(excepted, APPROVED);
  const more = await startGoverned(t, { bundle: bundleOf(excepted) });
  t.equal((await more.through('api.openai.com:443', chat([], '/v1/brand/new'))).status, 200, 'the way that it names works');
});

t.test('a bundle that needs nothing of the body lets an operation pass that nobody knows, as it came', async (t) => {
  const { through, upstream, recordOf } = await startGoverned(t);
  for (const method of ['POST', 'PUT', 'PATCH']) {
    const answer = await through('api.openai.com:443', { ...chat([], '/v1/brand/new', '{"model":"m", "stream" : true}'), method });
    t.equal(answer.status, 200, method);
    t.equal(upstream.requests.at(-1)?.body.toString(), '{"model":"m", "stream" : true}');
    const record = await recordOf(answer);
    t.notOk('model' in record);
  }
});

t.test('the answer of an operation that nobody knows is metered all the same where it tells its usage', async (t) => {
  let said = '';
  const handler: UpstreamHandler = (_request, response, body) =>
    void body.then(() => response.setHeader('content-type', said.startsWith('data:') ? 'text/event-stream' : 'application/json').end(said));
  const { through, recordOf } = await startGoverned(t, { handler });
  for (const [answer, metering] of [
    [
      { model: 'gpt-4o', usage: { prompt_tokens: 1_000, completion_tokens: 100 } },
      { tokens_in: 1_000, tokens_out: 100, cost_usd: exactly('0.0035') },
    ],
    [
      { model: 'gpt-4o', usage: { input_tokens: 100, cache_read_input_tokens: 900, output_tokens: 100 } },
      { tokens_in: 1_000, tokens_out: 100, cached_tokens_in: 900, cost_usd: exactly('0.002375') },
    ],
  ] as const) {
    said = JSON.stringify(answer);
    const record = await recordOf(await through('api.openai.com:443', chat([], '/v1/brand/new')));
    t.match(record, { decision: 'allow', metering: { ...metering, model: 'gpt-4o', usage_reported: true } }, said);
    t.notOk('model' in record, 'what was asked for is as unknown as before');
  }
  for (const untold of ['{"usage":"little"}', '{"done":true}', 'data: {"usage":{"prompt_tokens":5,"completion_tokens":3}}\n\n']) {
    said = untold;
    const record = await recordOf(await through('api.openai.com:443', chat([], '/v1/brand/new')));
    t.match(record, { metering: { tokens_in: 0, tokens_out: 0, cost_usd: exactly('0'), usage_reported: false } }, said);
  }
});

// Holds: no-rule-by-an-unknown-body
t.test('no cap holds a call whose cost nobody can know: it is refused', async (t) => {
  const capped = await startGoverned(t, { bundle: bundleOf(`${ALLOW}  budgets:\n    - {id: cap, effect: {budget: {usd_max: "0.50"}}}\n`) });
  t.same(await refusedAs(t, capped, 'api.openai.com:443', '/v1/brand/new'), NOT_UNDERSTOOD, 'a cap for each request');
  t.same(await refusedAs(t, capped, AZURE, '/openai/deployments/gpt-4o-mini/brand/new'), NOT_UNDERSTOOD, 'the model alone says too little');
  t.equal((await capped.through('api.openai.com:443', chat([], '/v1/chat/completions'))).status, 200);
  const monthly = await startGoverned(t, {
    bundle: bundleOf(`${ALLOW}  budgets:\n    - {id: cap, effect: {budget: {monthly_usd_max: "5"}}}\n`),
  });
  t.same(await refusedAs(t, monthly, 'api.openai.com:443', '/v1/brand/new'), NOT_UNDERSTOOD, 'a cap for the month');
  const limited = await startGoverned(t, { bundle: bundleOf(ALLOW) });
  const limit = { scope: 'org', period: 'daily', limit_usd: '5', actions: ['cap'] };
  t.equal((await limited.gw.admin('POST', '/v1/admin/budgets/limits', limit)).status, 201);
  t.same(await refusedAs(t, limited, 'api.openai.com:443', '/v1/brand/new'), NOT_UNDERSTOOD, 'a budget limit');
  t.equal((await limited.through('api.openai.com:443', chat([], '/v1/chat/completions'))).status, 200);
});

t.test('a mutation is not written into what nobody understands', async (t) => {
  const rules = `${ALLOW}  transforms:\n    - {id: small, effect: {mutations: [{key: action.params.max_tokens, value: 5}]}}\n`;
  const governed = await startGoverned(t, { bundle: bundleOf(rules) });
  t.same(await refusedAs(t, governed, 'api.openai.com:443', '/v1/brand/new'), ['mutation_not_applicable']);
});

t.test('the case of an Azure deployment, of its path and of a query changes nothing for a rule', async (t) => {
  const rules = `${ALLOW}  targets:
    - {id: evil, when: {field: action.params.model, equals: Evil-Model}, effect: {decision: deny, reason_codes: [evil]}}
    - {id: files, when: {field: action.target_path, glob: '/openai/files**'}, effect: {decision: deny, reason_codes: [files]}}
`;
  const governed = await startGoverned(t, { bundle: bundleOf(rules) });
  for (const name of ['evil-model', 'EVIL-MODEL', 'Evil%2DModel'])
    t.same(await refusedAs(t, governed, AZURE, `/openai/deployments/${name}/chat/completions`), ['evil'], name);
  t.same(await refusedAs(t, governed, AZURE, '/openai/v1/chat/completions', { model: 'eVIL-mODEL', messages: [] }), ['evil']);
  t.same(await refusedAs(t, governed, AZURE, '/OpenAI/Files', {}), ['files']);
  const good = await governed.through(AZURE, chat([], '/openai/deployments/Good-Model/chat/completions'));
  t.equal(good.status, 200);
  t.equal(governed.upstream.requests.at(-1)?.url, '/openai/deployments/Good-Model/chat/completions', 'what is sent stays');
});

t.test('a model under another of the names that its provider takes changes nothing for a rule', async (t) => {
  const governed = await startGoverned(t, { hosts: [GEMINI.split(':')[0] ?? '', 'ollama.com'], bundle: bundleOf(NO_EVIL) });
  for (const [authority, path, model] of [
    [GEMINI, '/v1beta/openai/chat/completions', 'models/evil'],
    ['ollama.com:443', '/api/chat', 'evil:latest'],
    ['ollama.com:443', '/v1/chat/completions', 'EVIL:Latest'],
  ] as const) {
    t.same(await refusedAs(t, governed, authority, path, { model, messages: [] }), ['target_not_allowed'], `${authority}${path} ${model}`);
    const answer = await governed.through(authority, chat([], path, { model: model.replace(/evil/i, 'good'), messages: [] }));
    t.equal(answer.status, 200);
    t.match(governed.upstream.requests.at(-1)?.body.toString(), /models\/good|good:[lL]atest/, 'what is sent stays');
  }
});

t.test('a second Content-Type is no way to have a form read otherwise', async (t) => {
  const governed = await startGoverned(t);
  const part = (boundary: string, model: string) =>
    `--${boundary}\r\nContent-Disposition: form-data; name="model"\r\n\r\n${model}\r\n--${boundary}--\r\n`;
  const answer = await governed.through('api.openai.com:443', {
    method: 'POST',
    path: '/v1/audio/transcriptions',
    headers: [
      'Authorization',
      'Bearer k',
      'Content-Type',
      'multipart/form-data; boundary=a',
      'Content-Type',
      'multipart/form-data; boundary=b',
    ],
    body: part('a', 'whisper-1'),
  });
  t.equal(answer.status, 400);
  t.equal(governed.upstream.requests.length, 0);
});

const NO_TRANSCRIPTION = `${ALLOW}  targets:
    - {id: evil, when: {field: action.params.model, in: [evil-transcribe, evil-realtime]}, effect: {decision: deny, reason_codes: [evil]}}
`;

t.test('every event of a realtime session that names a model is judged, and one that nobody knows hides it', async (t) => {
  const { open, upstream } = await scene(t, { bundle: bundleOf(NO_TRANSCRIPTION) });
  const client = await open(REALTIME);
  const seen: string[] = [];
  upstream.sockets[0]?.on('message', (data: Buffer) => seen.push((JSON.parse(data.toString()) as { type: string }).type));
  const told = (code: string) => ({ status: 403, reason_codes: [code] });
  const beta = { type: 'transcription_session.update', session: { input_audio_transcription: { model: 'evil-transcribe' } } };
  t.match(await client.say(beta, 'error'), told('evil'));
  const current = { type: 'session.update', session: { audio: { input: { transcription: { model: 'evil-transcribe' } } } } };
  t.match(await client.say(current, 'error'), told('evil'));
  t.match(await client.say({ type: 'session.update', session: { model: 'evil-realtime' } }, 'error'), told('evil'));
  t.match(await client.say({ type: 'brand.new', session: { model: 'gpt-4o-mini' } }, 'error'), told('operation_not_understood'));
  const twice = '{"type":"session.update","session":{"audio":{"input":{"transcription":{"model":"good","model":"evil-transcribe"}}}}}';
  t.match(await client.say(twice, 'error'), { status: 400, reason_codes: ['ambiguous_body'] });
  const flat = await open(RESPONSES);
  const two = { type: 'response.create', model: 'good', response: { model: 'evil-realtime' } };
  t.match(await flat.say(two, 'error'), { status: 400, reason_codes: ['ambiguous_body'] }, 'a call in two places');
  const other = { type: 'response.create', response: { model: 'another-model' } };
  t.match(await client.say(other, 'error'), { status: 400, reason_codes: ['ambiguous_body'] }, 'a call cannot name another model');
  t.same(seen, [], 'none of them was sent on');
  client.socket.send(JSON.stringify({ type: 'input_audio_buffer.append', audio: 'AAAA' }));
  await client.say({ type: 'response.create', response: {} }, 'response.done');
  t.same(seen, ['input_audio_buffer.append', 'response.create'], 'the socket goes on');
});

t.test('an event that nobody knows passes where no rule needs what it hides', async (t) => {
  const { open, upstream } = await scene(t);
  const client = await open(REALTIME);
  const seen: string[] = [];
  upstream.sockets[0]?.on('message', (data: Buffer) => seen.push((JSON.parse(data.toString()) as { type: string }).type));
  client.socket.send(JSON.stringify({ type: 'brand.new' }));
  await client.say({ type: 'response.create', response: {} }, 'response.done');
  t.same(seen, ['brand.new', 'response.create']);
});

t.test('a call is judged by settings that its client has changed and the server has not told yet', async (t) => {
  const rules = `${ALLOW}  budgets:\n    - {id: long, when: {field: estimates.tokens_out_max, gt: 5000}, effect: {decision: deny, reason_codes: [too_long]}}\n`;
  const { open, upstream } = await scene(t, { bundle: bundleOf(rules) });
  const client = await open(REALTIME);
  const server = upstream.sockets[0];
  server?.removeAllListeners('message');
  const arrived: Record<string, unknown>[] = [];
  const tell = (event: object) => void server?.send(JSON.stringify(event));
  server?.on('message', (data: Buffer) => {
    arrived.push(JSON.parse(data.toString()) as Record<string, unknown>);
    if (arrived.at(-1)?.['type'] === 'response.create') tell({ type: 'response.done', response: { id: 'r', status: 'completed' } });
  });
  client.socket.send(JSON.stringify({ type: 'session.update', session: { max_output_tokens: 60_000 } }));
  t.match(await client.say({ type: 'response.create', response: {} }, 'error'), { reason_codes: ['too_long'] });
  const told = client.until('session.created');
  tell({ type: 'session.created', session: { model: 'gpt-4o-mini' } });
  await told;
  t.match(await client.say({ type: 'response.create', response: {} }, 'error'), { reason_codes: ['too_long'] }, 'that was no answer to it');
  const refused = client.until('error');
  tell({ type: 'error', error: { message: 'no', event_id: arrived[0]?.['event_id'] } });
  await refused;
  await client.say({ type: 'response.create', response: {} }, 'response.done');
  t.same(
    arrived.map(({ type }) => type),
    ['session.update', 'response.create'],
    'a change that the server has refused counts no more',
  );
});
