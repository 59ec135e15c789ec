// One id leads from an answer to the line of the log, to the record and to the trace, on every door; and nothing else
// of a request is in a line (decision 12.8).
import { once } from 'node:events';
import type { IncomingHttpHeaders } from 'node:http2';
import t, { type Test } from 'tap';
import { FAILURE_FIELDS, LINE_FIELDS, REFUSAL_FIELDS, REQUEST_FIELDS, STAGE_FIELDS } from '../../src/app/log-fields.ts';
import { createLogger } from '../../src/base/lib/log.ts';
import { bundleOf, CHAT, chat, startGoverned } from '../support/governed.ts';
import { RESPONSES, scene } from '../support/metered-sockets.ts';
import { connectPlain, connectThrough, h2Session, readToEnd } from '../support/raw-clients.ts';

type Line = Readonly<Record<string, unknown>>;

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const TRACED = ['traceparent', `00-${TRACE}-00f067aa0ba902b7-01`];
const RULES = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
    - {id: no, when: {field: context.action.params.user, equals: mallory}, effect: {decision: deny, reason: not you}}
    - {id: closed, when: {field: action.target_host, equals: api.cohere.com}, effect: {decision: deny, reason: closed}}
`);
const FIELDS: Readonly<Record<string, object>> = {
  request: REQUEST_FIELDS,
  'a request was refused without a record': REFUSAL_FIELDS,
  'authentication failed': FAILURE_FIELDS,
  stage: STAGE_FIELDS,
};

function gathered() {
  const lines: Line[] = [];
  const log = createLogger({ level: 'trace', format: 'json', destination: { write: (text) => void lines.push(JSON.parse(text) as Line) } });
  return { lines, log };
}

/** A CONNECT as text; the head of its answer. */
async function connect(t: Test, port: number, head: string): Promise<Record<string, string>> {
  const socket = await connectPlain(port);
  t.teardown(() => socket.destroy());
  socket.write(`${head}\r\n\r\n`);
  const text = await new Promise<string>((resolve) => {
    let all = '';
    socket.on('data', (bytes: Buffer) => {
      all += bytes.toString('latin1');
      if (all.includes('\r\n\r\n')) resolve(all);
    });
  });
  return Object.fromEntries(
    [...text.matchAll(/^(x-gw-[a-z-]+): (.*)\r$/gim)].map(([, name = '', value = '']) => [name.toLowerCase(), value]),
  );
}

t.test('a recorded answer names the record that its line names, on every door, let through or refused', async (t) => {
  const { lines, log } = gathered();
  const { gw, send, through, execute } = await startGoverned(t, { log, bundle: RULES });
  const h2 = h2Session(await connectThrough(gw.port, 'api.openai.com:443', gw.caPem, { alpn: ['h2'] }), 'api.openai.com');
  t.teardown(() => h2.destroy());
  const asked = h2.request({
    ':method': 'POST',
    ':path': '/v1/chat/completions',
    'content-type': 'application/json',
    traceparent: TRACED[1],
  });
  asked.end(JSON.stringify(CHAT));
  const [overH2] = (await once(asked, 'response')) as [IncomingHttpHeaders];
  asked.resume();
  const denied = { ...CHAT, user: 'mallory' };
  const answers: Record<string, { get(name: string): unknown }> = {};
  const flat = (headers: object) => ({ get: (name: string) => Reflect.get(headers, name) as unknown });
  answers['redirect'] = flat((await send(chat(TRACED))).headers);
  answers['redirect, denied'] = flat((await send(chat(TRACED, undefined, denied))).headers);
  answers['tunnel'] = flat((await through('api.openai.com:443', chat(TRACED, '/v1/chat/completions'))).headers);
  answers['stream'] = flat((await through('api.openai.com:443', chat(TRACED, '/v1/chat/completions', { ...CHAT, stream: true }))).headers);
  answers['h2'] = flat(overH2);
  answers['direct'] = (await execute({ request_id: 'my-own-id' }, {}, { traceparent: TRACED[1] ?? '' })).headers;
  answers['direct, denied'] = (await execute({}, { params: denied }, { traceparent: TRACED[1] ?? '' })).headers;
  for (const [name, headers] of Object.entries(answers)) {
    const id = String(headers.get('x-gw-record-id'));
    const record = await gw.record(id);
    const line = lines.find((one) => one['record_id'] === id && one['msg'] === 'request');
    t.match(
      line,
      { request_id: headers.get('x-gw-request-id'), trace_id: TRACE, decision: record['decision'], status: record['status_code'] },
      name,
    );
    t.match(record, { request_id: headers.get('x-gw-request-id'), trace_id: TRACE }, name);
  }
  t.equal(answers['direct']?.get('x-gw-request-id'), 'my-own-id');
});

t.test('so do a CONNECT that is decided by its host, and the handshake of a WebSocket', async (t) => {
  const { lines, log } = gathered();
  const { gw } = await startGoverned(t, { log, bundle: RULES, env: { GW_PROXY_MITM_ENABLED: 'false' } });
  for (const host of ['api.openai.com', 'api.cohere.com']) {
    const headers = await connect(t, gw.port, `CONNECT ${host}:443 HTTP/1.1\r\nHost: ${host}:443\r\n${TRACED.join(': ')}`);
    const decision = host === 'api.openai.com' ? 'allow' : 'deny';
    t.match(await gw.record(headers['x-gw-record-id'] ?? ''), { decision, trace_id: TRACE, request_id: headers['x-gw-request-id'] }, host);
    t.match(
      lines.find((line) => line['msg'] === 'request' && line['record_id'] === headers['x-gw-record-id']),
      { msg: 'request', decision, host },
    );
  }
  const sockets = await scene(t, {});
  const { headers } = await sockets.open(RESPONSES);
  t.match(await sockets.gw.record(String(headers['x-gw-record-id'])), {
    record_tier: 'connection',
    request_id: headers['x-gw-request-id'],
  });
});

t.test('a refusal without a record names the id that its line names, on every door', async (t) => {
  const { lines, log } = gathered();
  const { gw, send, execute } = await startGoverned(t, { log, bundle: RULES, env: { GW_PROXY_AUTH: 'required' } });
  const { port } = gw;
  const answers: Record<string, unknown> = {};
  const raw = async (text: string) => {
    const socket = await connectPlain(port);
    t.teardown(() => socket.destroy());
    socket.write(text, 'latin1');
    return /^x-gw-request-id: (.*)\r$/im.exec((await readToEnd(socket)).toString('latin1'))?.[1];
  };
  answers['no such route'] = (await send({ path: '/nowhere' })).headers['x-gw-request-id'];
  answers['an admin route without a token'] = (await send({ path: '/v1/admin/workloads' })).headers['x-gw-request-id'];
  answers['no token'] = (await send(chat())).headers['x-gw-request-id'];
  answers['a wrong token'] = (await send(chat(['X-GW-Workload-Token', 'gwt_wrong', 'X-GW-Workload-ID', 'default']))).headers[
    'x-gw-request-id'
  ];
  answers['not valid'] = (await send(chat(['X-GW-Org-ID', 'not valid', ...TRACED]))).headers['x-gw-request-id'];
  answers['the structured API'] = (await execute()).headers.get('x-gw-request-id');
  answers['a CONNECT without a token'] = (await connect(t, port, 'CONNECT api.openai.com:443 HTTP/1.1\r\nHost: x'))['x-gw-request-id'];
  answers['a CONNECT to a port'] = (await connect(t, port, 'CONNECT api.openai.com:22 HTTP/1.1\r\nHost: x'))['x-gw-request-id'];
  answers['no HTTP'] = await raw('nonsense\r\n\r\n');
  answers['two hosts'] = await raw('GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n');
  t.equal(new Set(Object.values(answers)).size, Object.keys(answers).length, 'each has its own');
  for (const [name, id] of Object.entries(answers)) {
    t.match(id, /^[0-9a-f]{8}-[0-9a-f-]{27}$/, name);
    t.equal(lines.filter((line) => line['request_id'] === id).length, 1, name);
  }
});

t.test('a line of a request has the fields of the reference page, and no other', async (t) => {
  const { lines, log } = gathered();
  const { gw, send, through, execute } = await startGoverned(t, { log, bundle: RULES });
  await send(chat(TRACED));
  await through('api.openai.com:443', chat([], '/v1/chat/completions', { ...CHAT, stream: true }));
  await execute({ caller_id: 'bob', attribution: { project_id: 'p' } });
  await send(chat(['X-GW-Org-ID', 'not valid']));
  await send({ path: '/v1/admin/workloads' });
  await gw.gateway.stop();
  const told = lines.filter(({ msg }) => String(msg) in FIELDS);
  t.ok(told.filter(({ msg }) => msg !== 'stage').length >= 5);
  t.ok(told.some(({ msg }) => msg === 'stage'));
  for (const { msg, ...line } of told) {
    const known = { ...LINE_FIELDS, ...FIELDS[String(msg)] } as Readonly<Record<string, { type: string }>>;
    for (const [name, value] of Object.entries(line)) {
      const type = Array.isArray(value) ? 'list of texts' : typeof value === 'string' ? 'text' : typeof value;
      t.equal(known[name]?.type, type, `${String(msg)}: ${name}`);
    }
  }
  t.match(
    told.find((line) => line['caller_id'] === 'bob'),
    {
      caller_ip: '127.0.0.1',
      tokens_in: 11,
      tokens_out: 7,
      bytes_in: Number,
      bytes_out: Number,
      upstream_ms: Number,
      duration_ms: Number,
      upstream_status: 200,
    },
  );
});
