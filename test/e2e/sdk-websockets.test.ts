// OpenAI's own WebSocket clients against the independent mock, by CONNECT and by base URL, and curl as the judge of the
// handshake.
import OpenAI from 'openai';
import { OpenAIRealtimeWS } from 'openai/realtime/ws';
import { ResponsesWS } from 'openai/resources/responses/ws';
import t from 'tap';
import { createLogger } from '../../src/base/lib/log.ts';
import { MOCK_TEXT, MOCK_USAGE, startAimock } from '../support/aimock.ts';
import { eventually, launch } from '../support/child.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { ALLOW_ALL, bundleOf } from '../support/governed.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';
import { connectThrough } from '../support/raw-clients.ts';
import type { HasTeardown } from '../support/temp-dir.ts';
import { towardsMock } from '../support/upstreams.ts';

const KEY = 'sk-real';

interface Scene {
  readonly gw: TestGateway;
  readonly records: () => Promise<readonly Record<string, unknown>[]>;
}

async function scene(t: HasTeardown, bundle = ALLOW_ALL): Promise<Scene> {
  const mock = await startAimock({ apiKey: KEY });
  t.teardown(() => mock.close());
  const lines: string[] = [];
  const log = createLogger({ level: 'info', format: 'json', destination: { write: (line: string) => void lines.push(line) } });
  const gw = await startTestGateway(t, { bundle, log, env: towardsMock(t, mock) });
  const ids = (): string[] => lines.flatMap((line) => /"record_id":"([^"]+)"/.exec(line)?.[1] ?? []);
  return { gw, records: () => Promise.all(ids().map((id) => gw.record(id))) };
}

/** What the SDK's event emitter is used for here. */
interface Emitter {
  on(event: string, listener: (value: unknown) => void): unknown;
}

function next(emitter: Emitter, event: string): Promise<Record<string, unknown>> {
  return new Promise((resolve) => emitter.on(event, (value) => resolve(value as Record<string, unknown>)));
}

const METERED = { decision: 'allow', model: 'gpt-4o-mini', metering: { tokens_in: MOCK_USAGE.tokensIn, tokens_out: MOCK_USAGE.tokensOut } };

t.test('ResponsesWS by base URL and by CONNECT', async (t) => {
  const { gw, records } = await scene(t);
  const clients = [
    () => new ResponsesWS(new OpenAI({ apiKey: KEY, baseURL: `${gw.url}/proxy/openai/v1` })),
    async () => new ResponsesWS(new OpenAI({ apiKey: KEY, baseURL: 'http://api.openai.com/v1' }), await tunnelled(gw)),
  ];
  for (const connect of clients) {
    const client = await connect();
    const completed = next(client, 'response.completed');
    client.send({ type: 'response.create', model: 'gpt-4o-mini', input: 'hello' });
    t.match(JSON.stringify(await completed), new RegExp(MOCK_TEXT));
    client.close();
  }
  t.match(await records(), [
    { record_tier: 'connection', connection_type: 'sdk_redirect' },
    { ...METERED, connection_type: 'sdk_redirect' },
    { record_tier: 'connection', connection_type: 'connect_proxy' },
    { ...METERED, connection_type: 'connect_proxy' },
  ]);
  t.equal((await records()).length, 4, 'each of them once');
});

t.test('OpenAIRealtimeWS by CONNECT, and what policy refuses', async (t) => {
  const bundle = bundleOf(
    '  targets:\n    - {id: all, effect: {decision: allow}}\n    - {id: few, when: {field: action.params.max_output_tokens, equals: 7}, effect: {decision: deny, reason: "not seven"}}\n',
  );
  const { gw, records } = await scene(t, bundle);
  const client = new OpenAIRealtimeWS(
    { model: 'gpt-4o-mini', options: await tunnelled(gw) },
    new OpenAI({ apiKey: KEY, baseURL: 'https://api.openai.com/v1' }),
  );
  await next(client, 'session.created');
  client.send({
    type: 'conversation.item.create',
    item: { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'hello' }] },
  });
  const done = next(client, 'response.done');
  client.send({ type: 'response.create' });
  t.match(await done, { response: { status: 'completed' } });
  const failed = next(client, 'error');
  client.send({ type: 'response.create', response: { max_output_tokens: 7 } });
  t.match(await failed, { message: /not seven/ });
  client.close();
  t.match(await records(), [{ record_tier: 'connection' }, { decision: 'allow', model: 'gpt-4o-mini' }, { decision: 'deny' }]);
  t.equal((await records()).length, 3, 'each of them once');
});

t.test('a key that the provider does not take is its refusal, passed on', async (t) => {
  const { gw, records } = await scene(t);
  const client = new ResponsesWS(new OpenAI({ apiKey: 'sk-wrong', baseURL: `${gw.url}/proxy/openai/v1` }));
  t.match(await next(client, 'error'), { message: /401/ });
  client.close();
  t.match((await records())[0], { upstream_status: 401 });
});

t.test('curl sees 101 by proxy, and 426 where nothing can be metered', { skip: skipWithout(['curl']) }, async (t) => {
  const { gw } = await scene(t);
  const ask = async (path: string): Promise<string> => {
    const upgrade = [
      'Connection: Upgrade',
      'Upgrade: websocket',
      'Sec-WebSocket-Version: 13',
      'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
    ];
    const headers = [...upgrade, `Authorization: Bearer ${KEY}`].flatMap((header) => ['--header', header]);
    const through = ['--http1.1', '--no-buffer', '--suppress-connect-headers', '--proxy', gw.url, '--cacert', gw.caFile];
    const child = launch(t, requirePeer('curl'), ['--silent', '--include', ...through, ...headers, `https://api.openai.com${path}`]);
    // It would stay on a connection that has changed its protocol.
    const head = await eventually('the head of the answer', () => /^.*?\r\n\r\n/s.exec(child.stdout)?.[0]);
    child.kill('SIGTERM');
    return head;
  };
  const accepted = await ask('/v1/realtime?model=gpt-4o-mini');
  t.match(accepted, /^HTTP\/1\.1 101 .*sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=/is);
  t.match(accepted, /x-gw-record-id: /i);
  t.match(await ask('/v1/live/sessions'), /^HTTP\/1\.1 426 .*upgrade: /is);
});

/** Options with which `ws` takes a connection that stands: what a proxy agent does. */
async function tunnelled(gw: TestGateway): Promise<{ createConnection: () => never }> {
  const connection = await connectThrough(gw.port, 'api.openai.com:443', gw.caPem);
  return { createConnection: () => connection as never };
}
