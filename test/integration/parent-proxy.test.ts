import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { createLogger } from '../../src/base/lib/log.ts';
import { CHAT, chat, type Governed, startGoverned } from '../support/governed.ts';
import { PARENT_BODY, startParentProxy, type TestParentProxy } from '../support/parent-proxy.ts';
import { ConnectRefused, connectThrough, h1Request, h2Request, h2Session, openTunnel } from '../support/raw-clients.ts';
import type { HasTeardown } from '../support/temp-dir.ts';
import { startPlainUpstream, type TestUpstream, type UpstreamHandler } from '../support/tls-upstream.ts';
import { until } from '../support/upstream-calls.ts';

const PASSWORD = 'hush-hush-password';
const SECRETS = [PASSWORD, Buffer.from(`gateway:${PASSWORD}`).toString('base64')];
const PATH = '/v1/chat/completions';

interface BehindParent extends Governed {
  readonly proxy: TestParentProxy;
  readonly plain: TestUpstream;
  /** Everything that the gateway has logged. */
  readonly lines: readonly string[];
}

/** A gateway whose only way out is a parent proxy; nothing is in its connect-to table. */
async function behindParent(t: HasTeardown, password: string, handler?: UpstreamHandler): Promise<BehindParent> {
  const plain = await startPlainUpstream();
  t.teardown(() => plain.close());
  const ports: Record<string, number> = { 'api.openai.com:80': plain.port };
  const proxy = await startParentProxy({ credentials: `gateway:${PASSWORD}`, ports });
  t.teardown(() => proxy.close());
  const lines: string[] = [];
  const log = createLogger({ level: 'trace', format: 'json', destination: { write: (line) => void lines.push(line) } });
  const env = {
    GW_UPSTREAM_CONNECT_TO: '',
    GW_UPSTREAM_PROXY: `http://gateway:${password}@127.0.0.1:${proxy.port}`,
    GW_RECORD_FSYNC: 'always',
  };
  const governed = await startGoverned(t, { log, env, ...(handler === undefined ? {} : { handler }) });
  for (const host of ['api.openai.com', 'www.example.com']) ports[`${host}:443`] = governed.upstream.port;
  return { ...governed, proxy, plain, lines };
}

/** One chat call over h2 through a CONNECT. */
async function overH2(t: HasTeardown, { gw }: Governed) {
  const session = h2Session(await connectThrough(gw.port, 'api.openai.com:443', gw.caPem, { alpn: ['h2'] }), 'api.openai.com');
  t.teardown(() => session.destroy());
  return h2Request(session, chat([], PATH));
}

/** What the data folder holds, all files in one. */
function stored(folder: string): string {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name));
  return files.map((file) => (statSync(file).isFile() ? readFileSync(file, 'latin1') : '')).join('\n');
}

t.test('every door goes out through the parent proxy, whose credentials end there', async (t) => {
  const all = await behindParent(t, PASSWORD);
  const { gw, send, through, execute, recordOf, upstream, proxy, plain, lines } = all;
  const answers = [await send(chat()), await through('api.openai.com:443', chat([], PATH)), await overH2(t, all)];
  for (const answer of answers) {
    t.match(answer, { status: 200 });
    t.match(await recordOf(answer), { decision: 'allow', upstream_status: 200, metering: { tokens_in: 11, tokens_out: 7 } });
  }
  t.match(await execute(), { status: 200, body: { decision: 'allow' } });
  t.equal((await send(chat([], `http://api.openai.com${PATH}`))).body.toString(), '{"ok":true}');
  const tunnelled = await connectThrough(gw.port, 'www.example.com:443', upstream.caPem);
  t.teardown(() => tunnelled.destroy());
  t.equal((await h1Request(tunnelled, 'www.example.com', { path: '/unopened' })).status, 200);
  t.same(
    new Set(proxy.requests.map(({ method, target }) => `${method} ${target}`)),
    new Set(['CONNECT api.openai.com:443', 'POST http://api.openai.com/v1/chat/completions', 'CONNECT www.example.com:443']),
  );
  for (const { method, rawHeaders } of proxy.requests)
    t.match(rawHeaders[rawHeaders.indexOf('Via') + 1], /^1\.1 gw-/, `${method} says who sends it`);
  t.equal(upstream.connections, 2, 'the four calls share one connection');
  for (const seen of [...upstream.requests, ...plain.requests]) t.notMatch(JSON.stringify(seen.rawHeaders), /proxy-auth|Basic/i);
  const told = [JSON.stringify(answers), (await gw.admin('GET', '/metrics')).text, lines.join('\n'), stored(gw.dataDir)].join('\n');
  for (const secret of SECRETS) t.notOk(told.includes(secret));
});

t.test(
  'a parent proxy that refuses is 502 at each door with a record, and no client learns its words or is asked for its password',
  async (t) => {
    const wrong = 'wrong-guess';
    const all = await behindParent(t, wrong);
    const { gw, send, through, execute, recordOf, upstream, proxy, lines } = all;
    const said =
      /^The parent proxy refused the way to [a-z.]+:\d+ with 407: it asks for a user and a password, or does not accept those of GW_UPSTREAM_PROXY\.$/;
    const answers = [await send(chat()), await through('api.openai.com:443', chat([], PATH)), await overH2(t, all)];
    for (const answer of answers) {
      t.equal(answer.status, 502);
      t.match(JSON.parse(answer.body.toString()), { reason: said, reason_codes: ['upstream_unreachable'] });
      t.notOk('proxy-authenticate' in answer.headers);
      t.match(await recordOf(answer), { decision: 'error', reason: said, reason_codes: ['upstream_unreachable'] });
    }
    const structured = await execute();
    t.match(structured, { status: 502, body: { decision: 'error', reason: said } });
    const plain = await send(chat([], `http://api.openai.com${PATH}`));
    t.match(plain, { status: 502 });
    t.notOk('proxy-authenticate' in plain.headers);
    const tunnel: unknown = await openTunnel(gw.port, 'www.example.com:443').catch((error: unknown) => error);
    t.ok(tunnel instanceof ConnectRefused && tunnel.status === 502, 'the tunnel is refused before it is said to stand');
    t.match(tunnel, { body: /parent proxy refused/ });
    const told = [JSON.stringify([answers, structured, plain, tunnel]), answers.map(({ body }) => body).join(), plain.body.toString()];
    const everywhere = [...told, lines.join('\n'), stored(gw.dataDir)].join('\n');
    for (const secret of [wrong, Buffer.from(`gateway:${wrong}`).toString('base64'), PARENT_BODY])
      t.notOk(everywhere.includes(secret), secret);
    t.same([upstream.connections, proxy.requests.length], [0, 6]);
  },
);

t.test('a stream through the parent proxy flows as it comes, and a client that goes ends it at the origin', async (t) => {
  let gone = false;
  const { gw, proxy } = await behindParent(t, PASSWORD, (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: {"choices":[]}\n\n');
    response.on('close', () => {
      gone = true;
    });
  });
  const socket = await connectThrough(gw.port, 'api.openai.com:443', gw.caPem);
  const body = JSON.stringify({ ...CHAT, stream: true });
  socket.write(
    `POST ${PATH} HTTP/1.1\r\nHost: api.openai.com\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  await until(() => text.includes('data: {"choices":[]}'));
  socket.destroy();
  await until(() => gone && proxy.open === 0);
  const id = /x-gw-record-id: (\S+)/i.exec(text)?.[1] ?? '';
  let record: Record<string, unknown> = {};
  for (let i = 0; record['stream_outcome'] === undefined && i < 100; i++) {
    record = await gw.record(id);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  t.match(record, { decision: 'allow', stream_outcome: 'aborted' });
});
