import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import { jsonMember, removeJsonMember, setJsonMember } from '../../../src/base/json/json-edit.ts';
import { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import { applyMutations, type Mutated } from '../../../src/inbound/normalise/apply-mutations.ts';
import { readAiBody } from '../../../src/inbound/normalise/body.ts';
import { pathOnly } from '../../../src/inbound/normalise/path.ts';
import { fc } from '../../support/properties.ts';

const catalogue = loadCatalogue();
const isAiHost = (host: string) => catalogue.providerForHost(host) !== undefined;

interface Setup {
  readonly provider?: string;
  readonly path?: string;
  readonly contentType?: string;
  readonly headers?: readonly string[];
}

const GEMINI: Setup = { provider: 'gemini', path: '/v1beta/models/gemini-2.5-flash:generateContent' };

function mutate(body: string, mutations: Readonly<Record<string, unknown>>, setup: Setup = {}): Mutated {
  const provider = catalogue.provider(setup.provider ?? 'openai');
  if (provider === undefined) throw new Error('no such provider');
  const path = setup.path ?? '/v1/chat/completions';
  const operationFor = (method: string, _host: string, at: string) => catalogue.operation(provider, method, pathOnly(at));
  const contentType = setup.contentType;
  const parsed = readAiBody({
    operation: operationFor('POST', '', path),
    contentType,
    bytes: new TextEncoder().encode(body),
    path,
  });
  const headers = [...(setup.headers ?? []), ...(contentType === undefined ? [] : ['Content-Type', contentType])];
  const request = { body: parsed, method: 'POST', host: 'api.openai.com', path, headers };
  return applyMutations(
    request,
    Object.entries(mutations).map(([key, value]) => ({ key, value })),
    { isAiHost, operationFor },
  );
}

const textOf = (result: Mutated) => new TextDecoder().decode(result.body?.bytes);

function refusal(call: () => unknown): string {
  try {
    call();
    return 'none';
  } catch (error) {
    if (error instanceof GatewayError) return error.code;
    throw error;
  }
}

// Holds: bodies-stay-as-they-are
t.test('only the member that changes is touched, every other byte survives', async (t) => {
  const body = '{ "model" : "gpt-4o" ,\n "seed":9007199254740993, "t":0.10000000000000000001,"s":"\\u00e9\\/", "n":1.0e0 }';
  const result = mutate(body, { 'action.params.model': 'gpt-4o-mini' });
  t.equal(textOf(result), body.replace('"gpt-4o"', '"gpt-4o-mini"'));
  t.equal(result.body?.model, 'gpt-4o-mini');
  t.strictSame(result.changed, [{ key: 'action.params.model', from: 'gpt-4o', to: 'gpt-4o-mini' }]);
});

t.test('a mutation that changes nothing leaves the very same request', async (t) => {
  const body = '{"model":"m","o":{"a":1,"b":[2]}}';
  const result = mutate(
    body,
    {
      'action.params.model': 'm',
      'action.params.o': { b: [2], a: 1 },
      'action.method': 'post',
      'action.target_host': 'API.openai.com',
      'action.target_path': '/v1/%63hat/completions',
      'action.headers.x-a': '1',
    },
    { headers: ['X-A', '1'] },
  );
  t.strictSame(result.changed, []);
  t.equal(textOf(result), body);
  t.same(result.headers, ['X-A', '1']);
});

t.test('members are added, and objects on the way are made', async (t) => {
  const table: readonly (readonly [string, Record<string, unknown>, string])[] = [
    ['{}', { 'action.params.max_tokens': 5 }, '{"max_tokens":5}'],
    ['{"a":1 }', { 'action.params.max_tokens': 5 }, '{"a":1,"max_tokens":5 }'],
    ['{"a":{}}', { 'action.params.a.b.c': 'x' }, '{"a":{"b":{"c":"x"}}}'],
    ['{"a":null}', { 'action.params.a.b': true }, '{"a":{"b":true}}'],
    ['{"a":[{"b":1},{"b":2}]}', { 'action.params.a.1.b': 3 }, '{"a":[{"b":1},{"b":3}]}'],
    ['{"a":{"b":1,"b":2}}', { 'action.params.a.b': 3 }, '{"a":{"b":3,"b":3}}'],
    ['{"\\u0061":1}', { 'action.params.a': 2 }, '{"\\u0061":2}'],
    ['{"a":1}', { 'action.params.a': 2, 'action.params.c': null }, '{"a":2,"c":null}'],
    ['{"a":"}\\"{"}', { 'action.params.b': '"' }, '{"a":"}\\"{","b":"\\""}'],
  ];
  for (const [body, mutations, expected] of table) t.equal(textOf(mutate(body, mutations)), expected, body);
});

t.test('an empty body becomes JSON and says so', async (t) => {
  const result = mutate('', { 'action.params.model': 'm' });
  t.equal(textOf(result), '{"model":"m"}');
  t.same(result.headers, ['Content-Type', 'application/json']);
});

t.test('model and stream are rewritten where the dialect keeps them', async (t) => {
  const gemini = { provider: 'gemini', path: '/v1beta/models/big:generateContent?key=k' };
  const small = mutate('{"contents":[]}', { 'action.params.model': 'small' }, gemini);
  t.equal(small.path, '/v1beta/models/small:generateContent?key=k');
  t.equal(textOf(small), '{"contents":[]}');
  t.equal(small.body?.params['model'], 'small');
  const prefixed = mutate(
    '{"model":"models/big"}',
    { 'action.params.model': 'small' },
    { ...gemini, path: '/v1beta/models/big:embedContent' },
  );
  t.equal(textOf(prefixed), '{"model":"models/small"}');
  const streaming = mutate('{}', { 'action.params.stream': true }, gemini);
  t.equal(streaming.path, '/v1beta/models/big:streamGenerateContent?key=k&alt=sse');
  t.equal(streaming.body?.stream, true);
  t.equal(textOf(streaming), '{}');
  const quiet = mutate(
    '{}',
    { 'action.params.stream': false, 'action.params.model': 'small' },
    { provider: 'gemini', path: '/v1/models/big:streamGenerateContent?alt=sse' },
  );
  t.equal(quiet.path, '/v1/models/small:generateContent');
  t.equal(quiet.body?.stream, false);
  const azure = mutate(
    '{"model":"gpt-4","messages":[]}',
    { 'action.params.model': 'cheap' },
    { provider: 'azure_openai', path: '/openai/deployments/dear/chat/completions?api-version=1' },
  );
  t.equal(azure.path, '/openai/deployments/cheap/chat/completions?api-version=1');
  t.equal(textOf(azure), '{"model":"gpt-4","messages":[]}');
  t.equal(azure.body?.model, 'cheap');
  t.strictSame(azure.changed, [{ key: 'action.params.model', from: 'dear', to: 'cheap' }]);
  t.equal(textOf(mutate('{"model":"a"}', { 'action.params.stream': false })), '{"model":"a","stream":false}');
});

t.test('clouds keep model and stream in the path', async (t) => {
  const bedrock = { provider: 'bedrock', path: '/model/eu.anthropic.claude-x-v1%3A0/converse?a=1' };
  const moved = mutate('{"messages":[]}', { 'action.params.model': 'amazon.nova-lite-v1:0', 'action.params.stream': true }, bedrock);
  t.equal(moved.path, '/model/amazon.nova-lite-v1%3A0/converse-stream?a=1');
  t.equal(textOf(moved), '{"messages":[]}');
  t.match(moved.body, { model: 'amazon.nova-lite-v1:0', stream: true, operation: { dialect: { id: 'bedrock_converse' } } });
  t.strictSame(moved.changed, [
    { key: 'action.params.model', from: 'eu.anthropic.claude-x-v1:0', to: 'amazon.nova-lite-v1:0' },
    { key: 'action.params.stream', from: false, to: true },
  ]);
  const plain = { provider: 'bedrock', path: '/model/meta.llama3/invoke-with-response-stream' };
  t.equal(mutate('{"prompt":"x"}', { 'action.params.stream': false }, plain).path, '/model/meta.llama3/invoke');

  const at = (verb: string) => `/v1/projects/p/locations/l/publishers/${verb}`;
  const claude = { provider: 'vertex', path: at('anthropic/models/claude-opus@1:rawPredict') };
  const streaming = mutate('{"max_tokens":1}', { 'action.params.model': 'claude-haiku@2', 'action.params.stream': true }, claude);
  t.equal(streaming.path, at('anthropic/models/claude-haiku%402:streamRawPredict'), 'without a query that the verb does not take');
  t.equal(textOf(streaming), '{"max_tokens":1,"stream":true}', 'the body says it too');
  t.equal(streaming.body?.model, 'claude-haiku@2');
  const said = mutate('{"stream":true}', { 'action.params.stream': false }, claude);
  t.strictSame([said.path, textOf(said), said.body?.stream], [claude.path, '{"stream":false}', false], 'the body alone asks for a stream');

  const mistral = { provider: 'vertex', path: at('mistralai/models/mistral-large@2407:rawPredict') };
  const small = mutate('{"model":"mistral-large"}', { 'action.params.model': 'mistral-small@2503' }, mistral);
  t.equal(small.path, at('mistralai/models/mistral-small%402503:rawPredict'));
  t.equal(textOf(small), '{"model":"mistral-small"}', 'the version stands where it stood');
  t.equal(
    refusal(() => mutate('{"model":"mistral-small"}', { 'action.params.stream': true }, mistral)),
    'ambiguous_body',
  );
  const replicate = mutate(
    '{"input":{}}',
    { 'action.params.model': 'meta/small 1' },
    { provider: 'replicate', path: '/v1/models/meta/big/predictions' },
  );
  t.equal(replicate.path, '/v1/models/meta/small%201/predictions');
});

t.test('a stream that is the default is one until the body says otherwise', async (t) => {
  const ollama = { provider: 'ollama', path: '/api/chat' };
  t.equal(mutate('{"model":"m"}', { 'action.params.stream': true }, ollama).changed.length, 0);
  const quiet = mutate('{"model":"m"}', { 'action.params.stream': false }, ollama);
  t.equal(textOf(quiet), '{"model":"m","stream":false}');
  t.equal(quiet.body?.stream, false);
});

t.test('a field of a form is rewritten or added in its bytes', async (t) => {
  const audio = { path: '/v1/audio/transcriptions', contentType: 'multipart/form-data; boundary=XX' };
  const part = (name: string, value: string) => `--XX\r\nContent-Disposition: form-data; name=${name}\r\n\r\n${value}\r\n`;
  const body = `${part('"file"; filename="a"', '\u0000\r\n--X')}${part('"model"', 'whisper-1')}--XX--\r\n`;
  const result = mutate(body, { 'action.params.model': 'small', 'action.params.temperature': 0.5 }, audio);
  t.equal(
    textOf(result),
    `${part('"file"; filename="a"', '\u0000\r\n--X')}${part('"model"', 'small')}${part('"temperature"', '0.5')}--XX--\r\n`,
  );
  t.match(result.body, { model: 'small', params: { temperature: '0.5' } });
  t.equal(textOf(mutate('--XX--', { 'action.params.model': 'm' }, audio)), `${part('"model"', 'm')}--XX--`);
  t.strictSame(mutate(`${part('"temperature"', '0.5')}--XX--`, { 'action.params.temperature': 0.5 }, audio).changed, []);
  t.equal(
    refusal(() => mutate(body, { 'action.params.prompt': 'x\r\n--XX' }, audio)),
    'ambiguous_body',
  );
  t.equal(
    refusal(() => mutate(body, { 'action.params.a.b': 'x' }, audio)),
    'internal',
  );
  const url = { path: '/v1/audio/transcriptions', contentType: 'application/x-www-form-urlencoded' };
  t.equal(
    textOf(mutate('model=a&x&y=%20', { 'action.params.model': 'b&c', 'action.params.x': 'é', 'action.params.z': '1 2' }, url)),
    'model=b%26c&x=%C3%A9&y=%20&z=1+2',
  );
});

t.test('headers, host, path and method are replaced and canonical', async (t) => {
  const headers = ['X-Team', 'a', 'x-team', 'b', 'Accept', '*/*'];
  const result = mutate(
    '{"model":"m"}',
    {
      'action.headers.X-Team': 'c',
      'action.target_host': 'EU.api.openai.com.',
      'action.target_path': '/v1/%72esponses',
      'action.method': 'put',
    },
    { headers },
  );
  t.same(result.headers, ['Accept', '*/*', 'X-Team', 'c']);
  t.equal(result.host, 'eu.api.openai.com');
  t.equal(result.path, '/v1/responses');
  t.equal(result.method, 'PUT');
  t.same(
    result.changed.map(({ key, from, to }) => [key, from, to]),
    [
      ['action.headers.X-Team', 'a, b', 'c'],
      ['action.target_host', 'api.openai.com', 'eu.api.openai.com'],
      ['action.target_path', '/v1/chat/completions', '/v1/responses'],
      ['action.method', 'POST', 'PUT'],
    ],
  );
});

t.test('a new path is read as what it then means', async (t) => {
  const result = mutate(
    '{"contents":[]}',
    { 'action.target_path': '/v1beta/models/other:streamGenerateContent' },
    { provider: 'gemini', path: '/v1beta/models/big:generateContent' },
  );
  t.match(result.body, { model: 'other', stream: true, params: { model: 'other', stream: true } });
});

t.test('a mutation that does not fit stops the request', async (t) => {
  const table: readonly (readonly [string, string, unknown])[] = [
    ['internal', 'action.type', 'x'],
    ['internal', 'context.purpose', 'x'],
    ['internal', 'action.params.model', 5],
    ['internal', 'action.params.stream', 'yes'],
    ['internal', 'action.params.model.x', 'y'],
    ['internal', 'action.params.messages.7', 'y'],
    ['internal', 'action.headers.Host', 'x'],
    ['internal', 'action.headers.X-GW-Org-ID', 'x'],
    ['internal', 'action.headers.a', 'x\r\ny'],
    ['internal', 'action.headers.a b', 'x'],
    ['internal', 'action.method', 'TRACE'],
    ['invalid_target', 'action.target_host', 'https://x'],
    ['invalid_target', 'action.target_path', '/../x'],
    ['ambiguous_body', 'action.params.MODEL', 'x'],
  ];
  for (const [code, key, value] of table)
    t.equal(
      refusal(() => mutate('{"model":"m","messages":[]}', { [key]: value })),
      code,
      key,
    );
});

t.test('a mutation of the output maximum leaves no other maximum, in whatever spelling', async (t) => {
  const table: readonly (readonly [Setup, string, string, unknown, string])[] = [
    [{}, '{"max_completion_tokens":60000}', 'max_tokens', 5, '{"max_completion_tokens":5}'],
    [{}, '{"max_tokens":1,"max_completion_tokens":60000}', 'max_tokens', 5, '{"max_tokens":5,"max_completion_tokens":5}'],
    [{}, '{}', 'max_tokens', 5, '{"max_tokens":5}'],
    [
      GEMINI,
      '{"generation_config":{"max_output_tokens":9}}',
      'generationConfig.maxOutputTokens',
      5,
      '{"generation_config":{"max_output_tokens":5}}',
    ],
    [
      GEMINI,
      '{"generationConfig":{"max_output_tokens":9}}',
      'generation_config.max_output_tokens',
      5,
      '{"generationConfig":{"max_output_tokens":5}}',
    ],
    [GEMINI, '{"generation_config":{"topK":1}}', 'generationConfig.top_k', 2, '{"generation_config":{"topK":2}}'],
    [GEMINI, '{"generation_config":{}}', 'generationConfig.topK', 2, '{"generation_config":{"topK":2}}'],
  ];
  for (const [setup, body, key, value, expected] of table)
    t.equal(textOf(mutate(body, { [`action.params.${key}`]: value }, setup)), expected, `${key} of ${body}`);
  const both = mutate(
    '{"generation_config":{"max_output_tokens":9}}',
    { 'action.params.generationConfig.maxOutputTokens': 5, 'action.params.generation_config.max_output_tokens': 7 },
    GEMINI,
  );
  t.equal(textOf(both), '{"generation_config":{"max_output_tokens":5}}', 'what was written first stands, in whatever spelling');
});

t.test('a deployment in another case is the same model, and is not written again', async (t) => {
  const azure = { provider: 'azure_openai', path: '/openai/deployments/Small/chat/completions' };
  t.strictSame(mutate('{}', { 'action.params.model': 'SMALL' }, azure).changed, []);
  const moved = mutate('{}', { 'action.params.model': 'Tiny' }, azure);
  t.strictSame([moved.path, moved.body?.model], ['/openai/deployments/Tiny/chat/completions', 'tiny']);
});

t.test('a model that would leave its path segment, or that has no place, stops the request', async (t) => {
  const azure = { provider: 'azure_openai', path: '/openai/deployments/dear/chat/completions' };
  t.equal(
    refusal(() => mutate('{}', { 'action.params.model': '..' }, azure)),
    'invalid_target',
  );
  t.equal(mutate('{}', { 'action.params.model': 'a/b?c' }, azure).body?.model, 'a/b?c');
  t.equal(
    refusal(() => mutate('{}', { 'action.params.model': 'x', 'action.target_path': '/openai/deployments/y/chat/completions' }, azure)),
    'internal',
  );
});

t.test('what policy does not parse cannot have its params changed, and that is said', async (t) => {
  const request = { body: undefined, method: 'POST', host: 'x.test', path: '/', headers: [] };
  const result = applyMutations(
    request,
    [
      { key: 'action.params.model', value: 'm' },
      { key: 'action.method', value: 'PUT' },
    ],
    { isAiHost },
  );
  t.same(result.unapplied, ['action.params.model']);
  t.same(result.changed, [{ key: 'action.method', from: 'POST', to: 'PUT' }]);
});

t.test('editing the text is editing the value', async (t) => {
  const name = fc.constantFrom('a', 'b', 'c', 'model', '__proto__x', 'é"\\');
  const object = fc.dictionary(name, fc.jsonValue({ maxDepth: 2 }), { maxKeys: 5 });
  const space = fc.constantFrom(0, 1, '\t');
  const setting = fc.property(object, name, fc.jsonValue({ maxDepth: 2 }), space, (value, key, replacement, indent) => {
    const text = setJsonMember(JSON.stringify(value, null, indent), [key], replacement) ?? '';
    const expected = JSON.parse(JSON.stringify({ ...value, [key]: replacement }));
    return (
      JSON.stringify(JSON.parse(text)) === JSON.stringify(expected) &&
      JSON.stringify(jsonMember(text, key)) === JSON.stringify(expected[key])
    );
  });
  t.doesNotThrow(() => fc.assert(setting, { numRuns: 1000 }));
  const removing = fc.property(object, name, space, (value, key, indent) => {
    const { [key]: _, ...rest } = value;
    return JSON.stringify(JSON.parse(removeJsonMember(JSON.stringify(value, null, indent), key))) === JSON.stringify(rest);
  });
  t.doesNotThrow(() => fc.assert(removing, { numRuns: 1000 }));
});

t.test('what a mutation sets is what the mutated body is read as', async (t) => {
  const params = fc.record(
    { model: fc.string().filter((text) => text.trim() === text), temperature: fc.integer(), note: fc.string() },
    { requiredKeys: [] },
  );
  const value = fc.oneof(fc.string({ minLength: 1 }), fc.integer(), fc.constant(null), fc.array(fc.boolean()));
  const name = fc.string({ minLength: 1 }).filter((text) => text.trim() === text);
  const property = fc.property(params, name, value, (body, model, note) => {
    const result = mutate(JSON.stringify(body), { 'action.params.model': model, 'action.params.note': note });
    const expected = { ...body, model, note };
    return (
      result.body?.model === model &&
      JSON.stringify(Object.entries({ ...result.body.params }).sort()) === JSON.stringify(Object.entries(expected).sort())
    );
  });
  t.doesNotThrow(() => fc.assert(property, { numRuns: 500 }));
});
