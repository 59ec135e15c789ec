// The Model Context Protocol message by message, revision by revision: what is answered, with which code and status,
// and to whom.
import t from 'tap';
import { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import { TOOLS } from '../../../src/operations/tool-table.ts';
import { noSuchTool, tellingWays } from '../../../src/surfaces/mcp/meant-tools.ts';
import { aloneOf, initializeOf, mcpPlace, principalOf, requestOf } from './mcp-place.ts';

const WITH_SESSIONS = ['2025-03-26', '2025-06-18', '2025-11-25'] as const;
const STRUCTURED = ['2025-06-18', '2025-11-25'] as const;

t.test('initialize agrees on the revision that is asked for where it is spoken, else on the newest with sessions', async (t) => {
  const { post } = mcpPlace();
  for (const asked of WITH_SESSIONS) {
    const { status, json, session } = await post(initializeOf(asked));
    t.equal(status, 200);
    t.match(session, /^[\x21-\x7e]{20,}$/);
    t.match(json, {
      id: 1,
      result: { protocolVersion: asked, capabilities: { tools: {}, resources: {} }, serverInfo: { version: '1.2.3' } },
    });
  }
  for (const asked of ['2024-11-05', '2026-07-28', '2099-01-01', '']) {
    t.match((await post(initializeOf(asked))).json, { result: { protocolVersion: '2025-11-25' } });
  }
});

t.test('nothing is promised that is never sent', async (t) => {
  const { post } = mcpPlace();
  const { json } = await post(initializeOf('2025-11-25'));
  t.strictSame((json as { result: { capabilities: unknown } }).result.capabilities, { tools: {}, resources: {} });
  const { body, headers } = aloneOf('server/discover');
  const discovered = (await post(body, headers)).json;
  t.strictSame((discovered as { result: { capabilities: unknown } }).result.capabilities, { tools: {}, resources: {} });
});

t.test('an initialize that does not say who asks begins no session', async (t) => {
  const { post, endpoint } = mcpPlace();
  for (const params of [{}, { protocolVersion: 1, capabilities: {}, clientInfo: {} }, { protocolVersion: '2025-03-26', clientInfo: {} }]) {
    const { status, json, session } = await post(requestOf('initialize', params));
    t.strictSame([status, session], [400, undefined]);
    t.match(json, { id: 1, error: { code: -32_602 } });
  }
  t.equal(endpoint.sessions.size, 0);
});

t.test('tools are listed in one order, with what their revision knows of them', async (t) => {
  const { post, begin, tools } = mcpPlace();
  for (const revision of WITH_SESSIONS) {
    const session = { 'mcp-session-id': await begin(revision) };
    const first = await post(requestOf('tools/list'), session);
    const listed = (first.json as { result: { tools: Record<string, unknown>[] } }).result.tools;
    t.strictSame(
      listed.map(({ name }) => name),
      tools.tools.map(({ name }) => name),
    );
    t.equal((await post(requestOf('tools/list', {}), session)).text, first.text);
    t.strictSame(
      listed.map((tool) => 'title' in tool),
      listed.map(() => false),
      'a title that says the name alone is left out',
    );
    t.notOk('outputSchema' in (listed[0] ?? {}));
    t.strictSame(listed[0]?.['annotations'], {
      readOnlyHint: true,
    });
    t.notOk(listed.some((tool) => 'scope' in tool));
  }
});

t.test('a call is answered as text, and as structured content where the revision has it', async (t) => {
  const { post, begin, tools } = mcpPlace();
  for (const revision of WITH_SESSIONS) {
    const session = { 'mcp-session-id': await begin(revision) };
    const { json } = await post(requestOf('tools/call', { name: 'list_things', arguments: { limit: 3 } }, 'a'), session);
    const { result } = json as { result: { content: { type: string; text: string }[]; structuredContent?: unknown } };
    t.strictSame(JSON.parse(result.content[0]?.text ?? ''), { data: [{ id: 'ä\n"1"' }] });
    t.strictSame(result.structuredContent, revision === '2025-03-26' ? undefined : { data: [{ id: 'ä\n"1"' }] });
    t.notOk('isError' in result);
  }
  t.match(tools.calls[0], {
    name: 'list_things',
    args: { limit: 3 },
    asker: { principal: { id: 'k1', orgId: 'acme' }, from: '127.0.0.1' },
  });
});

t.test('a tool that there is not is answered with those that are meant', async (t) => {
  const { post, begin } = mcpPlace();
  const session = { 'mcp-session-id': await begin('2025-11-25') };
  const said = async (name: string) => (await post(requestOf('tools/call', { name }), session)).json;
  t.match(await said('get_things'), { error: { code: -32602, message: /did you mean list_things\b.*\?$/ } });
  t.match(await said('say_nothin'), { error: { message: /did you mean say_nothing\?$/ } });
  t.match(await said('make_coffee'), { error: { message: /tools\/list has them all$/ } });
});

t.test('a name that says what is wanted is answered with the tools for it, and how they are asked', (t) => {
  const known = TOOLS.tools.map(({ name }) => name);
  for (const [name, said] of [
    ['pause_workload', /did you mean put_policy_rule\? A rule \{when: .*workload\.id.*delete_policy_rule/],
    ['block_user', /did you mean put_policy_rule\?/],
    ['resume_workload', /did you mean list_policy_rules or delete_policy_rule\?/],
    ['list_unpriced_models', /did you mean list_records or get_cost_report\? .*cost_doubt=default_rate/],
    ['get_spend_forecast', /did you mean get_cost_report or list_budget_limits\?/],
    ['undo', /did you mean list_audit\? .*previous_rule/],
    ['list_changes', /did you mean list_audit\?/],
    ['list_users', /did you mean get_cost_report or list_records\? .*caller_id/],
    ['rename_workload', /did you mean update_workload\?$/],
    ['archive_project', /did you mean update_project\?$/],
    ['disable_provider', /did you mean .*disable_custom_provider/],
    ['get_alert_histories', /did you mean list_alert_history/],
  ] as const)
    t.match(noSuchTool(name, known), said, name);
  t.end();
});

t.test('where there is no such thing, the list that has the ids is named', (t) => {
  const tools = new Map(TOOLS.tools.map((tool) => [tool.name, tool]));
  const told = (name: string, code: 'not_found' | 'conflict' = 'not_found') => {
    const tool = tools.get(name);
    if (tool === undefined) throw new TypeError(`There is no tool ${name}`);
    return tellingWays(new GatewayError(code, 'There is none.'), tool, tools.keys()).message;
  };
  const lists = {
    ...{ delete_workload: 'list_workloads', delete_budget_limit: 'list_budget_limits', get_alert_channel: 'list_alert_channels' },
    ...{ approve_request: 'list_approvals', release_quarantine: 'list_quarantine', explain_record: 'list_records' },
    ...{ get_record: 'list_records', delete_policy_rule: 'list_policy_rules', update_project: 'list_projects' },
  };
  for (const [name, list] of Object.entries(lists)) t.equal(told(name), `There is none. ${list} has the ids.`, name);
  t.equal(told('get_health'), 'There is none.');
  t.equal(told('delete_workload', 'conflict'), 'There is none.');
  t.equal(told('set_provider_mode'), 'There is none. list_providers has the ids.', 'a name that is no id');
  const said = (name: string, error: GatewayError) => {
    const tool = tools.get(name);
    if (tool === undefined) throw new TypeError(`There is no tool ${name}`);
    return tellingWays(error, tool, tools.keys());
  };
  const there = new GatewayError('precondition_failed', 'It is there already.');
  t.equal(said('create_workload', there).message, 'It is there already. update_workload changes it.');
  const gone = new GatewayError('precondition_failed', 'It is not there.');
  t.equal(said('update_workload', gone).message, 'It is not there. create_workload makes one. list_workloads has the ids.');
  t.equal(said('put_policy_rule', gone).message, 'It is not there.');
  const lacking = (path: string) => new GatewayError('invalid_request', 'Bad.', { details: [{ path, message: 'is required' }] });
  t.strictSame(said('delete_workload', lacking('workload_id')).details, [
    { path: 'workload_id', message: 'is required; list_workloads has the ids' },
  ]);
  t.match(said('create_alert_subscription', lacking('channel_id')).details, [{ message: 'is required; list_alert_channels has the ids' }]);
  t.match(said('create_workload', lacking('workload_id')).details, [{ message: 'is required' }], 'what is made has no id in a list');
  t.end();
});

t.test('what is no object is structured nowhere, and a tool that answers nothing has answered', async (t) => {
  const { post, begin } = mcpPlace();
  const session = { 'mcp-session-id': await begin('2025-11-25') };
  const bare = await post(requestOf('tools/call', { name: 'list_bare' }), session);
  t.strictSame(bare.json, { jsonrpc: '2.0', id: 1, result: { content: [{ type: 'text', text: '[1,2]' }] } });
  const nothing = await post(requestOf('tools/call', { name: 'say_nothing' }), session);
  t.match(nothing.json, { result: { content: [{ type: 'text', text: '{}' }], structuredContent: {} } });
});

t.test('the failure of an operation is an answer of its tool, with code, message and details', async (t) => {
  const { post, begin } = mcpPlace();
  for (const revision of STRUCTURED) {
    const session = { 'mcp-session-id': await begin(revision, principalOf('reader', ['read'])) };
    const call = async (name: string, args: object) =>
      (
        (await post(requestOf('tools/call', { name, arguments: args }), session, principalOf('reader', ['read']))).json as {
          result: object;
        }
      ).result;
    const refused = { error: { code: 'forbidden', message: 'This needs the scope write.' } };
    t.match(await call('create_thing', {}), { isError: true, content: [{ text: JSON.stringify(refused) }], structuredContent: refused });
    t.match(await call('list_things', { limit: 'x' }), { isError: true, content: [{ text: /"details":\[\{"path":"limit"/ }] });
    const missing = { error: { code: 'not_found' } };
    t.match(await call('fail_here', {}), { isError: true, content: [{ text: /not_found/ }], structuredContent: missing });
  }
  const session = { 'mcp-session-id': await begin('2025-03-26') };
  const { json } = await post(requestOf('tools/call', { name: 'fail_here' }), session);
  t.strictSame(Object.keys((json as { result: object }).result).sort(), ['content', 'isError']);
});

t.test('a fault is an answer that says nothing of what is inside', async (t) => {
  const { post, begin } = mcpPlace();
  const { text } = await post(requestOf('tools/call', { name: 'break_down' }), { 'mcp-session-id': await begin('2025-11-25') });
  t.match(text, /"code":"internal"/);
  t.notMatch(text, /secret/);
});

t.test('what is no request, and what is not there, is a failure of the protocol', async (t) => {
  const { post, begin, tools } = mcpPlace();
  const session = { 'mcp-session-id': await begin('2025-11-25') };
  const cases: readonly (readonly [body: unknown, status: number, code: number])[] = [
    [requestOf('tools/call', { name: 'no_such_tool' }), 200, -32_602],
    [requestOf('tools/call', { name: 'toString' }), 200, -32_602],
    [requestOf('tools/call', {}), 200, -32_602],
    [requestOf('tools/call', { name: 'list_things', arguments: [] }), 200, -32_602],
    [requestOf('tools/list', { cursor: 'x' }), 200, -32_602],
    [requestOf('resources/read', {}), 200, -32_602],
    [requestOf('nothing/like/this'), 200, -32_601],
    [requestOf('constructor'), 200, -32_601],
    [requestOf('logging/setLevel', { level: 'debug' }), 200, -32_601],
    [requestOf('server/discover'), 200, -32_601],
    [{ id: 1, method: 'ping' }, 400, -32_600],
    [{ jsonrpc: '1.0', id: 1, method: 'ping' }, 400, -32_600],
    [{ jsonrpc: '2.0', id: null, method: 'ping' }, 400, -32_600],
    [{ jsonrpc: '2.0', id: {}, method: 'ping' }, 400, -32_600],
    [{ jsonrpc: '2.0', id: 1.5, method: 'ping' }, 400, -32_600],
    [{ jsonrpc: '2.0', id: 1, method: 7 }, 400, -32_600],
    [{ jsonrpc: '2.0', id: 1, method: 'ping', params: [] }, 400, -32_600],
    ['ping', 400, -32_600],
    [null, 400, -32_600],
  ];
  for (const [body, status, code] of cases) {
    const answer = await post(body, session);
    t.strictSame([answer.status, (answer.json as { error: { code: number } }).error.code], [status, code], JSON.stringify(body));
  }
  t.strictSame(tools.calls, []);
});

t.test('resources are read as JSON; one that there is not has the code of its revision', async (t) => {
  const { post, begin } = mcpPlace();
  const codes = { '2025-03-26': -32_002, '2025-06-18': -32_002, '2025-11-25': -32_002 } as const;
  for (const revision of WITH_SESSIONS) {
    const session = { 'mcp-session-id': await begin(revision) };
    const listed = await post(requestOf('resources/list'), session);
    t.match(listed.json, { result: { resources: [{ uri: 'things://all', name: 'things', mimeType: 'application/json' }] } });
    const read = await post(requestOf('resources/read', { uri: 'things://all' }), session);
    const contents = [{ uri: 'things://all', mimeType: 'application/json', text: '{"data":[{"id":"1"}]}' }];
    t.strictSame(read.json, { jsonrpc: '2.0', id: 1, result: { contents } });
    const missing = await post(requestOf('resources/read', { uri: 'things://none' }), session);
    t.match(missing.json, { error: { code: codes[revision], data: { uri: 'things://none' } } });
    t.match((await post(requestOf('resources/templates/list'), session)).json, { result: { resourceTemplates: [] } });
    t.match((await post(requestOf('prompts/list'), session)).json, { result: { prompts: [] } });
    t.strictSame((await post(requestOf('ping', undefined, 'p'), session)).json, { jsonrpc: '2.0', id: 'p', result: {} });
  }
  const { body, headers } = aloneOf('resources/read', { uri: 'things://none' });
  t.match((await post(body, headers)).json, { error: { code: -32_602 } });
});

t.test('notifications and answers are taken, and not answered', async (t) => {
  const { post, begin } = mcpPlace();
  const session = { 'mcp-session-id': await begin('2025-03-26') };
  for (const body of [
    { jsonrpc: '2.0', method: 'notifications/initialized' },
    { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } },
    { jsonrpc: '2.0', id: 1, result: {} },
    { jsonrpc: '2.0', id: 1, error: { code: 1, message: '' } },
  ]) {
    const { status, text } = await post(body, session);
    t.strictSame([status, text], [202, undefined]);
  }
});

t.test('a batch is answered as one, in its order, where its revision has batches', async (t) => {
  const { post, begin } = mcpPlace();
  const session = { 'mcp-session-id': await begin('2025-03-26') };
  const batch = [
    requestOf('ping', {}, 'a'),
    { jsonrpc: '2.0', method: 'notifications/initialized' },
    7,
    initializeOf('2025-03-26', 'i'),
    requestOf('ping', {}, 2),
  ];
  const { status, json } = await post(batch, session);
  t.equal(status, 200);
  t.match(json, [
    { id: 'a', result: {} },
    { id: null, error: { code: -32_600 } },
    { id: 'i', error: { code: -32_600 } },
    { id: 2, result: {} },
  ]);
  t.equal((json as unknown[]).length, 4);
  t.equal((await post([{ jsonrpc: '2.0', method: 'notifications/initialized' }], session)).status, 202);
  t.match(await post([], session), { status: 400, json: { error: { code: -32_600 } } });
  t.match(await post(Array(101).fill(requestOf('ping')), session), { status: 400, json: { error: { code: -32_600 } } });
  for (const revision of STRUCTURED) {
    t.match(await post(batch, { 'mcp-session-id': await begin(revision) }), { status: 400, json: { error: { code: -32_600 } } });
  }
});

t.test('from 2026-07-28 on a request stands for itself', async (t) => {
  const { post, endpoint } = mcpPlace();
  const ask = async (method: string, params?: Readonly<Record<string, unknown>>) => {
    const { body, headers } = aloneOf(method, params);
    return post(body, headers);
  };
  const whole = { resultType: 'complete', _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'fixture', version: '1.2.3' } } };
  t.match(await ask('server/discover'), {
    status: 200,
    json: { result: { ...whole, supportedVersions: ['2026-07-28'], instructions: /real/, ttlMs: 300_000, cacheScope: 'public' } },
  });
  t.match((await ask('tools/list')).json, {
    result: { ...whole, cacheScope: 'public', tools: [{ name: 'list_things' }] },
  });
  t.match((await ask('resources/read', { uri: 'things://all' })).json, { result: { ...whole, ttlMs: 0, cacheScope: 'private' } });
  t.match((await ask('tools/call', { name: 'list_things' })).json, { result: { ...whole, structuredContent: { data: [{}] } } });
  t.match((await ask('tools/call', { name: 'fail_here' })).json, { result: { ...whole, isError: true } });
  for (const method of ['ping', 'initialize', 'logging/setLevel', 'subscriptions/listen', 'tasks/get', 'prompts/list']) {
    t.match(await ask(method), { status: 404, json: { error: { code: -32_601 } } }, method);
  }
  t.equal(endpoint.sessions.size, 0);
});

t.test('what a request says of itself agrees with its header fields, is whole, and is spoken here', async (t) => {
  const { post } = mcpPlace();
  const { body, headers } = aloneOf('tools/call', { name: 'list_things' });
  const without = (name: string) => Object.fromEntries(Object.entries(headers).filter(([key]) => key !== name));
  const meta = (more: object) => requestOf('tools/list', { _meta: more });
  const version = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' };
  const cases: readonly (readonly [body: object, headers: Record<string, string>, status: number, code: number])[] = [
    [body, without('mcp-protocol-version'), 400, -32_020],
    [body, without('mcp-method'), 400, -32_020],
    [body, without('mcp-name'), 400, -32_020],
    [body, { ...headers, 'mcp-protocol-version': '2025-11-25' }, 400, -32_020],
    [body, { ...headers, 'mcp-method': 'tools/list' }, 400, -32_020],
    [body, { ...headers, 'mcp-name': 'create_thing' }, 400, -32_020],
    [body, { ...headers, 'mcp-name': '=?base64?Y3JlYXRl?=' }, 400, -32_020],
    [body, { ...headers, 'mcp-name': '=?base64?bGlzdF90aGluZ3M=?=' }, 200, 0],
    [requestOf('tools/list'), { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/list' }, 400, -32_602],
    [meta({ 'io.modelcontextprotocol/protocolVersion': 7 }), {}, 400, -32_602],
    [meta(version), { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/list' }, 400, -32_602],
    [meta({ 'io.modelcontextprotocol/protocolVersion': '2099-01-01' }), { 'mcp-protocol-version': '2099-01-01' }, 400, -32_022],
    [requestOf('tools/list'), { 'mcp-protocol-version': '2099-01-01' }, 400, -32_022],
  ];
  for (const [sent, fields, status, code] of cases) {
    const answer = await post(sent, fields);
    const { error } = answer.json as { error?: { code: number } };
    t.strictSame([answer.status, error?.code ?? 0], [status, code], `${JSON.stringify(sent)} ${JSON.stringify(fields)}`);
  }
  const unknown = { 'mcp-protocol-version': '2099-01-01' };
  const { json } = await post(meta({ 'io.modelcontextprotocol/protocolVersion': '2099-01-01' }), unknown);
  t.strictSame((json as { error: { data: unknown } }).error.data, { requested: '2099-01-01', supported: ['2026-07-28'] });
  const all = ['2026-07-28', '2025-11-25', '2025-06-18', '2025-03-26'];
  t.match((await post(requestOf('tools/list'), unknown)).json, { error: { data: { requested: '2099-01-01', supported: all } } });
  t.equal((await post({ jsonrpc: '2.0', method: 'notifications/x' }, { 'mcp-protocol-version': '2026-07-28' })).status, 202);
});

t.test('the forms of body and answer are judged before anything is read', async (t) => {
  const { post, tools } = mcpPlace();
  const status = async (headers: Record<string, string>) => (await post(initializeOf('2025-11-25'), headers)).status;
  t.equal(await status({ 'content-type': 'text/plain' }), 415);
  t.equal(await status({ 'content-type': '' }), 415);
  t.equal(await status({ 'content-type': 'application/json; charset=utf-8' }), 200);
  t.equal(await status({ accept: 'text/event-stream' }), 406);
  t.equal(await status({ accept: 'text/html, application/json;q=0.9' }), 200);
  t.equal(await status({ accept: '*/*' }), 200);
  t.strictSame(tools.calls, []);
});
