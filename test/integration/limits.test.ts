import { once } from 'node:events';
import type { Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { GatewayError } from '../../src/base/lib/gateway-error.ts';
import type { Store } from '../../src/storage/contract/store.ts';
import { eventually } from '../support/child.ts';
import { cpuClock } from '../support/cpu-clock.ts';
import { fakeClock } from '../support/fake-clock.ts';
import type { TestGateway } from '../support/gateway.ts';
import { CHAT, chat, startGoverned } from '../support/governed.ts';
import {
  connectPlain,
  connectThrough,
  h2Request,
  h2Session,
  openTunnel,
  type RawResponse,
  readResponse,
  readUntil,
} from '../support/raw-clients.ts';
import type { HasTeardown } from '../support/temp-dir.ts';

const code = (answer: RawResponse) => (JSON.parse(answer.body.toString()) as { error: { code: string } }).error.code;
const padded = (length: number) => JSON.stringify({ ...CHAT, user: 'u'.repeat(length) });

t.test('a body beyond GW_MAX_BODY_BYTES is 413 on every door, declared or not', async (t) => {
  const { gw, send, through, upstream } = await startGoverned(t, { env: { GW_MAX_BODY_BYTES: '2000' } });
  const big = padded(2000);
  const direct = await fetch(`${gw.url}/v1/actions:execute`, { method: 'POST', body: big });
  t.match({ status: direct.status, body: await direct.json() }, { status: 413, body: { error: { code: 'body_too_large' } } });
  for (const answer of [await send(chat([], undefined, big)), await through('api.openai.com:443', chat([], '/v1/chat/completions', big))]) {
    t.equal(answer.status, 413);
    t.equal(code(answer), 'body_too_large');
    t.notOk(answer.headers['x-gw-record-id']);
  }
  const socket = await connectPlain(gw.port);
  t.teardown(() => socket.destroy());
  socket.write('POST /proxy/openai/v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n');
  socket.write(`${big.length.toString(16)}\r\n${big}\r\n`);
  t.equal((await readResponse(socket, 'POST')).status, 413, 'chunked');
  const session = h2Session(await connectThrough(gw.port, 'api.openai.com:443', gw.caPem, { alpn: ['h2'] }), 'api.openai.com');
  t.teardown(() => session.destroy());
  t.equal((await h2Request(session, chat([], '/v1/chat/completions', big))).status, 413, 'h2');
  t.equal(upstream.requests.length, 0);
  t.equal((await send(chat([], '/proxy/openai/v1/files', big))).status, 200, 'what policy does not parse has no such limit');
  t.equal((await send(chat())).status, 200);
});

/** A loopback client that another address stands before. */
const from = (address: string): readonly string[] => ['X-Forwarded-For', address];
const BODY = padded(1_200);

/** A call whose body is sent but for its last byte. */
async function hold(t: HasTeardown, port: number, address: string): Promise<Socket> {
  const holder = await connectPlain(port);
  t.teardown(() => holder.destroy());
  const fields = `Host: 127.0.0.1\r\nX-Forwarded-For: ${address}\r\nExpect: 100-continue\r\nContent-Length: ${BODY.length}\r\n`;
  holder.write(`POST /proxy/openai/v1/chat/completions HTTP/1.1\r\n${fields}\r\n`);
  await once(holder, 'readable');
  holder.write(BODY.slice(0, -1));
  return holder;
}

/** What the gateway says that it holds. */
async function heldBytes(gw: TestGateway): Promise<number> {
  return Number(/^gw_buffered_bytes (\d+)$/m.exec((await gw.admin('GET', '/metrics')).text)?.[1]);
}

const holds = (gw: TestGateway, bytes: number) =>
  eventually(`${bytes} held bytes`, async () => ((await heldBytes(gw)) === bytes ? true : undefined));

t.test('what is announced is not taken: heads without bodies keep nobody out', async (t) => {
  const { gw, send } = await startGoverned(t, { env: { GW_MAX_BODY_BYTES: '2000', GW_MAX_BUFFERED_BYTES: '4000' } });
  for (const path of ['/proxy/openai/v1/chat/completions', '/v1/actions:execute']) {
    for (let count = 0; count < 8; count += 1) {
      const holder = await connectPlain(gw.port);
      t.teardown(() => holder.destroy());
      holder.write(`POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: 100-continue\r\nContent-Length: 2000\r\n\r\n`);
      t.match(await readUntil(holder, '\r\n\r\n'), /^HTTP\/1.1 100 /, `${path} ${count}`);
    }
  }
  t.equal(await heldBytes(gw), 0);
  t.equal((await send(chat([], undefined, BODY))).status, 200);
});

t.test('all bodies together beyond GW_MAX_BUFFERED_BYTES: 503 with Retry-After, and the bytes are given back', async (t) => {
  const { gw, send, upstream } = await startGoverned(t, {
    env: { GW_MAX_BODY_BYTES: '2000', GW_MAX_BUFFERED_BYTES: '4000' },
  });
  for (let round = 1; round <= 3; round++) {
    const holders = [];
    for (const address of ['192.0.2.1', '192.0.2.2', '192.0.2.3']) holders.push(await hold(t, gw.port, address));
    await holds(gw, 3 * (BODY.length - 1));
    const full = await send(chat(from('192.0.2.4'), undefined, BODY));
    t.match(full, { status: 503, headers: { 'retry-after': '1' } });
    t.equal(code(full), 'overloaded');
    t.match(full.body.toString(), /All request buffers are in use/);
    t.equal((await send(chat(from('192.0.2.4')))).status, 200, 'a small one still fits');
    const chunked = await connectPlain(gw.port);
    t.teardown(() => chunked.destroy());
    chunked.write(
      `POST /proxy/openai/v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n${BODY.length.toString(16)}\r\n${BODY}\r\n`,
    );
    t.match(await readResponse(chunked, 'POST'), { status: 503, headers: { 'retry-after': '1' } }, 'bodies without a length count too');
    for (const holder of holders) {
      holder.write(BODY.slice(-1));
      t.match(await readResponse(holder, 'POST'), { status: 200 });
    }
    await holds(gw, 0);
    t.equal(upstream.requests.length, 4 * round);
  }
});

t.test('one client holds half of the buffers at most, whatever its doors, and others have room', async (t) => {
  const { gw, send, execute } = await startGoverned(t, {
    env: { GW_MAX_BODY_BYTES: '2000', GW_MAX_BUFFERED_BYTES: '4000' },
  });
  await hold(t, gw.port, '2001:db8::1');
  await holds(gw, BODY.length - 1);
  for (const address of ['2001:db8::1', '2001:db8::ffff:2']) {
    const refused = await send(chat(from(address), undefined, BODY));
    t.match(refused, { status: 503, headers: { 'retry-after': '1' } }, address);
    t.equal(code(refused), 'overloaded');
    t.match(refused.body.toString(), /This client holds its share/);
  }
  t.match(await execute({}, { params: JSON.parse(BODY) }, { 'x-forwarded-for': '2001:db8::1' }), { status: 503 });
  t.equal((await send(chat(from('2001:db8:0:1::1'), undefined, BODY))).status, 200, 'another network');
  t.match(await execute({}, {}, { 'x-forwarded-for': '2001:db8::1' }), { status: 200 }, 'a small one of its own still fits');
  await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'ci' });
  const { token } = (await gw.admin('POST', '/v1/admin/workloads/ci/token')).body as { token: string };
  const proven = ['X-GW-Workload-ID', 'ci', 'X-GW-Workload-Token', token];
  t.equal((await send(chat([...from('2001:db8::1'), ...proven], undefined, BODY))).status, 200, 'who has shown a token counts for himself');
});

t.test('the largest body that is permitted fits, although it is more than a share', async (t) => {
  const { send } = await startGoverned(t, { env: { GW_MAX_BODY_BYTES: '2000', GW_MAX_BUFFERED_BYTES: '2000' } });
  t.equal((await send(chat([], undefined, padded(1_900)))).status, 200);
});

t.test('a body that does not move loses its place to one that needs it, and is told so', async (t) => {
  const clock = fakeClock();
  const { gw, send } = await startGoverned(t, { clock, env: { GW_MAX_BODY_BYTES: '2000', GW_MAX_BUFFERED_BYTES: '4000' } });
  const lazy = await hold(t, gw.port, '127.0.0.1');
  await holds(gw, BODY.length - 1);
  t.equal((await send(chat([], undefined, BODY))).status, 503, 'it has just come');
  clock.advance(6_000);
  t.equal((await send(chat([], undefined, BODY))).status, 200);
  const told = await readResponse(lazy, 'POST');
  t.match(told, { status: 503, headers: { 'retry-after': '1' } });
  t.match(told.body.toString(), /came too slowly/);
  await holds(gw, 0);
});

t.test('a CONNECT beyond GW_MAX_TUNNELS is 429 with Retry-After', async (t) => {
  const { gw } = await startGoverned(t, { env: { GW_MAX_TUNNELS: '1' } });
  const first = await openTunnel(gw.port, 'api.openai.com:443');
  t.teardown(() => first.destroy());
  const second = await openTunnel(gw.port, 'api.openai.com:443').catch((error: unknown) => error);
  t.match(second, { status: 429, rawHead: /Retry-After: 1/i, body: /too_many_tunnels/ });
});

t.test('bodies that policy could not read are refused in their own way', async (t) => {
  const { gw, send, recordOf, upstream } = await startGoverned(t);
  for (const encoding of ['compress', 'gzip, gzip']) {
    const packed = await send({ ...chat(['Content-Encoding', encoding]), body: gzipSync(gzipSync(JSON.stringify(CHAT))) });
    t.equal(packed.status, 415, encoding);
    t.equal(code(packed), 'unsupported_encoding', encoding);
  }
  const deep = await send(chat([], undefined, `{"model":"m","messages":${'['.repeat(80)}${']'.repeat(80)}}`));
  t.equal(deep.status, 400);
  t.equal(code(deep), 'body_too_deep');
  const { spent } = cpuClock();
  t.equal((await send(chat([], undefined, `{"a":[${'{},'.repeat(400_000)}{}]}`))).status, 400, 'too many tokens');
  t.ok(spent() < 5_000, 'and at once');
  const wide = await fetch(`${gw.url}/v1/actions:execute`, { method: 'POST', body: `${'['.repeat(100)}${']'.repeat(100)}` });
  t.match(await wide.json(), { error: { code: 'body_too_deep' } });
  for (const body of [
    '[]',
    '"text"',
    '{"model":"a","model":"b"}',
    '{"model":"a","Model":"b"}',
    '{"model":1e999}',
    '{"model":5}',
    '{bad',
    '\xff',
  ]) {
    const answer = await send(chat([], undefined, body));
    t.equal(answer.status, 400, body);
    t.match(await recordOf(answer), { decision: 'deny', reason_codes: ['ambiguous_body'], status_code: 400 }, body);
  }
  t.equal(upstream.requests.length, 0);
});

t.test('a head that is too large is 431 in the form of every error', async (t) => {
  const { send } = await startGoverned(t);
  const answer = await send({ path: '/healthz', headers: ['X-Big', 'x'.repeat(200_000)] });
  t.equal(answer.status, 431);
  t.equal(code(answer), 'headers_too_large');
});

t.test('without a store that writes nothing is forwarded, and nothing is acknowledged', async (t) => {
  const faults = { writable: true, commits: true, withoutRecord: false };
  const store = (opened: Store): Store =>
    new Proxy(opened, {
      get(target, name) {
        if (name === 'writable') return faults.writable && target.writable;
        if (name === 'commit' && !faults.commits) {
          const refuse = () => Promise.reject(new GatewayError('record_store_unavailable', 'disk full'));
          return (...commit: Parameters<Store['commit']>) =>
            faults.withoutRecord && commit[0] === undefined ? target.commit(...commit) : refuse();
        }
        const member: unknown = Reflect.get(target, name, target);
        return typeof member === 'function' ? member.bind(target) : member;
      },
    });
  const { gw, send, through, execute, upstream } = await startGoverned(t, {
    store,
    handler: (_request, response, body) =>
      void body.then((bytes) => {
        if (!bytes.includes('"stream":true')) response.end('{}');
        else response.setHeader('content-type', 'text/event-stream').end('data: {"choices":[]}\n\ndata: [DONE]\n\n');
      }),
  });
  t.equal((await send(chat())).status, 200);
  const before = upstream.requests.length;
  faults.writable = false;
  for (const answer of [await send(chat()), await through('api.openai.com:443', chat([], '/v1/chat/completions'))]) {
    t.match(answer, { status: 503, headers: { 'retry-after': '1' } });
    t.equal(code(answer), 'record_store_unavailable');
  }
  t.match(await execute(), { status: 503, body: { error: { code: 'record_store_unavailable' } } });
  t.equal(upstream.requests.length, before);
  t.equal((await fetch(`${gw.url}/healthz`)).status, 200);
  faults.writable = true;
  faults.commits = false;
  t.equal((await send(chat())).status, 503, 'an answer that is held is not given');
  t.equal((await execute()).status, 503);
  t.equal((await execute({ workload_id: 'nobody' })).status, 503, 'nor is a refusal');
  const stream = chat([], undefined, { ...CHAT, stream: true });
  t.equal((await send(stream)).status, 503, 'nothing of a stream leaves whose record is not certain');
  faults.withoutRecord = true;
  await t.rejects(send(stream), /ended|ECONNRESET/, 'a stream that has begun is broken before its terminal event');
  faults.withoutRecord = false;
  t.match(await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'x' }), { status: 503 });
  faults.commits = true;
  t.equal((await send(chat())).status, 200);
});
