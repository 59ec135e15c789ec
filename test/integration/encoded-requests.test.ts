import { createHash } from 'node:crypto';
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import t from 'tap';
import { eventually } from '../support/child.ts';
import { cpuClock } from '../support/cpu-clock.ts';
import { ADMIN_TOKEN } from '../support/gateway.ts';
import { ALLOW_ALL, bundleOf, CHAT, chat, type Governed, startGoverned } from '../support/governed.ts';
import { connectPlain, connectThrough, h2Request, h2Session, type RawResponse, readResponse } from '../support/raw-clients.ts';
import { frame, zstdPlain } from '../support/zstd.ts';

const ALLOW = '  targets:\n    - {id: all, effect: {decision: allow}}\n';
const DOWNGRADE = bundleOf(
  `${ALLOW}  transforms:\n    - {id: cheap, effect: {decision: downgrade, mutations: [{key: action.params.model, value: gpt-4o-mini}]}}\n`,
);
const ONLY_MINI = bundleOf(
  `${ALLOW}    - {id: large, when: {field: context.action.params.model, equals: gpt-4o}, effect: {decision: deny, reason: too large}}\n`,
);

const PLAIN = JSON.stringify({ ...CHAT, model: 'gpt-4o', user: 'u'.repeat(3000) });
const ENCODINGS: readonly (readonly [name: string, encode: (text: string) => Buffer])[] = [
  ['gzip', (text) => gzipSync(text)],
  ['x-gzip', (text) => gzipSync(text)],
  ['GZIP', (text) => gzipSync(text)],
  ['br', (text) => brotliCompressSync(text)],
  ['deflate', (text) => deflateSync(text)],
  ['deflate', (text) => deflateRawSync(text)],
  ['zstd', (text) => zstdPlain(text)],
];

const CHAT_PATH = '/v1/chat/completions';
const code = (answer: RawResponse) => (JSON.parse(answer.body.toString()) as { error: { code: string } }).error.code;
const encoded = (encoding: string, body: Uint8Array, path = `/proxy/openai${CHAT_PATH}`) => ({
  ...chat(['Content-Encoding', encoding], path),
  body,
});

async function throughH2({ gw }: Governed, options: ReturnType<typeof encoded>): Promise<RawResponse> {
  const session = h2Session(await connectThrough(gw.port, 'api.openai.com:443', gw.caPem, { alpn: ['h2'] }), 'api.openai.com');
  const answer = await h2Request(session, options);
  session.destroy();
  return answer;
}

function callWith(door: string, governed: Governed, options: ReturnType<typeof encoded>): Promise<RawResponse> {
  if (door === 'redirect') return governed.send(options);
  return door === 'CONNECT h2' ? throughH2(governed, options) : governed.through('api.openai.com:443', options);
}

const DOORS: readonly (readonly [string, (governed: Governed, encoding: string, body: Uint8Array) => Promise<RawResponse>])[] = [
  ['redirect', (governed, encoding, body) => governed.send(encoded(encoding, body))],
  ['CONNECT http/1.1', (governed, encoding, body) => governed.through('api.openai.com:443', encoded(encoding, body, CHAT_PATH))],
  ['CONNECT h2', (governed, encoding, body) => throughH2(governed, encoded(encoding, body, CHAT_PATH))],
];

t.test('a compressed body is decided by what is in it and sent as it came, byte for byte', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL });
  for (const [door, call] of DOORS) {
    for (const [encoding, encode] of ENCODINGS) {
      const body = encode(PLAIN);
      const answer = await call(governed, encoding, body);
      t.equal(answer.status, 200, `${door} ${encoding}`);
      const seen = governed.upstream.requests.at(-1);
      t.ok(seen?.body.equals(body), 'the bytes');
      t.match(seen?.headers, { 'content-encoding': encoding, 'content-length': String(body.length) });
      t.match(await governed.recordOf(answer), {
        decision: 'allow',
        model: 'gpt-4o',
        request_bytes: body.length,
        request_sha256: createHash('sha256').update(body).digest('hex'),
      });
    }
  }
});

t.test('a list of encodings that names one is that one, for policy and in what is sent', async (t) => {
  const governed = await startGoverned(t, { bundle: ONLY_MINI });
  const small = JSON.stringify(CHAT);
  const lists: readonly (readonly [said: string, sent: string, encode: (text: string) => Buffer])[] = [
    ['gzip, identity', 'gzip', (text) => gzipSync(text)],
    ['identity,gzip', 'gzip', (text) => gzipSync(text)],
    ['Identity , GZIP', 'gzip', (text) => gzipSync(text)],
    [', x-gzip,, identity,', 'gzip', (text) => gzipSync(text)],
    ['br,IDENTITY', 'br', (text) => brotliCompressSync(text)],
    ['identity, deflate', 'deflate', (text) => deflateSync(text)],
    ['zstd, identity, identity', 'zstd', (text) => zstdPlain(text)],
    ['identity, identity', '', (text) => Buffer.from(text)],
    [',', '', (text) => Buffer.from(text)],
  ];
  for (const [door, call] of DOORS) {
    for (const [said, sent, encode] of lists) {
      const body = encode(small);
      const answer = await call(governed, said, body);
      t.equal(answer.status, 200, `${door} ${said}`);
      const seen = governed.upstream.requests.at(-1);
      t.ok(seen?.body.equals(body), 'the bytes');
      t.equal(seen?.headers['content-encoding'] ?? '', sent);
      t.match(await governed.recordOf(answer), {
        model: CHAT.model,
        request_sha256: createHash('sha256').update(body).digest('hex'),
      });
      t.equal((await call(governed, said, encode(PLAIN))).status, 403, 'a rule sees what is in it');
    }
    const path = door === 'redirect' ? `/proxy/openai${CHAT_PATH}` : CHAT_PATH;
    // The client of h2 writes no field twice; protocol-border.test.ts does.
    if (door === 'CONNECT h2') continue;
    const before = governed.upstream.requests.length;
    const fields = { ...chat(['content-encoding', 'identity', 'content-encoding', 'gzip'], path), body: gzipSync(small) };
    t.equal((await callWith(door, governed, fields)).status, 200, `${door}: a list of two fields`);
    t.equal(governed.upstream.requests.at(-1)?.headers['content-encoding'], 'gzip');
    const chain = { ...chat(['content-encoding', 'gzip', 'content-encoding', 'br'], path), body: gzipSync(small) };
    t.equal((await callWith(door, governed, chain)).status, 415, `${door}: a chain of two fields`);
    t.equal(governed.upstream.requests.length, before + 1);
  }
});

t.test('JSON behind a byte order mark is read and sent without it', async (t) => {
  const governed = await startGoverned(t, { bundle: ONLY_MINI });
  const small = JSON.stringify(CHAT);
  for (const [door, call] of DOORS) {
    for (const [encoding, encode] of [['identity', (text: string) => Buffer.from(text)] as const, ...ENCODINGS]) {
      const body = encode(`\ufeff${small}`);
      const answer = await call(governed, encoding, body);
      t.equal(answer.status, 200, `${door} ${encoding}`);
      const seen = governed.upstream.requests.at(-1);
      t.equal(seen?.body.toString(), small);
      t.match(seen?.headers, { 'content-length': String(small.length) });
      t.notOk(seen?.headers['content-encoding']);
      t.match(await governed.recordOf(answer), {
        model: CHAT.model,
        request_bytes: body.length,
        request_sha256: createHash('sha256').update(body).digest('hex'),
      });
      t.equal((await call(governed, encoding, encode(`\ufeff${PLAIN}`))).status, 403, 'a rule sees what is behind it');
    }
  }
  const forwarded = governed.upstream.requests.length;
  const odd = [
    '\ufeff\ufeff{}',
    '\ufeff',
    `{"model":"gpt-4o-mini","\ufeffmodel":`,
    '\ufeff{"model":"gpt-4o-mini","model":"gpt-4o"}',
    '\ufeff[]',
  ];
  for (const text of odd) t.equal((await governed.send({ ...chat(), body: text })).status, 400, JSON.stringify(text));
  const utf16 = Buffer.from(`\ufeff${small}`, 'utf16le');
  t.equal((await governed.send({ ...chat(), body: utf16 })).status, 400, 'UTF-16');
  t.equal(governed.upstream.requests.length, forwarded);
  const form = ['Content-Type', 'application/x-www-form-urlencoded'];
  const upload = { method: 'POST', path: '/proxy/openai/v1/images/edits', headers: ['Authorization', 'Bearer sk', ...form] };
  const hidden = '\ufeff{"model":"gpt-image-1","prompt":"a&b","n":1}';
  t.equal((await governed.send({ ...upload, body: hidden })).status, 400, 'what is a form as well as JSON');
  t.equal((await governed.send({ ...upload, body: '\ufeffmodel=gpt-image-1&prompt=x' })).status, 400, 'a name behind a mark');
});

t.test('an embeddings call of a thousand lists of token ids passes', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL });
  const ids = Array.from({ length: 299 }, (_, at) => 1000 + at);
  const params = { model: 'text-embedding-3-small', input: Array.from({ length: 1000 }, () => ids) };
  for (const [door] of DOORS) {
    const path = door === 'redirect' ? '/proxy/openai/v1/embeddings' : '/v1/embeddings';
    const body = JSON.stringify(params);
    const answer = await callWith(door, governed, { ...chat([], path), body: Buffer.from(body) });
    t.equal(answer.status, 200, door);
    t.equal(governed.upstream.requests.at(-1)?.body.toString(), body);
  }
  const structured = await governed.execute({}, { type: 'ai.embed', target_path: '/v1/embeddings', params });
  t.equal(structured.status, 200);
  t.same(JSON.parse(governed.upstream.requests.at(-1)?.body.toString() ?? ''), params);
});

t.test('a rule sees what a compressed body says', async (t) => {
  const governed = await startGoverned(t, { bundle: ONLY_MINI });
  for (const [encoding, encode] of ENCODINGS) {
    const refused = await governed.send(encoded(encoding, encode(PLAIN)));
    t.match({ status: refused.status, decision: refused.headers['x-gw-decision'] }, { status: 403, decision: 'deny' }, encoding);
    t.equal((await governed.send(encoded(encoding, encode(JSON.stringify(CHAT))))).status, 200);
  }
  t.equal(governed.upstream.requests.length, ENCODINGS.length);
});

t.test('a body that policy changed is sent decoded, without Content-Encoding', async (t) => {
  const governed = await startGoverned(t, { bundle: DOWNGRADE });
  for (const [door, call] of DOORS) {
    for (const [encoding, encode] of ENCODINGS) {
      const body = encode(PLAIN);
      const answer = await call(governed, encoding, body);
      t.match(
        { status: answer.status, decision: answer.headers['x-gw-decision'] },
        { status: 200, decision: 'downgrade' },
        `${door} ${encoding}`,
      );
      const seen = governed.upstream.requests.at(-1);
      t.equal(seen?.body.toString(), PLAIN.replace('gpt-4o', 'gpt-4o-mini'));
      t.notOk(seen?.headers['content-encoding']);
      t.match(await governed.recordOf(answer), { decision: 'downgrade', model: 'gpt-4o-mini', request_bytes: body.length });
    }
  }
  const same = gzipSync(JSON.stringify(CHAT));
  t.match((await governed.send(encoded('gzip', same))).headers, { 'x-gw-decision': 'allow' }, 'what needs no change');
  t.ok(governed.upstream.requests.at(-1)?.body.equals(same), 'stays compressed');
});

t.test('a mutation beside the body leaves it compressed', async (t) => {
  const transform = '  transforms:\n    - {id: mark, effect: {mutations: [{key: action.headers.X-Team, value: red}]}}\n';
  const { send, upstream } = await startGoverned(t, { bundle: bundleOf(`${ALLOW}${transform}`) });
  const body = gzipSync(PLAIN);
  t.equal((await send(encoded('gzip', body))).status, 200);
  t.match(upstream.requests.at(-1)?.headers, { 'x-team': 'red', 'content-encoding': 'gzip' });
  t.ok(upstream.requests.at(-1)?.body.equals(body));
});

t.test('the structured API takes a compressed envelope', async (t) => {
  const { gw, upstream } = await startGoverned(t, { bundle: ALLOW_ALL });
  const action = { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params: CHAT };
  const envelope = { schema: 'gw.action_request.v2', org_id: 'default', workload_id: 'default', credential_hint: 'sk-caller', action };
  const execute = (encoding: string, body: Uint8Array) =>
    fetch(`${gw.url}/v1/actions:execute`, { method: 'POST', headers: { 'content-encoding': encoding }, body });
  for (const [encoding, encode] of ENCODINGS) t.equal((await execute(encoding, encode(JSON.stringify(envelope)))).status, 200, encoding);
  t.notOk(upstream.requests.some(({ headers }) => headers['content-encoding']));
  t.strictSame(JSON.parse(upstream.requests.at(-1)?.body.toString() ?? ''), CHAT);
  for (const [said, body] of [
    ['gzip, identity', gzipSync(JSON.stringify(envelope))],
    ['identity, identity', Buffer.from(JSON.stringify(envelope))],
    ['identity', Buffer.from(`\ufeff${JSON.stringify(envelope)}`)],
    [',X-GZIP', gzipSync(`\ufeff${JSON.stringify(envelope)}`)],
  ] as const) {
    t.equal((await execute(said, body)).status, 200, said);
    t.strictSame(JSON.parse(upstream.requests.at(-1)?.body.toString() ?? ''), CHAT);
  }
  const workload = `\ufeff${JSON.stringify({ org_id: 'default', workload_id: 'marked', name: 'behind a mark' })}`;
  const headers = { 'GW-Admin-Token': ADMIN_TOKEN, 'content-type': 'application/json' };
  t.equal((await fetch(`${gw.url}/v1/admin/workloads`, { method: 'PUT', headers, body: workload })).status, 200, 'on other surfaces, too');
  const broken = await execute('gzip', Buffer.from('{}'));
  t.match({ status: broken.status, body: await broken.json() }, { status: 400, body: { error: { code: 'invalid_request' } } });
  t.equal((await execute('compress', Buffer.from('{}'))).status, 415);
});

t.test('chains and encodings that nobody decodes are 415 without a record, before the body is read', async (t) => {
  const { gw, send, upstream } = await startGoverned(t, { bundle: ALLOW_ALL });
  for (const encoding of [
    'gzip, br',
    'gzip, gzip',
    'gzip, identity, x-gzip',
    'identity, compress',
    'compress',
    'aes128gcm',
    '__proto__',
    'gzip;q=1',
  ]) {
    const answer = await send(encoded(encoding, gzipSync(PLAIN)));
    t.equal(answer.status, 415, encoding);
    t.equal(code(answer), 'unsupported_encoding');
    t.notOk(answer.headers['x-gw-record-id']);
  }
  const twice = await send({ ...chat(['Content-Encoding', 'gzip', 'Content-Encoding', 'br']), body: gzipSync(PLAIN) });
  t.equal(twice.status, 415, 'two fields are a chain');
  const waiting = await connectPlain(gw.port);
  t.teardown(() => waiting.destroy());
  const head = `POST /proxy/openai${CHAT_PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Encoding: compress\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n`;
  waiting.write(head);
  t.match(await readResponse(waiting, 'POST'), { status: 415, infos: [] }, 'no 100 Continue');
  t.equal(upstream.requests.length, 0);
  t.equal((await send(encoded('identity', Buffer.from(PLAIN)))).status, 200);
});

t.test('what is not what its encoding says is ambiguous_body with a record, and so is what decodes to no JSON object', async (t) => {
  const { send, recordOf, upstream } = await startGoverned(t, { bundle: ALLOW_ALL });
  const bad: (readonly [string, Uint8Array])[] = [['gzip', gzipSync('{"model":"a","model":"b"}')]];
  for (const [encoding, encode] of ENCODINGS) {
    const good = encode(PLAIN);
    bad.push(
      [encoding, Buffer.from(PLAIN)],
      [encoding, good.subarray(0, -1)],
      [encoding, good.subarray(0, 5)],
      [encoding, Buffer.concat([good, Buffer.alloc(9)])],
    );
    bad.push([encoding, encode('[]')], [encoding, encode(`${PLAIN}{}`)]);
  }
  for (const [encoding, body] of bad) {
    const answer = await send(encoded(encoding, body));
    t.equal(answer.status, 400, `${encoding} ${body.length}`);
    t.match(await recordOf(answer), { decision: 'deny', reason_codes: ['ambiguous_body'], request_bytes: body.length });
  }
  t.equal(upstream.requests.length, 0, 'nothing of it was forwarded');
});

t.test('a bomb is 413 soon, in bounded memory, and others are served meanwhile', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, env: { GW_MAX_BODY_BYTES: '1000000' } });
  const zeros = Buffer.alloc(10_000_000);
  const runs = new Array<Buffer>(80).fill(frame.run('\0', 128 * 1024, false));
  const bombs: readonly (readonly [string, Buffer])[] = [
    ['gzip', gzipSync(zeros)],
    ['gzip', gzipSync(Buffer.alloc(100_000_000))],
    ['br', brotliCompressSync(zeros)],
    ['deflate', deflateSync(zeros)],
    ['zstd', frame.of({ window: 8 << 3, blocks: [...runs, frame.raw('', true)] })],
    ['zstd', frame.single(1_000_001)],
  ];
  const before = process.memoryUsage();
  for (const [door, call] of DOORS) {
    for (const [encoding, bomb] of bombs) {
      const { spent } = cpuClock();
      const [answer, other] = await Promise.all([call(governed, encoding, bomb), governed.send(chat())]);
      t.equal(answer.status, 413, `${door} ${encoding} of ${bomb.length} bytes`);
      t.equal(code(answer), 'body_too_large');
      t.equal(other.status, 200);
      t.ok(spent() < 10_000, 'CPU ms');
    }
  }
  t.ok(process.memoryUsage().arrayBuffers - before.arrayBuffers < 100_000_000, 'memory');
  t.equal((await governed.send(encoded('gzip', gzipSync(PLAIN)))).status, 200);
});

t.test('a zstd window over 8 MiB is 415, and ten bytes are enough to say so', async (t) => {
  const { send } = await startGoverned(t, { bundle: ALLOW_ALL });
  for (const window of [0xff, (13 << 3) | 1]) {
    const answer = await send(encoded('zstd', frame.of({ window, blocks: [frame.raw('{}', true)] })));
    t.equal(answer.status, 415);
    t.equal(code(answer), 'unsupported_encoding');
    t.match(answer.body.toString(), /window/);
  }
  t.equal((await send(encoded('zstd', frame.of({ window: 13 << 3, blocks: [frame.raw(PLAIN, true)] })))).status, 200, '8 MiB is taken');
});

t.test('decoded bytes count for GW_MAX_BUFFERED_BYTES and are given back', async (t) => {
  const { gw, send } = await startGoverned(t, { bundle: ALLOW_ALL, env: { GW_MAX_BODY_BYTES: '100000', GW_MAX_BUFFERED_BYTES: '100000' } });
  const holder = await connectPlain(gw.port);
  t.teardown(() => holder.destroy());
  holder.write(`POST /proxy/openai${CHAT_PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\nhalf`);
  await eventually('what is held', async () => /^gw_buffered_bytes 4$/m.test((await gw.admin('GET', '/metrics')).text) || undefined);
  const large = JSON.stringify({ ...CHAT, user: 'u'.repeat(80_000) });
  const small = JSON.stringify({ ...CHAT, user: 'u'.repeat(20_000) });
  for (let round = 1; round <= 3; round += 1) {
    for (const [encoding, encode] of [
      ['gzip', (text: string) => gzipSync(text)],
      ['zstd', zstdPlain],
    ] as const) {
      const answer = await send(encoded(encoding, encode(large)));
      t.match(answer, { status: 503, headers: { 'retry-after': '1' } }, `${encoding} ${round}`);
      t.equal(code(answer), 'overloaded');
      t.equal((await send(encoded(encoding, encode(small)))).status, 200);
    }
  }
});

t.test('a body may be cut anywhere on its way', async (t) => {
  const { gw, upstream } = await startGoverned(t, { bundle: ALLOW_ALL });
  const socket = await connectPlain(gw.port);
  t.teardown(() => socket.destroy());
  for (const [encoding, encode] of [
    ['gzip', (text: string) => gzipSync(text)],
    ['zstd', zstdPlain],
  ] as const) {
    const body = encode(JSON.stringify(CHAT));
    for (let at = 1; at < body.length; at += 1) {
      const chunk = (bytes: Uint8Array) => Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]);
      socket.write(
        `POST /proxy/openai${CHAT_PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer sk-client\r\nContent-Encoding: ${encoding}\r\nTransfer-Encoding: chunked\r\n\r\n`,
      );
      socket.write(chunk(body.subarray(0, at)));
      await new Promise((resolve) => setImmediate(resolve));
      socket.write(Buffer.concat([chunk(body.subarray(at)), Buffer.from('0\r\n\r\n')]));
      const answer = await readResponse(socket, 'POST');
      if (answer.status !== 200 || upstream.requests.at(-1)?.body.equals(body) !== true) t.fail(`${encoding} cut at ${at}`);
    }
  }
  t.pass('every cut');
});

t.test('a body that policy does not parse passes as it is, whatever it is encoded in', async (t) => {
  const { send, upstream } = await startGoverned(t, { bundle: ALLOW_ALL });
  for (const encoding of ['gzip', 'compress', 'gzip, br', 'zstd']) {
    t.equal((await send(encoded(encoding, Buffer.from('any bytes'), '/proxy/openai/v1/files'))).status, 200, encoding);
    t.match(upstream.requests.at(-1)?.headers, { 'content-encoding': encoding });
    t.equal(upstream.requests.at(-1)?.body.toString(), 'any bytes');
  }
});
