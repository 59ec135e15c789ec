// Nobody is turned away unseen: what leaves no record leaves a line of the log and a count, and an address that is not
// public always leaves a record.
import { once } from 'node:events';
import type { IncomingHttpHeaders } from 'node:http2';
import t, { type Test } from 'tap';
import { createLogger } from '../../src/base/lib/log.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { connectPlain, connectThrough, h1Request, h2Session, readToEnd } from '../support/raw-clients.ts';

interface Line {
  readonly level: string;
  readonly msg: string;
  readonly [field: string]: unknown;
}

const UNRECORDED = 'a request was refused without a record';
const FAILED = 'authentication failed';

async function start(t: Test, env: Readonly<Record<string, string>> = {}) {
  const texts: string[] = [];
  const log = createLogger({ level: 'info', format: 'json', destination: { write: (text) => void texts.push(text) } });
  const clock = fakeClock();
  const gw = await startTestGateway(t, { log, clock, env });
  /** The lines about requests since it was last asked. */
  const lines = (): readonly Line[] =>
    texts
      .splice(0)
      .map((text) => JSON.parse(text) as Line)
      .filter(({ msg }) => msg === UNRECORDED || msg === FAILED);
  return { gw, clock, lines, texts };
}

/** Sends one request as text and gives all that comes until the gateway closes. */
async function say(t: Test, port: number, text: string): Promise<string> {
  const socket = await connectPlain(port);
  t.teardown(() => socket.destroy());
  socket.write(text, 'latin1');
  return (await readToEnd(socket)).toString('latin1');
}

async function counted(gw: TestGateway, name: string): Promise<Readonly<Record<string, number>>> {
  const { text } = await gw.admin('GET', '/metrics');
  const rows = [...text.matchAll(new RegExp(`^${name}\\{([^}]*)\\} (\\d+)$`, 'gm'))];
  return Object.fromEntries(rows.map(([, labels = '', count = '']) => [labels, Number(count)] as const).filter(([, count]) => count > 0));
}

// Holds: no-silent-refusal
t.test('a request that is refused without a record is one line that says who, what and why, and one count', async (t) => {
  const { gw, lines } = await start(t, { GW_NODE_ID: 'node-1' });
  const { port, ambientPort } = gw;
  const table: readonly (readonly [string, number, string, number, string | undefined])[] = [
    ['CONNECT example.com:22 HTTP/1.1\r\nHost: x\r\n\r\n', 403, 'connect_refused', port, 'CONNECT example.com:22'],
    [`CONNECT localhost:${port} HTTP/1.1\r\nHost: x\r\n\r\n`, 403, 'connect_refused', ambientPort, undefined],
    ['CONNECT nonsense HTTP/1.1\r\nHost: x\r\n\r\n', 400, 'invalid_target', port, 'CONNECT nonsense'],
    [`CONNECT a.example:443 HTTP/1.1\r\nHost: x\r\nVia: 1.1 gw-node-1\r\n\r\n`, 508, 'loop_detected', port, 'CONNECT a.example:443'],
    ['nonsense\r\n\r\n', 400, 'bad_framing', port, undefined],
    ['GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n', 400, 'bad_framing', port, 'GET /'],
    [`GET / HTTP/1.1\r\nHost: x\r\nA: ${'x'.repeat(70_000)}\r\n\r\n`, 431, 'headers_too_large', port, undefined],
    ['GET /nowhere?secret=1 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n', 404, 'not_found', port, 'GET /nowhere'],
    ['DELETE /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n', 405, 'method_not_allowed', port, 'DELETE /healthz'],
    ['GET /proxy/openai/v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n', 404, 'not_found', ambientPort, undefined],
    ['GET /healthz HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n', 421, 'misdirected_request', port, 'GET /healthz'],
    ['GET /proxy/nobody/v1 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n', 400, 'no_target_host', port, 'GET /proxy/nobody/v1'],
    [
      'POST /proxy/openai/v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Encoding: rot13\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}',
      415,
      'unsupported_encoding',
      port,
      'POST /proxy/openai/v1/chat/completions',
    ],
  ];
  const expected: Record<string, number> = {};
  for (const [text, status, code, to, request] of table) {
    const answer = await say(t, to, text);
    t.match(answer, new RegExp(`^HTTP/1\\.1 ${status} `), text.slice(0, 60));
    const [line, ...more] = lines();
    t.same(more, [], 'one line');
    t.match(
      line,
      { msg: UNRECORDED, code, status, caller_ip: '127.0.0.1', traffic_class: to === port ? 'developer' : 'ambient' },
      text.slice(0, 60),
    );
    if (request !== undefined) t.equal(line?.['request'], request);
    t.ok(String(line?.['reason']).length > 10, 'in words');
    const label = `code="${code}"`;
    expected[label] = (expected[label] ?? 0) + 1;
  }
  const h2 = h2Session(await connectThrough(port, 'api.openai.com:443', gw.caPem, { alpn: ['h2'] }), 'api.openai.com');
  t.teardown(() => h2.destroy());
  const nested = h2.request({ ':method': 'CONNECT', ':authority': 'other.example:443' });
  const [headers] = (await once(nested, 'response')) as [IncomingHttpHeaders];
  nested.destroy();
  t.equal(headers[':status'], 400);
  t.match(lines(), [{ code: 'invalid_target', request: /^CONNECT / }], 'on h2');
  const inside = await connectThrough(port, 'api.openai.com:443', gw.caPem);
  t.teardown(() => inside.destroy());
  inside.write('GET /v1?q HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n');
  t.match((await readToEnd(inside)).toString(), /^HTTP\/1\.1 400 /);
  t.match(lines(), [{ code: 'bad_framing', request: 'GET /v1 in a tunnel to api.openai.com:443' }], 'inside a tunnel');
  for (const code of ['invalid_target', 'bad_framing']) expected[`code="${code}"`] = (expected[`code="${code}"`] ?? 0) + 1;
  t.same(await counted(gw, 'gw_unrecorded_requests_total'), expected);
});

t.test('of a refused target no user and no password is told, whatever its form and length', async (t) => {
  const { gw, lines, texts } = await start(t, {});
  const token = `hidden${'0'.repeat(600)}`;
  const table: readonly (readonly [string, string])[] = [
    ['CONNECT u:hidden@a.example:443', 'CONNECT a.example:443'],
    [`CONNECT u:${token}@a.example:443`, 'CONNECT a.example:443'],
    ['CONNECT https://u:hid/hidden@a.example:443', 'CONNECT a.example:443'],
    ['GET ftp://u:hidden@a.example/@b?hidden', 'GET ftp://a.example/@b'],
    [`GET http://u:${token}@a.example/c`, 'GET http://a.example/c'],
    ['GET http://a@hidden@a.example', 'GET http://a.example'],
    ['GET ftp://a.example/@b', 'GET ftp://a.example/@b'],
    ['GET ftp://a.example?u@hidden', 'GET ftp://a.example'],
  ];
  for (const [first, request] of table) {
    t.match(await say(t, gw.port, `${first} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`), /^HTTP\/1\.1 400 /, first.slice(0, 60));
    t.match(lines(), [{ msg: UNRECORDED, code: 'invalid_target', request }], first.slice(0, 60));
  }
  t.notMatch(texts.join(''), /hidden/);
});

t.test('a failed authentication names its caller, what was asked for, and the workload, never a token', async (t) => {
  const { gw, lines, texts } = await start(t, { GW_METRICS_TOKEN: 'metrics-token-0123456789', GW_PROXY_AUTH: 'required' });
  await gw.admin('PUT', '/v1/admin/workloads', { workload_id: 'team-a' });
  await gw.admin('POST', '/v1/admin/workloads/team-a/token', {});
  lines();
  const basic = (user: string) => `Proxy-Authorization: Basic ${Buffer.from(`${user}:gwt_wrong-token`).toString('base64')}\r\n`;
  const get = (path: string, fields = ''): string => `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n${fields}\r\n`;
  const table: readonly (readonly [string, number, Record<string, unknown>])[] = [
    [get('/v1/admin/workloads?x=1'), 401, { surface: 'admin', reason: 'missing_header', request: 'GET /v1/admin/workloads' }],
    [
      get('/v1/records/r1', 'GW-Admin-Token: guess-wrong-token\r\n'),
      401,
      { surface: 'admin', reason: 'invalid_key', request: 'GET /v1/records/r1' },
    ],
    [get('/metrics', 'Authorization: Bearer wrong-token\r\n'), 401, { surface: 'metrics', reason: 'invalid_key', request: 'GET /metrics' }],
    [
      `CONNECT api.openai.com:443 HTTP/1.1\r\nHost: x\r\n${basic('team-a')}\r\n`,
      407,
      { surface: 'proxy', reason: 'invalid_key', request: 'CONNECT api.openai.com:443', workload_id: 'team-a' },
    ],
    ['CONNECT www.example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n', 407, { surface: 'proxy', reason: 'missing_header' }],
    [
      `GET http://www.example.com/a HTTP/1.1\r\nHost: www.example.com\r\nConnection: close\r\n${basic('x'.repeat(300))}\r\n`,
      407,
      { surface: 'proxy', reason: 'invalid_key', request: 'GET http://www.example.com/a', workload_id: `${'x'.repeat(200)}…` },
    ],
    [
      get('/proxy/openai/v1/models', 'X-GW-Workload-ID: team-a\r\nX-GW-Workload-Token: gwt_wrong-token\r\n'),
      401,
      { surface: 'proxy', reason: 'invalid_key', org_id: 'default', workload_id: 'team-a' },
    ],
  ];
  for (const [text, status, expected] of table) {
    texts.length = 0;
    t.match(await say(t, gw.port, text), new RegExp(`^HTTP/1\\.1 ${status} `));
    t.notMatch(texts.join(''), 'wrong-token', 'never the token');
    t.match(lines(), [{ level: 'warn', msg: FAILED, caller_ip: '127.0.0.1', ...expected }], text.slice(0, 50));
  }
  const { text } = await gw.admin('GET', '/v1/admin/workloads');
  t.ok(text.includes('team-a'));
  const metrics = await fetch(`${gw.url}/metrics`, { headers: { authorization: 'Bearer metrics-token-0123456789' } });
  const failures = [...(await metrics.text()).matchAll(/^gw_auth_failures_total\{(.*)\} ([1-9]\d*)$/gm)].map(
    ([, labels, count]) => `${labels} ${count}`,
  );
  t.same(failures.sort(), ['reason="invalid_key",org_id="default" 5', 'reason="missing_header",org_id="default" 2']);
});

t.test('a flood of refusals is counted whole, and is a few lines that say how many they stand for', async (t) => {
  const { gw, clock, lines } = await start(t);
  const flood = async (count: number, path: string, status: number, token = ''): Promise<void> => {
    for (let i = 0; i < count; i++) t.equal((await fetch(gw.url + path, { headers: { 'GW-Admin-Token': token } })).status, status);
  };
  await flood(100, '/v1/admin/workloads', 401, 'guess');
  t.equal(lines().length, 20);
  await flood(30, '/nowhere', 404);
  t.equal(lines().length, 20, 'each kind has its own');
  clock.advance(10_000);
  await flood(1, '/v1/admin/workloads', 401, 'guess');
  t.match(lines(), [{ msg: FAILED, suppressed: 80 }]);
  t.same(await counted(gw, 'gw_auth_failures_total'), { 'reason="invalid_key",org_id="default"': 101 });
  t.same(await counted(gw, 'gw_unrecorded_requests_total'), { 'code="unauthorized"': 101, 'code="not_found"': 30 });
});

// Holds: no-silent-refusal
t.test('an address that is not public is refused with a record, whatever the door and whoever asked', async (t) => {
  const denied = {
    decision: 'deny',
    status_code: 403,
    reason_codes: ['egress_denied'],
    error: { code: 'egress_denied' },
    connection_type: 'connect_proxy',
  };
  for (const mode of ['pass', 'inspect']) {
    const { gw, lines } = await start(t, { GW_PROXY_NON_AI: mode });
    const recordIn = async (text: string): Promise<Record<string, unknown>> => {
      const id = /x-gw-record-id: (\S+)/i.exec(text)?.[1] ?? /\(record ([\w-]+)\)/.exec(text)?.[1];
      t.ok(id, `${mode}: its record is named`);
      return gw.record(String(id));
    };
    const absolute = 'GET http://10.1.2.3/admin?q=1 HTTP/1.1\r\nHost: 10.1.2.3\r\nX-GW-Caller-ID: somebody\r\nConnection: close\r\n\r\n';
    const plain = await say(t, gw.port, absolute);
    t.match(plain, /^HTTP\/1\.1 403 /);
    t.match(await recordIn(plain), {
      ...denied,
      action_method: 'GET',
      target_host: '10.1.2.3',
      target_path: '/admin?q',
      caller_id: 'somebody',
      record_tier: 'action',
    });
    const upgrade = absolute.replace(
      'Connection: close',
      'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
    );
    const socket = await say(t, gw.port, upgrade);
    t.match(socket, /^HTTP\/1\.1 403 /);
    t.match(await recordIn(socket), { ...denied, target_host: '10.1.2.3' });
    if (mode === 'pass') {
      const connect = await say(t, gw.ambientPort, 'CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: x\r\n\r\n');
      t.match(connect, /^HTTP\/1\.1 403 .*"code":"egress_denied"/s);
      const record = {
        ...denied,
        action_method: 'CONNECT',
        target_host: '169.254.169.254',
        traffic_class: 'ambient',
        record_tier: 'connection',
      };
      t.match(await recordIn(connect), record);
    } else {
      const inside = await connectThrough(gw.port, '10.1.2.3:443', gw.caPem);
      t.teardown(() => inside.destroy());
      const answer = await h1Request(inside, '10.1.2.3', { path: '/inside' });
      t.equal(answer.status, 403);
      t.match(await gw.record(String(answer.headers['x-gw-record-id'])), { ...denied, target_host: '10.1.2.3', target_path: '/inside' });
    }
    t.same(lines(), [], 'they need no line of their own: a record has one');
  }
});
