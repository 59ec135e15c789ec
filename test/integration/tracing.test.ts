// Traces: what is told of a call, to whom, and what a receiver that is slow, broken or gone costs (decision 12.7).
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { JsonTraceSerializer, ProtobufTraceSerializer } from '@opentelemetry/otlp-transformer';
import * as conventions from '@opentelemetry/semantic-conventions/incubating';
import t from 'tap';
import { createLogger } from '../../src/base/lib/log.ts';
import { OPERATION_NAMES, PROVIDER_NAMES } from '../../src/outbound/destinations/gen-ai-conventions.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { bundleOf, CHAT, chat, startGoverned } from '../support/governed.ts';
import { RESPONSES, scene } from '../support/metered-sockets.ts';
import type { UpstreamHandler } from '../support/tls-upstream.ts';
import { type SentSpan, spansIn, startTraced } from '../support/traced.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN = '00f067aa0ba902b7';
const PARENT = `00-${TRACE}-${SPAN}-01`;
const SERVER = 2;
const CLIENT = 3;
const RULES = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
    - {id: no, when: {field: context.action.params.user, equals: mallory}, effect: {decision: deny, reason: not you, reason_codes: [not_you]}}
`);

const provider: UpstreamHandler = (request, response, body) =>
  void body.then((bytes) => {
    if (request.url?.includes('broken')) response.destroy();
    else if (request.url?.includes('late')) response.writeHead(529).end('{}');
    else if (bytes.toString().includes('"stream":true')) {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: {"model":"gpt-4o-mini-2024-07-18","choices":[{"delta":{"content":"my-completion"}}]}\n\n');
      response.end('data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7}}\n\ndata: [DONE]\n\n');
    } else {
      const usage = { prompt_tokens: 11, completion_tokens: 7, prompt_tokens_details: { cached_tokens: 3 } };
      response
        .setHeader('content-type', 'application/json')
        .end(JSON.stringify({ id: 'x', model: 'gpt-4o-mini-2024-07-18', choices: [{ message: { content: 'my-completion' } }], usage }));
    }
  });

const pair = (spans: readonly SentSpan[]) =>
  [spans.find(({ kind }) => kind === SERVER), spans.find(({ kind }) => kind === CLIENT)] as const;

t.test('a call is two spans in the trace of its caller, and the provider is told of the second', async (t) => {
  const { governed, receiver, flushed } = await startTraced(t, { handler: provider, bundle: RULES, env: { GW_NODE_ID: 'node-1' } });
  const answer = await governed.through(
    'api.openai.com:443',
    chat(['traceparent', PARENT, 'tracestate', 'a=1'], '/v1/chat/completions?key=secret'),
  );
  const record = await governed.recordOf(answer);
  t.equal(record['trace_id'], TRACE);
  const [server, client] = pair(await flushed());
  t.match(server, {
    traceId: TRACE,
    parentSpanId: SPAN,
    traceState: 'a=1',
    flags: 0x301,
    name: 'POST',
    status: {},
    attributes: {
      'http.request.method': 'POST',
      'url.scheme': 'https',
      'url.path': '/v1/chat/completions',
      'server.address': 'api.openai.com',
      'client.address': '127.0.0.1',
      'network.protocol.version': '1.1',
      'http.response.status_code': 200,
      'gw.record_id': record['record_id'],
      'gw.request_id': record['request_id'],
      'gw.node_id': 'node-1',
      'gw.org_id': 'default',
      'gw.workload_id': 'default',
      'gw.decision': 'allow',
      'gw.connection_type': 'connect_proxy',
      'gw.traffic_class': 'developer',
      'gw.action_type': 'ai.infer',
      'gw.policy.bundle_id': 'test',
      'gw.policy.version': '7',
      'gw.policy.rule_ids': ['all'],
      'gw.cost_usd': (record['metering'] as { cost_usd: string }).cost_usd,
    },
  });
  t.match(client, {
    traceId: TRACE,
    parentSpanId: server?.spanId,
    flags: 0x101,
    name: 'chat gpt-4o-mini',
    status: {},
    attributes: {
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'openai',
      'gen_ai.request.model': 'gpt-4o-mini',
      'gen_ai.response.model': 'gpt-4o-mini-2024-07-18',
      'gen_ai.usage.input_tokens': 11,
      'gen_ai.usage.output_tokens': 7,
      'gen_ai.usage.cache_read.input_tokens': 3,
      'server.address': 'api.openai.com',
      'server.port': 443,
      'url.full': 'https://api.openai.com/v1/chat/completions',
      'http.response.status_code': 200,
    },
  });
  const sent = governed.upstream.requests.find(({ headers }) => headers['host'] === 'api.openai.com');
  t.match(sent?.headers, { traceparent: `00-${TRACE}-${client?.spanId}-01`, tracestate: 'a=1' });
  const times = [server?.startTimeUnixNano, client?.startTimeUnixNano, client?.endTimeUnixNano, server?.endTimeUnixNano].map((time) =>
    BigInt(time ?? 0),
  );
  t.same(
    times,
    [...times].sort((a, b) => Number(a - b)),
    'the one lies inside of the other',
  );
  t.notMatch(receiver.posts.map(({ text }) => text).join(), /hello|my-completion|sk-client|secret/);
  const [post] = receiver.posts;
  t.match(post, { path: '/v1/traces', headers: { 'content-type': 'application/json' } });
  t.match(JSON.parse(post?.text ?? ''), {
    resourceSpans: [
      {
        resource: {
          attributes: [
            { key: 'service.version' },
            { key: 'service.instance.id', value: { stringValue: 'node-1' } },
            { key: 'service.name' },
          ],
        },
      },
    ],
  });
});

t.test('every end of a call is told: denied, failed, refused without a record, a stream, each door', async (t) => {
  const { governed, flushed } = await startTraced(t, { handler: provider, bundle: RULES });
  const { send, through, execute } = governed;
  const ends: Record<string, SentSpan[]> = {};
  const ids: Record<string, string> = {};
  const call = async (name: string, make: (headers: string[]) => Promise<unknown>) => {
    const id = String(Object.keys(ids).length + 1).padStart(32, 'a');
    ids[name] = id;
    await make(['traceparent', `00-${id}-${SPAN}-01`]);
  };
  await call('denied', (h) => send(chat(h, undefined, { ...CHAT, user: 'mallory' })));
  await call('broken', (h) => send(chat(h, '/proxy/openai/v1/chat/completions?x=broken')));
  await call('late', (h) => send(chat(h, '/proxy/openai/v1/chat/completions?x=late')));
  await call('refused', (h) => send(chat([...h, 'X-GW-Org-ID', 'not valid'])));
  await call('stream', (h) => through('api.openai.com:443', chat(h, '/v1/chat/completions', { ...CHAT, stream: true })));
  await call('direct', ([, traceparent = '']) => execute({}, {}, { traceparent }));
  await call('embed', (h) => send(chat(h, '/proxy/openai/v1/embeddings', { model: 'text-embedding-3-small', input: 'x' })));
  await call('plain', (h) => through('api.openai.com:443', { path: '/v1/models', headers: h }));
  const replay = async (h: string[]) => execute({ idempotency_key: 'k' }, {}, { traceparent: h[1] ?? '' });
  await call('first', replay);
  await call('again', replay);
  for (const span of await flushed()) {
    const name = Object.keys(ids).find((one) => ids[one] === span.traceId) ?? '';
    ends[name] = [...(ends[name] ?? []), span];
  }
  const told = (name: string) => pair(ends[name] ?? []);
  t.match(told('denied'), [
    {
      status: { code: undefined },
      attributes: { 'gw.decision': 'deny', 'gw.reason_codes': ['not_you'], 'http.response.status_code': 403 },
    },
    undefined,
  ]);
  t.match(told('broken'), [
    { name: 'POST /proxy/{provider}', status: { code: 2 }, attributes: { 'error.type': 'upstream_unreachable', 'gw.decision': 'error' } },
    { status: { code: 2 }, attributes: { 'error.type': 'upstream_unreachable' } },
  ]);
  t.match(told('late'), [
    { attributes: { 'error.type': '529' } },
    { status: { code: 2 }, attributes: { 'error.type': '529', 'http.response.status_code': 529 } },
  ]);
  t.match(told('refused'), [
    { attributes: { 'error.type': 'invalid_request', 'http.response.status_code': 400, 'gw.request_id': String } },
    undefined,
  ]);
  t.match(told('stream'), [
    { attributes: { 'gw.stream': true, 'gw.stream_outcome': 'complete' } },
    { attributes: { 'gen_ai.request.stream': true, 'gen_ai.response.time_to_first_chunk': Number, 'gen_ai.usage.output_tokens': 7 } },
  ]);
  t.match(told('direct'), [
    { name: 'POST /v1/actions:execute', attributes: { 'gw.connection_type': 'direct_api' } },
    { name: 'chat gpt-4o-mini' },
  ]);
  t.equal(told('embed')[1]?.name, 'embeddings text-embedding-3-small');
  t.match(told('plain')[1], { name: 'GET', attributes: { 'http.request.method': 'GET' } });
  t.notOk(
    Object.keys(told('plain')[1]?.attributes ?? {}).some((key) => key.startsWith('gen_ai.')),
    'what is no call of a model is none',
  );
  t.equal(told('first').filter(Boolean).length, 2);
  t.match(told('again'), [{ attributes: { 'gw.replayed': true } }, undefined]);
});

t.test('each call on a metered WebSocket has spans of its own, inside of those of its handshake', async (t) => {
  const spans: SentSpan[] = [];
  const receiver = createServer((request, response) => {
    void buffer(request).then((bytes) => {
      spans.push(...spansIn(bytes.toString()));
      response.end('{}');
    });
  });
  await once(receiver.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => receiver.close());
  const { port } = receiver.address() as AddressInfo;
  const { open, gw, upstream } = await scene(t, { env: { GW_OTLP_ENDPOINT: `http://127.0.0.1:${port}` } });
  const client = await open(RESPONSES);
  await client.say({ type: 'response.create', model: 'gpt-4o-mini', input: 'a secret' }, 'response.completed');
  await gw.gateway.stop();
  const [handshake] = pair(spans.filter(({ attributes }) => attributes['gw.record_tier'] === 'connection'));
  const asked = spans.find(({ name }) => name === 'chat gpt-4o-mini');
  const call = spans.find(({ spanId }) => spanId === asked?.parentSpanId);
  t.match(call, { traceId: handshake?.traceId, parentSpanId: handshake?.spanId, kind: SERVER, flags: 0x103 });
  t.match(asked?.attributes, { 'gen_ai.usage.input_tokens': 36, 'gen_ai.usage.output_tokens': 87 });
  t.match(upstream.handshakes[0]?.headers['traceparent'], new RegExp(`^00-${handshake?.traceId}-[0-9a-f]{16}-03$`));
  t.notMatch(JSON.stringify(spans), /secret/);
});

t.test('OpenTelemetry’s own transformer writes the same, and its conventions have every name', async (t) => {
  const { governed, receiver, flushed } = await startTraced(t, { handler: provider, bundle: RULES });
  await governed.send(chat(['traceparent', PARENT]));
  await governed.through('api.openai.com:443', chat([], '/v1/chat/completions', { ...CHAT, stream: true }));
  const spans = await flushed();
  const [post] = receiver.posts;
  const ours = JSON.parse(post?.text ?? '') as { resourceSpans: Record<string, unknown>[] };
  const readable = readableSpans(post?.text ?? '');
  const theirs = JSON.parse(Buffer.from(JsonTraceSerializer.serializeRequest(readable) ?? []).toString()) as unknown;
  t.same(comparable(theirs), comparable(ours));
  t.ok((ProtobufTraceSerializer.serializeRequest(readable)?.length ?? 0) > 500);
  const names = new Set<unknown>(Object.values(conventions));
  const used = new Set(spans.flatMap(({ attributes }) => Object.keys(attributes)).filter((name) => !name.startsWith('gw.')));
  t.same(
    [...used].filter((name) => !names.has(name)),
    [],
    'no name is made up',
  );
  t.ok(used.size > 15);
  t.same(
    Object.values(PROVIDER_NAMES).filter((name) => !names.has(name)),
    [],
  );
  const ownOperations = ['transcription', 'moderation', 'classification', 'rerank', 'ocr'];
  t.same(
    Object.values(OPERATION_NAMES).filter((name) => !names.has(name) && !ownOperations.includes(name)),
    [],
  );
});

t.test('without an endpoint nothing is made: the caller’s own header passes, and its trace is in the record', async (t) => {
  const { send, recordOf, upstream } = await startGoverned(t, { handler: provider, bundle: RULES });
  t.equal((await recordOf(await send(chat(['traceparent', PARENT]))))['trace_id'], TRACE);
  t.equal(upstream.requests.at(-1)?.headers['traceparent'], PARENT);
  t.equal((await recordOf(await send(chat(['traceparent', 'nonsense']))))['trace_id'], undefined);
  t.equal(upstream.requests.at(-1)?.headers['traceparent'], 'nonsense');
  t.equal((await recordOf(await send(chat())))['trace_id'], undefined);
  t.equal(upstream.requests.at(-1)?.headers['traceparent'], undefined);
});

t.test('a call that is not sampled is passed on as such and not sent; what is not valid begins a new trace', async (t) => {
  const { governed, receiver, flushed } = await startTraced(t, { handler: provider, bundle: RULES, env: { GW_OTLP_SAMPLE_RATIO: '0' } });
  const seen = () => governed.upstream.requests.at(-1)?.headers;
  await governed.send(chat());
  t.match(seen()?.['traceparent'], /^00-[0-9a-f]{32}-[0-9a-f]{16}-02$/);
  await governed.send(chat(['traceparent', `00-${TRACE}-${SPAN}-00`]));
  t.match(seen()?.['traceparent'], new RegExp(`^00-${TRACE}-(?!${SPAN})[0-9a-f]{16}-00$`));
  await governed.send(chat(['traceparent', PARENT.toUpperCase(), 'tracestate', 'a=1']));
  t.match(seen(), { traceparent: /^00-[0-9a-f]{32}-[0-9a-f]{16}-02$/, tracestate: undefined });
  t.same(await flushed(), []);
  t.same(receiver.posts, []);
});

t.test('spans go out together after a second, zipped and with headers where that is wanted', async (t) => {
  const clock = fakeClock();
  const env = { OTEL_EXPORTER_OTLP_HEADERS: 'x-api-key=otlp-secret', OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip' };
  const { governed, receiver } = await startTraced(t, { handler: provider, bundle: RULES, clock, env });
  await governed.send(chat());
  await governed.send(chat());
  clock.advance(999);
  t.equal(receiver.posts.length, 0);
  clock.advance(1);
  await receiver.until(() => receiver.posts.length === 1);
  t.match(receiver.posts, [{ headers: { 'content-encoding': 'gzip', 'x-api-key': 'otlp-secret' } }]);
  t.equal(receiver.spans.length, 4);
});

t.test('what became of spans is counted, and what the receiver says of them is in the log', async (t) => {
  const clock = fakeClock();
  const lines: string[] = [];
  const log = createLogger({ level: 'warn', format: 'json', destination: { write: (line) => void lines.push(line) } });
  const { governed, receiver, flushed } = await startTraced(t, { handler: provider, bundle: RULES, clock, log });
  const counted = /^gw_trace_spans_total\{outcome="(\w+)"\} (\d+)$/gm;
  const metrics = async () =>
    [...(await governed.gw.admin('GET', '/metrics')).text.matchAll(counted)].map(([, name, count]) => `${name} ${count}`);
  t.same(await metrics(), ['exported 0', 'rejected 0', 'failed 0', 'dropped 0']);
  const answers = [
    { status: 200, body: '{"partialSuccess":{"rejectedSpans":"1","errorMessage":"one is bad"}}' },
    { status: 400, body: 'never' },
  ];
  receiver.answer = (_post, at) => answers[at] ?? { status: 200 };
  await governed.send(chat());
  clock.advance(1_000);
  while ((await metrics()).join() !== 'exported 1,rejected 1,failed 0,dropped 0');
  await governed.send(chat());
  await flushed();
  t.match(lines.join(''), /"said":"one is bad".*the receiver of traces did not take all/);
  t.match(lines.join(''), /"said":"HTTP 400: never".*spans could not be sent/);
});

/** What the official transformer is given, from what was sent. */
type Readable = Parameters<typeof JsonTraceSerializer.serializeRequest>[0];

function readableSpans(text: string): Readable {
  const request = JSON.parse(text) as {
    resourceSpans: {
      resource: { attributes: { key: string; value: { stringValue: string } }[] };
      schemaUrl: string;
      scopeSpans: { scope: object; schemaUrl: string }[];
    }[];
  };
  const [sent] = request.resourceSpans;
  const resource = {
    attributes: Object.fromEntries((sent?.resource.attributes ?? []).map(({ key, value }) => [key, value.stringValue])),
    schemaUrl: sent?.schemaUrl,
  };
  const [scope] = sent?.scopeSpans ?? [];
  const instrumentationScope = { ...scope?.scope, schemaUrl: scope?.schemaUrl };
  const spans = spansIn(text).map((span) => ({
    name: span.name,
    kind: span.kind - 1,
    spanContext: () => ({
      traceId: span.traceId,
      spanId: span.spanId,
      traceFlags: span.flags & 0xff,
      ...(span.traceState === undefined ? {} : { traceState: { serialize: () => span.traceState } }),
    }),
    ...(span.parentSpanId === undefined
      ? {}
      : { parentSpanContext: { traceId: span.traceId, spanId: span.parentSpanId, traceFlags: 1, isRemote: (span.flags & 0x200) !== 0 } }),
    startTime: hrTime(span.startTimeUnixNano),
    endTime: hrTime(span.endTimeUnixNano),
    status: { code: span.status.code ?? 0 },
    attributes: span.attributes,
    links: [],
    events: [],
    resource,
    instrumentationScope,
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  }));
  return spans as unknown as Readable;
}

function hrTime(nanoseconds: string): [number, number] {
  return [Number(nanoseconds.slice(0, -9)), Number(nanoseconds.slice(-9))];
}

/**
 * Without what protocol buffers do not tell apart (members that have their default, whole numbers as numbers or texts),
 * and without what their resource has too much.
 */
function comparable(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(comparable);
  if (typeof value !== 'object' || value === null) return value;
  const kept = Object.entries(value)
    .map(([name, member]): [string, unknown] => [name, name === 'intValue' ? Number(member) : comparable(member)])
    .filter(([name]) => !(name === 'schemaUrl' && !('scopeSpans' in value || 'spans' in value)))
    .filter(
      ([name, member]) =>
        name === 'attributes' || !(member === undefined || member === 0 || (Array.isArray(member) && member.length === 0)),
    );
  return Object.fromEntries(kept);
}
