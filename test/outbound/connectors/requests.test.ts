import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import Anthropic from '@anthropic-ai/sdk';
import { GoogleGenAI } from '@google/genai';
import { Mistral } from '@mistralai/mistralai';
import { CohereClientV2 } from 'cohere-ai';
import OpenAI from 'openai';
import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import type { ErrorShape } from '../../../src/base/catalogue/types.ts';
import {
  authHeaderNames,
  clientKey,
  directHeaders,
  injectAuth,
  withoutAuth,
  withoutAuthQuery,
} from '../../../src/outbound/connectors/auth.ts';
import { refusalBody } from '../../../src/outbound/connectors/provider-error.ts';

const catalogue = loadCatalogue();

t.test("each provider's own SDK shows the reason of a refusal", async (t) => {
  let shape: ErrorShape = 'openai';
  const server = createServer((request, response) => {
    request.resume();
    const text = { status: 403, type: 'policy_denied', message: 'denied by rule no-gpt4: use another model' };
    response.writeHead(403, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ decision: 'deny', reason_codes: ['x'], ...refusalBody(shape, text) }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const messages = [{ role: 'user' as const, content: 'hello' }];
  const calls: readonly [ErrorShape, () => Promise<unknown>][] = [
    ['openai', () => new OpenAI({ apiKey: 'k', baseURL: `${url}/v1` }).chat.completions.create({ model: 'gpt-4', messages })],
    ['anthropic', () => new Anthropic({ apiKey: 'k', baseURL: url }).messages.create({ model: 'claude', max_tokens: 1, messages })],
    [
      'google',
      () => new GoogleGenAI({ apiKey: 'k', httpOptions: { baseUrl: url } }).models.generateContent({ model: 'gemini', contents: 'hello' }),
    ],
    ['mistral', () => new Mistral({ apiKey: 'k', serverURL: url }).chat.complete({ model: 'm', messages })],
    ['cohere', () => new CohereClientV2({ token: 'k', environment: url }).chat({ model: 'c', messages })],
  ];
  for (const [wanted, call] of calls) {
    shape = wanted;
    await t.rejects(call(), { message: /no-gpt4: use another model/ }, wanted);
  }
});

t.test('every refusal has an error object with a message', async (t) => {
  const text = { status: 418, type: 'a', message: 'b' };
  for (const shape of ['openai', 'anthropic', 'google', 'mistral', 'cohere', 'aws', 'replicate', undefined] as const) {
    t.match(refusalBody(shape, text), { error: { message: 'b' } }, String(shape));
  }
});

t.test('the SDKs of AWS throw the exception that the status stands for', async (t) => {
  const table: readonly [number, string][] = [
    [400, 'ValidationException'],
    [403, 'AccessDeniedException'],
    [418, 'AccessDeniedException'],
    [429, 'ThrottlingException'],
    [502, 'InternalServerException'],
    [503, 'ServiceUnavailableException'],
  ];
  for (const [status, name] of table) {
    t.match(refusalBody('aws', { status, type: 'a', message: 'b' }), { __type: name, message: 'b' }, String(status));
  }
});

t.test('a key goes into the header that the provider and the wire format want', async (t) => {
  const table: readonly [string, string | undefined, readonly string[]][] = [
    ['openai', undefined, ['authorization', 'Bearer k$&1']],
    ['anthropic', 'anthropic_messages', ['x-api-key', 'k$&1']],
    ['anthropic', 'openai_chat', ['authorization', 'Bearer k$&1']],
    ['gemini', 'gemini_generate', ['x-goog-api-key', 'k$&1']],
    ['gemini', 'openai_chat', ['authorization', 'Bearer k$&1']],
    ['azure_openai', 'azure_chat', ['api-key', 'k$&1']],
    ['azure_openai', 'anthropic_messages', ['x-api-key', 'k$&1']],
    ['cohere', 'cohere_chat', ['authorization', 'Bearer k$&1']],
    ['bedrock', 'bedrock_converse', ['authorization', 'Bearer k$&1']],
    ['vertex', 'gemini_generate', ['x-goog-api-key', 'k$&1']],
    ['vertex', 'openai_chat', ['authorization', 'Bearer k$&1']],
    ['elevenlabs', 'elevenlabs_speech', ['xi-api-key', 'k$&1']],
  ];
  for (const [id, dialect, want] of table) {
    t.strictSame(
      injectAuth(catalogue.provider(id), 'k$&1', dialect === undefined ? undefined : catalogue.dialect(dialect)),
      want,
      `${id} ${dialect}`,
    );
  }
  t.strictSame(injectAuth(undefined, 'k'), []);
  for (const key of ['', ' k', 'k\r\nx: y', 'k\u0000', 'schlüssel'])
    t.throws(() => injectAuth(catalogue.provider('openai'), key), { code: 'invalid_request' });
});

t.test("the client's own key is seen in every header and query that takes one", async (t) => {
  const openai = catalogue.provider('openai');
  const gemini = catalogue.provider('gemini');
  t.equal(clientKey(openai, { authorization: 'Bearer sk-1' }), true);
  t.equal(clientKey(openai, { authorization: 'Bearer ' }), false);
  t.equal(clientKey(openai, { authorization: '' }), false);
  t.equal(clientKey(openai, {}), false);
  t.equal(
    clientKey(openai, { 'sec-websocket-protocol': 'realtime, openai-insecure-api-key.sk-1' }),
    true,
    'a browser can send it nowhere else',
  );
  t.equal(clientKey(openai, { 'sec-websocket-protocol': 'realtime' }), false);
  for (const own of ['gwk_1', 'gwt_1']) {
    t.equal(clientKey(openai, { authorization: `Bearer ${own}` }), false, 'what lets somebody in here is none of the provider');
    t.equal(clientKey(openai, { 'sec-websocket-protocol': `realtime, openai-insecure-api-key.${own}` }), false);
  }
  t.equal(clientKey(catalogue.provider('anthropic'), { 'x-api-key': 'k' }), true);
  t.equal(clientKey(catalogue.provider('anthropic'), { authorization: 'Bearer t' }), true);
  t.equal(clientKey(gemini, {}, '/v1beta/models/m:generateContent?key=abc'), true);
  t.equal(clientKey(gemini, {}, '/v1beta/models/m:generateContent?key='), false);
  t.equal(clientKey(openai, {}, '/v1/models?key=abc'), false);
  t.ok(authHeaderNames(openai).has('x-api-key'), 'foreign key headers are stripped too');
  t.equal(withoutAuthQuery(gemini, '/p?alt=sse&key=abc&x=%20'), '/p?alt=sse&x=%20');
  t.equal(withoutAuthQuery(gemini, '/p?%6bey=abc'), '/p');
  t.equal(withoutAuthQuery(gemini, '/p?%zz&a=b'), '/p?%zz&a=b');
  t.equal(withoutAuthQuery(openai, '/p?key=abc'), '/p?key=abc');
});

t.test('nothing that carries a key stays beside a stored one', async (t) => {
  const openai = catalogue.provider('openai');
  const gemini = catalogue.provider('gemini');
  const offered = ['Sec-WebSocket-Protocol', 'realtime, openai-insecure-api-key.sk-browser, openai-beta.realtime-v1'];
  t.strictSame(withoutAuth(openai, ['Authorization', 'Bearer x', 'X-Api-Key', 'y', 'Accept', '*/*', ...offered]), [
    'Accept',
    '*/*',
    'Sec-WebSocket-Protocol',
    'realtime, openai-beta.realtime-v1',
  ]);
  t.strictSame(withoutAuth(openai, ['sec-websocket-protocol', 'openai-insecure-api-key.sk']), []);
  t.strictSame(withoutAuth(gemini, offered), offered, 'only where the provider takes keys there');
});

t.test('a structured call gets the headers that its format cannot do without, unless the caller set them', async (t) => {
  const type = ['content-type', 'application/json'];
  const version = ['anthropic-version', '2023-06-01'];
  const headers = (id: string, dialect: string | undefined, hasBody: boolean, set: readonly string[], key?: string): readonly string[] =>
    directHeaders({
      provider: catalogue.provider(id),
      dialect: dialect === undefined ? undefined : catalogue.dialect(dialect),
      hasBody,
      idempotencyKey: key,
      callerSet: (name) => set.includes(name),
    });
  t.strictSame(headers('anthropic', 'anthropic_messages', true, []), [...type, ...version]);
  t.strictSame(headers('anthropic', 'anthropic_messages', true, ['anthropic-version', 'content-type']), []);
  t.strictSame(headers('anthropic', undefined, false, []), version);
  t.strictSame(headers('azure_openai', 'anthropic_messages', true, []), [...type, ...version]);
  t.strictSame(headers('azure_openai', 'openai_chat', true, []), type);
  t.strictSame(headers('nobody', undefined, false, [], 'k-1'), []);
  t.strictSame(headers('openai', undefined, false, [], 'k-1'), ['Idempotency-Key', 'k-1']);
  t.strictSame(headers('openai', undefined, false, ['idempotency-key'], 'k-1'), []);
  t.strictSame(headers('anthropic', undefined, false, [], 'k-1'), version, 'only to providers that know it');
});
