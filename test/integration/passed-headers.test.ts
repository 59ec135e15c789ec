import t from 'tap';
import { ALLOW_ALL, CHAT, startGoverned } from '../support/governed.ts';

const ADVICE = {
  'retry-after': '17',
  'retry-after-ms': '16500',
  'x-should-retry': 'true',
  'x-ratelimit-remaining-requests': '0',
  'X-RateLimit-Reset-Tokens': '6ms',
  'anthropic-ratelimit-input-tokens-remaining': '12',
  'RateLimit-Policy': '10;w=60',
  ratelimit: 'limit=10',
  'x-request-id': 'req_provider',
  'request-id': 'req_other',
} as const;
const OTHERS = {
  'set-cookie': 'a=1',
  etag: '"x"',
  server: 'theirs',
  'openai-version': '2020',
  'x-ratelimits': 'no such field',
  'x-gw-decision': 'forged',
  'x-gw-ratelimit-limit': 'forged',
  'content-language': 'de',
} as const;

t.test('what a provider says of trying again stands on the answer of the structured API', async (t) => {
  const { execute } = await startGoverned(t, {
    bundle: ALLOW_ALL,
    handler: (request, response) => {
      const status = Number(request.headers['x-status'] ?? 429);
      response.writeHead(status, { ...ADVICE, ...OTHERS, 'content-type': String(request.headers['x-type'] ?? 'application/json') });
      response.end(String(request.headers['x-type']) === 'text/event-stream' ? 'data: [DONE]\n\n' : '{"error":{"message":"slow down"}}');
    },
  });
  const asked = (status: number, params: object = CHAT, type = 'application/json') =>
    execute({}, { params, headers: { 'X-Status': String(status), 'X-Type': type } });
  const streaming = { ...CHAT, stream: true };
  for (const [what, answer, status] of [
    ['whole', await asked(429), 429],
    ['whole, and well', await asked(200), 200],
    ['overloaded', await asked(529), 529],
    ['a stream that is answered without events', await asked(429, streaming), 429],
    ['text', await asked(503, CHAT, 'text/plain'), 503],
    ['a stream that is answered by text', await asked(503, streaming, 'text/plain'), 503],
  ] as const) {
    t.match(answer, { status: 200, body: { result: { status_code: status } } }, what);
    for (const [name, value] of Object.entries(ADVICE)) t.equal(answer.headers.get(name), value, `${what}: ${name}`);
    for (const name of Object.keys(OTHERS)) if (name !== 'x-gw-decision') t.notOk(answer.headers.get(name), `${what}: ${name}`);
    t.equal(answer.headers.get('content-type'), 'application/json');
    t.equal(answer.headers.get('x-gw-decision'), 'allow');
  }
  const events = await asked(200, streaming, 'text/event-stream');
  t.match(events.text, /DONE/);
  for (const [name, value] of Object.entries(ADVICE)) t.equal(events.headers.get(name), value, `events: ${name}`);
});

t.test('an answer that is given again does not say to wait', async (t) => {
  const { execute } = await startGoverned(t, {
    bundle: ALLOW_ALL,
    handler: (_request, response) => void response.writeHead(400, { ...ADVICE, 'content-type': 'application/json' }).end('{}'),
  });
  const key = { idempotency_key: 'k1' };
  t.equal((await execute(key)).headers.get('retry-after'), '17');
  const again = await execute(key);
  t.equal(again.headers.get('idempotent-replayed'), 'true');
  t.notOk(again.headers.get('retry-after'));
});
