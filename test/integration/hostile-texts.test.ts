// Texts of a stranger are as long as he likes; what the gateway says of them, in records, answers, log lines and
// metrics, is short.
import t from 'tap';
import { createLogger } from '../../src/base/lib/log.ts';
import { bundleOf, CHAT, chat, type Governed, startGoverned } from '../support/governed.ts';
import { connectPlain, h1Request, type RawResponse } from '../support/raw-clients.ts';

/**
 * Of one record, one answer of ours, one log line. The most that a call in order can make is labels: 32 of 512
 * characters, which JSON may write with six each.
 */
const SHORT = 65_536;
const AT_MOST = 131_072;
/** A head has 64 KiB. */
const LONG = 60_000;

const text = (length: number): string => 'x'.repeat(length);

/** Reads all that a rule can read, so that it is observed, and lets everything pass. */
const CURIOUS = bundleOf(`  targets:
    - id: curious
      when:
        any:
          - {field: context.action.headers_present, contains: x-none}
          - {field: context.action.target_path, glob: "/none"}
          - {field: context.action.params.model, equals: none}
          - {field: context.labels.one, equals: none}
          - {field: context.purpose, equals: none}
          - {field: context.org_id, exists: true}
      effect: {decision: allow}
`);

interface Said {
  readonly name: string;
  readonly status: number;
  readonly answer: number;
  readonly record: number;
  readonly reason: string;
}

/** An answer that is ours, or at least its head, and the record that it names. */
async function said(
  name: string,
  { gw }: Governed,
  status: number,
  headers: Headers | RawResponse['headers'],
  body: string,
): Promise<Said> {
  const id = headers instanceof Headers ? headers.get('x-gw-record-id') : headers['x-gw-record-id'];
  const record = id ? await gw.admin('GET', `/v1/records/${id}`) : undefined;
  const answer = status >= 400 ? Buffer.byteLength(body) : 0;
  return { name, status, answer, record: record?.text.length ?? 0, reason: (record?.text ?? body).slice(0, 300) };
}

async function start(t: Parameters<typeof startGoverned>[0], handler?: NonNullable<Parameters<typeof startGoverned>[1]>['handler']) {
  const lines: number[] = [];
  const log = createLogger({ level: 'debug', format: 'json', destination: { write: (line: string) => void lines.push(line.length) } });
  const place = await startGoverned(t, { log, bundle: CURIOUS, ...(handler ? { handler } : {}) });
  return { place, lines };
}

function areShort(
  t: { same(found: unknown, wanted: unknown, text: string): void },
  found: readonly Said[],
  lines: readonly number[],
  limit = SHORT,
) {
  const tooLong = found.filter(({ answer, record }) => answer > limit || record > limit);
  t.same(tooLong, [], 'answers and records are short');
  t.same(
    lines.filter((length) => length > limit),
    [],
    'log lines are short',
  );
}

const ACTION = { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params: CHAT };
const ENVELOPE = {
  schema: 'gw.action_request.v2',
  org_id: 'default',
  workload_id: 'default',
  credential_hint: 'sk-caller',
  action: ACTION,
};
/** The envelope with members over it, and members over its action. */
const envelope = (extra: object, action: object = {}): string =>
  JSON.stringify({ ...ENVELOPE, action: { ...ACTION, ...action }, ...extra });
const many = (count: number, length: number): Record<string, number> =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`${n}${text(length)}`, n]));
const NAME = text(4 * SHORT);

const STRUCTURED: Readonly<Record<string, string>> = {
  'a path': envelope({}, { target_path: `/${text(64 * SHORT)}` }),
  'a path as long as one may be': envelope({}, { target_path: `/${text(8_000)}`, type: 'acme.call' }),
  'a query as long as one may be': envelope({}, { target_path: `/v1/x?${text(8_000)}`, type: 'acme.call' }),
  'a target': envelope({}, { target: `https://api.openai.com/${NAME}` }),
  'a host': envelope({}, { target_host: NAME }),
  'a method': envelope({}, { method: NAME }),
  'a type': envelope({}, { type: `a.${NAME}` }),
  'a type that is another': envelope({}, { type: 'ai.embed', target_path: `/v1/chat/completions/../${NAME}` }),
  'a model': envelope({}, { params: { ...CHAT, model: NAME } }),
  'a model that would stand in the path': envelope(
    {},
    { target_host: 'generativelanguage.googleapis.com', params: { model: NAME, contents: [] } },
  ),
  'a model in a path, twice': `{"org_id":"default",${envelope({}, { target_host: 'generativelanguage.googleapis.com', params: { model: NAME } }).slice(1)}`,
  'an id': envelope({ request_id: NAME, idempotency_key: NAME, connector_hint: NAME }),
  'a name of the envelope': envelope({ [NAME]: 1 }),
  'names of the envelope': envelope(many(200, 10_000)),
  'names of the action': envelope({}, many(200, 10_000)),
  'names of headers': envelope({}, { headers: many(90, 10_000) }),
  'a duplicate name': envelope({}).replace('"model"', `"${NAME}":1,"${NAME}":2,"model"`),
  'a duplicate name of controls': envelope({}).replace(
    '"model"',
    `"${'\\u0001'.repeat(100_000)}":1,"${'\\u0001'.repeat(100_000)}":2,"model"`,
  ),
  'a duplicate name of the envelope': envelope({}).replace('"org_id"', `"${NAME}":1,"${NAME}":2,"org_id"`),
  'a look-alike': envelope({}).replace('"model"', `"${'_'.repeat(4 * SHORT)}model":1,"model"`),
  'a number': envelope({}).replace('"model"', `"seed":${'9'.repeat(100_000)},"model"`),
  'texts that are ill-formed': envelope({ context: { purpose: '\ud800', labels: { [NAME]: '\ud800' } } }),
  'many that are ill-formed, each below long names': envelope(
    {},
    { params: { ...CHAT, [NAME]: Array.from({ length: 1_000 }, () => '\ud800') } },
  ),
  'no JSON': `{"${NAME}`,
  'a long text': JSON.stringify(NAME),
};

// Holds: no-content-in-records
t.test('what the structured API says of long texts is short', async (t) => {
  const { place, lines } = await start(t);
  const found: Said[] = [];
  for (const [name, body] of Object.entries(STRUCTURED)) {
    const response = await fetch(`${place.gw.url}/v1/actions:execute`, { method: 'POST', body });
    found.push(await said(name, place, response.status, response.headers, await response.text()));
  }
  areShort(t, found, lines);
  t.same(
    found.filter(({ status }) => status === 500).map(({ name, reason }) => `${name}: ${reason}`),
    [],
    'none of it is a fault of ours',
  );
  t.ok(found.filter(({ record }) => record > 0).length >= 5, 'some of it is on record');
});

t.test('a path beyond its limit is refused by name', async (t) => {
  const { place } = await start(t);
  const ask = async (action: object): Promise<unknown> => (await place.execute({}, action)).body;
  for (const [member, value] of [
    ['target_path', `/${text(8_192)}`],
    ['target', `https://api.openai.com/${text(8_192)}`],
  ] as const) {
    t.match(await ask({ [member]: value }), {
      error: { code: 'invalid_request', details: [{ path: `action.${member}`, message: 'must be at most 8192 characters' }] },
    });
  }
  t.match(await ask({ target_path: `/v1/chat/completions?x=${text(8_000)}` }), { decision: 'allow' });
});

t.test('the most that a call in order can say of itself is kept whole', async (t) => {
  const { place, lines } = await start(t);
  const label = (n: number): string => String(n).padEnd(256, '\u0001');
  const labels = Object.fromEntries(Array.from({ length: 32 }, (_, n) => [label(n), label(n)]));
  const whole = { customer_id: label(1), account_id: label(2), project_id: label(3), labels };
  const { status, headers } = await place.execute({ caller_id: label(4), attribution: whole, context: { purpose: label(5), labels } });
  t.equal(status, 200);
  const found = await said('labels', place, status, headers, '');
  areShort(t, [found], lines, AT_MOST);
  const record = await place.gw.record(headers.get('x-gw-record-id') ?? '');
  t.same(record['labels'], labels);
});

type Raw = readonly [options: Parameters<Governed['send']>[0]];
const headed = (name: string, value: string, path?: string): Raw => [chat([name, value], path)];
const bodied = (body: string, ...headers: string[]): Raw => [chat(headers, undefined, body)];
const partsOf = (names: readonly string[]): string =>
  `${names.map((name) => `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n1\r\n`).join('')}--b--\r\n`;

const form = (type: string, body: string): Raw => [
  {
    method: 'POST',
    path: '/proxy/openai/v1/audio/transcriptions',
    headers: ['Authorization', 'Bearer sk-client', 'Content-Type', type],
    body,
  },
];

const PROXIED: Readonly<Record<string, Raw>> = {
  'a path': [chat([], `/proxy/openai/v1/${text(LONG)}`)],
  'a query': [chat([], `/proxy/openai/v1/chat/completions?${text(LONG)}`)],
  'names of a query': [chat([], `/proxy/openai/v1/chat/completions?${Array.from({ length: 10_000 }, (_, n) => n).join('&')}`)],
  'a path that is refused': [chat([], `/proxy/openai/v1//${text(LONG)}`)],
  'a provider': [chat([], `/proxy/${text(LONG)}`)],
  'a path of nothing': [{ path: `/${text(LONG)}` }],
  'an absolute target': [chat([], `http://api.openai.com/${text(LONG)}`)],
  'an absolute target that is none': [chat([], `http://${text(LONG)}/`)],
  'names of headers': [chat(Array.from({ length: 400 }, (_, n) => [`x-${n}${text(100)}`, '1']).flat())],
  'a name of a header': headed(`x-${text(LONG)}`, '1'),
  'a method': [{ ...chat(), method: 'M'.repeat(1_000) }],
  'an org': headed('X-GW-Org-ID', text(LONG)),
  'a caller': headed('X-GW-Caller-ID', text(LONG)),
  'a workload': headed('X-GW-Workload-ID', text(128)),
  'a target host': headed('X-GW-Target-Host', text(LONG)),
  'a host': headed('Host', text(LONG)),
  'a forwarded address': headed('X-Forwarded-For', text(LONG)),
  'an origin': headed('Origin', `http://${text(LONG)}`),
  'a coding': headed('Content-Encoding', text(LONG)),
  'a model': bodied(JSON.stringify({ ...CHAT, model: NAME })),
  'a duplicate name': bodied(`{"${NAME}":1,"${NAME}":2}`),
  'a look-alike': bodied(`{"${'_'.repeat(4 * SHORT)}model":1,"model":"a"}`),
  'a number of tokens': bodied(JSON.stringify({ ...CHAT, max_tokens: NAME })),
  'a charset': bodied(JSON.stringify(CHAT), 'content-type', `application/json; charset=${text(50_000)}`),
  'a parameter twice': form(`multipart/form-data; ${text(20_000)}=1; ${text(20_000)}=2`, ''),
  'a kind of form': form(`multipart/${text(50_000)}`, ''),
  'a field twice': form('multipart/form-data; boundary=b', partsOf([text(8_000), text(8_000)])),
  'a field that is coded': form('multipart/form-data; boundary=b', partsOf([`%${text(8_000)}`])),
  'a pair twice': form('application/x-www-form-urlencoded', `${NAME}=1&${NAME}=2`),
};

// Holds: no-content-in-records
t.test('so is what the proxied doors say', async (t) => {
  const { place, lines } = await start(t);
  const found: Said[] = [];
  for (const [name, [options]] of Object.entries(PROXIED)) {
    const answer = await place.send(options);
    found.push(await said(name, place, answer.status, answer.headers, answer.body.toString()));
  }
  const socket = await connectPlain(place.gw.port);
  t.teardown(() => socket.destroy());
  const refused = await h1Request(socket, 'x', { method: 'CONNECT', path: `${text(LONG)}:443` });
  found.push(await said('a CONNECT', place, refused.status, refused.headers, refused.body.toString()));
  const inside = await place.through('api.openai.com:443', chat([], `/v1/chat/completions?${text(LONG)}`));
  found.push(await said('inside a tunnel', place, inside.status, inside.headers, inside.body.toString()));
  areShort(t, found, lines);
  t.same(
    found.filter(({ status }) => status === 500).map(({ name, reason }) => `${name}: ${reason}`),
    [],
    'none of it is a fault of ours',
  );
  t.ok(found.filter(({ record }) => record > 0).length >= 10, 'much of it is on record');
  const { text: metrics } = await place.gw.admin('GET', '/metrics');
  t.ok(
    metrics.split('\n').every(({ length }) => length < 1_000),
    'no line of the metrics is long',
  );
});

t.test('and what is taken over of an answer', async (t) => {
  const { place, lines } = await start(
    t,
    (_request, response, body) =>
      void body.then(() =>
        response
          .setHeader('content-type', 'application/json')
          .setHeader(`x-${text(20_000)}`, text(20_000))
          .end(JSON.stringify({ id: NAME, model: NAME, status: NAME, usage: { prompt_tokens: 1, completion_tokens: 2, [NAME]: 3 } })),
      ),
  );
  const found: Said[] = [];
  const proxied = await place.send(chat());
  found.push(await said('proxied', place, proxied.status, proxied.headers, ''));
  const { status, headers } = await place.execute();
  found.push(await said('structured', place, status, headers, ''));
  areShort(t, found, lines);
  t.same(
    found.map(({ record }) => record > 0),
    [true, true],
  );
});
