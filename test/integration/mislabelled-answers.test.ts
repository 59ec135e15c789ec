// An answer is what its first bytes say, whatever its Content-Type calls it: it leaves so, and is metered so (decisions
// 7.8, 7.9).
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { awsChunk, awsEvent } from '../support/aws-events.ts';
import { exactly } from '../support/exactly.ts';
import { ALLOW_ALL, chat, type Governed, startGoverned } from '../support/governed.ts';
import { connectThrough, h2Session, type RawResponse } from '../support/raw-clients.ts';
import type { HasTeardown } from '../support/temp-dir.ts';

const SSE = 'text/event-stream';
const NDJSON = 'application/x-ndjson';
const JSON_TYPE = 'application/json';
const AWS = 'application/vnd.amazon.eventstream';
const BEDROCK = 'bedrock-runtime.eu-west-1.amazonaws.com';
/** What servers, and what stands before them, call a stream; undefined: nothing. */
const LABELS = [
  'text/plain',
  JSON_TYPE,
  'application/octet-stream',
  undefined,
  'TEXT/PLAIN ;charset="utf-8"; x=y',
  'text/html',
  'binary/octet-stream',
];

const MESSAGES = [{ role: 'user', content: 'hello' }];
const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
const named = (type: string, value: object): string => `event: ${type}\n${data({ type, ...value })}`;
const line = (value: unknown): string => `${JSON.stringify(value)}\n`;
const USAGE = { prompt_tokens: 1000, completion_tokens: 100 };
const COUNTED = { tokens_in: 1000, tokens_out: 100, usage_reported: true };
const delta = (content: string, finish_reason: string | null = null): object => ({ index: 0, delta: { content }, finish_reason });
const candidates = [{ content: { parts: [{ text: 'Once' }] } }];
const GEMINI_USAGE = { usageMetadata: { promptTokenCount: 1000, candidatesTokenCount: 100 } };
const OPENAI_PIECES = [
  data({ choices: [delta('Once')] }),
  data({ choices: [delta('', 'stop')] }),
  data({ choices: [], usage: USAGE }),
  'data: [DONE]\n\n',
];

interface Format {
  readonly name: string;
  readonly host: string;
  readonly path: string;
  /** Of a call that asks for a stream, and what makes it ask for none. */
  readonly body: object;
  readonly unasked?: object;
  readonly type: string;
  /** Its events, each a write of its own. */
  readonly pieces: readonly (string | Buffer)[];
  /** The same answer as one JSON body. */
  readonly whole: object;
}

const CHAT = { model: 'gpt-4o-2024-05-13', messages: MESSAGES };
const OPENAI: Format = {
  name: 'OpenAI chat',
  host: 'api.openai.com',
  path: '/v1/chat/completions',
  body: { ...CHAT, stream: true },
  unasked: { stream: false },
  type: SSE,
  pieces: OPENAI_PIECES,
  whole: { choices: [{ message: { content: 'Once' }, finish_reason: 'stop' }], usage: USAGE },
};
const CLAUDE = [
  { type: 'message_start', message: { model: 'c', usage: { input_tokens: 1000, output_tokens: 1 } } },
  { type: 'content_block_delta', delta: { type: 'text_delta', text: 'Once' } },
  { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 100 } },
  { type: 'message_stop' },
];
const CLAUDE_WHOLE = { model: 'c', content: [], usage: { input_tokens: 1000, output_tokens: 100 } };
const OLLAMA: Format = {
  name: 'Ollama',
  host: 'ollama.com',
  path: '/api/chat',
  body: { model: 'llama3.2', messages: MESSAGES },
  unasked: { stream: false },
  type: NDJSON,
  pieces: [
    line({ message: { content: 'Once' }, done: false }),
    line({ message: { content: '' }, done: true, prompt_eval_count: 1000, eval_count: 100 }),
  ],
  whole: { message: { content: 'Once' }, done: true, prompt_eval_count: 1000, eval_count: 100 },
};
const GEMINI_PATH = '/v1beta/models/gemini-2.5-flash:streamGenerateContent';
const FORMATS: readonly Format[] = [
  OPENAI,
  {
    ...OPENAI,
    name: 'OpenAI chat, its finish reason last',
    pieces: [...OPENAI_PIECES.slice(0, 1), data({ choices: [delta('', 'length')], usage: USAGE })],
  },
  { ...OPENAI, name: 'OpenAI chat behind blanks and comments', pieces: ['\n\n', ': keep-alive\n\n', ...OPENAI_PIECES] },
  { ...OPENAI, name: 'OpenAI chat behind a byte order mark', pieces: ['\ufeff', ...OPENAI_PIECES] },
  {
    ...OPENAI,
    name: 'OpenAI chat with ids',
    pieces: ['id: 1\r\n', 'retry: 3\r\n', ...OPENAI_PIECES.map((piece) => piece.replaceAll('\n', '\r\n'))],
  },
  { ...OPENAI, name: 'Mistral', host: 'api.mistral.ai', body: { ...CHAT, model: 'mistral-small-latest', stream: true } },
  {
    name: 'OpenAI responses',
    host: 'api.openai.com',
    path: '/v1/responses',
    body: { model: 'gpt-4o-2024-05-13', input: 'hello', stream: true },
    unasked: { stream: false },
    type: SSE,
    pieces: [
      named('response.output_text.delta', { delta: 'Once' }),
      named('response.completed', { response: { status: 'completed', usage: { input_tokens: 1000, output_tokens: 100 } } }),
    ],
    whole: { status: 'completed', usage: { input_tokens: 1000, output_tokens: 100 } },
  },
  {
    name: 'Anthropic',
    host: 'api.anthropic.com',
    path: '/v1/messages',
    body: { model: 'claude-3-5-sonnet-20241022', max_tokens: 9, messages: MESSAGES, stream: true },
    unasked: { stream: false },
    type: SSE,
    pieces: CLAUDE.map((event) => named(event.type, event)),
    whole: CLAUDE_WHOLE,
  },
  {
    name: 'Gemini',
    host: 'generativelanguage.googleapis.com',
    path: `${GEMINI_PATH}?alt=sse`,
    body: { contents: [] },
    type: SSE,
    pieces: [data({ candidates }), data({ candidates, ...GEMINI_USAGE })],
    whole: { candidates, ...GEMINI_USAGE },
  },
  {
    name: 'Gemini as a list',
    host: 'generativelanguage.googleapis.com',
    path: GEMINI_PATH,
    body: { contents: [] },
    type: JSON_TYPE,
    pieces: [`[${JSON.stringify({ candidates })}`, `\n,\r\n${JSON.stringify({ candidates, ...GEMINI_USAGE })}`, '\n]'],
    whole: { candidates, ...GEMINI_USAGE },
  },
  {
    name: 'Cohere',
    host: 'api.cohere.com',
    path: '/v2/chat',
    body: { model: 'command-r7b-12-2024', messages: MESSAGES, stream: true },
    unasked: { stream: false },
    type: SSE,
    pieces: [
      named('content-delta', { delta: { message: { content: { text: 'Once' } } } }),
      named('message-end', { delta: { finish_reason: 'COMPLETE', usage: { tokens: { input_tokens: 1000, output_tokens: 100 } } } }),
    ],
    whole: { message: {}, usage: { tokens: { input_tokens: 1000, output_tokens: 100 } } },
  },
  {
    name: 'Cohere v1',
    host: 'api.cohere.com',
    path: '/v1/chat',
    body: { model: 'command-r7b-12-2024', message: 'hello', stream: true },
    unasked: { stream: false },
    type: 'application/stream+json',
    pieces: [
      line({ event_type: 'text-generation', text: 'Once' }),
      line({ event_type: 'stream-end', response: { meta: { tokens: { input_tokens: 1000, output_tokens: 100 } } } }),
    ],
    whole: { text: 'Once', meta: { tokens: { input_tokens: 1000, output_tokens: 100 } } },
  },
  OLLAMA,
  {
    name: 'Bedrock Converse',
    host: BEDROCK,
    path: '/model/amazon.nova-lite-v1%3A0/converse-stream',
    body: { messages: [{ role: 'user', content: [{ text: 'hello' }] }] },
    type: AWS,
    pieces: [
      awsEvent('contentBlockDelta', { delta: { text: 'Once' } }),
      awsEvent('messageStop', { stopReason: 'end_turn' }),
      awsEvent('metadata', { usage: { inputTokens: 1000, outputTokens: 100 } }),
    ],
    whole: { output: {}, usage: { inputTokens: 1000, outputTokens: 100 } },
  },
  {
    name: 'Claude on Bedrock',
    host: BEDROCK,
    path: '/model/anthropic.claude-3-haiku-20240307-v1%3A0/invoke-with-response-stream',
    body: { anthropic_version: 'bedrock-2023-05-31', max_tokens: 9, messages: MESSAGES },
    type: AWS,
    pieces: CLAUDE.map(awsChunk),
    whole: CLAUDE_WHOLE,
  },
];

interface Answer {
  readonly type: string | undefined;
  readonly pieces: readonly (string | Buffer)[];
  readonly status?: number;
  readonly encoding?: string;
  /** `cut`: the connection breaks; `wait`: each piece is written when the test says so. */
  readonly ending?: 'end' | 'cut' | 'wait';
}

interface Place extends Governed {
  next: Answer;
  /** Writes the next piece of an answer that waits; behind the last it ends. */
  more(): void;
  ask(format: Format, answer: Answer, body?: object): Promise<{ readonly answer: RawResponse; readonly record: Record<string, unknown> }>;
}

async function startPlace(t: HasTeardown, options: Parameters<typeof startGoverned>[1] = {}): Promise<Place> {
  const governed = await startGoverned(t, {
    hosts: [BEDROCK],
    bundle: ALLOW_ALL,
    ...options,
    handler: (_request, response, whole) => void whole.then(() => write(response)),
  });
  const write = (response: ServerResponse): void => {
    const { type, pieces, status = 200, encoding, ending = 'end' } = place.next;
    const fields = [
      ...(type === undefined ? [] : ['content-type', type]),
      ...(encoding === undefined ? [] : ['content-encoding', encoding]),
    ];
    response.writeHead(status, fields);
    let at = 0;
    const step = (): void => {
      const piece = pieces[at++];
      if (piece !== undefined) response.write(piece, () => ending !== 'wait' && setImmediate(step));
      else if (ending === 'cut') response.destroy();
      else response.end();
    };
    place.more = step;
    if (ending !== 'wait') step();
  };
  const place: Place = {
    ...governed,
    next: { type: SSE, pieces: [] },
    more: () => undefined,
    ask: async ({ host, path, body }, answer, asked = body) => {
      place.next = answer;
      const given = await governed.through(`${host}:443`, chat([], path, asked));
      return { answer: given, record: await governed.recordOf(given) };
    },
  };
  return place;
}

const bytesOf = (pieces: readonly (string | Buffer)[]): Buffer => Buffer.concat(pieces.map((piece) => Buffer.from(piece)));
const byByte = (bytes: Buffer): readonly Buffer[] => [...bytes].map((byte) => Buffer.from([byte]));
const essence = ({ stream_outcome, metering, response_sha256, response_bytes }: Record<string, unknown>) => ({
  stream_outcome,
  metering,
  response_sha256,
  response_bytes,
});

t.test('a stream that is called something else is metered as one, passes byte for byte and keeps its label', async (t) => {
  const place = await startPlace(t);
  for (const format of FORMATS) {
    await t.test(format.name, async (t) => {
      const { record: right } = await place.ask(format, { type: format.type, pieces: format.pieces });
      t.match(right, { stream_outcome: 'complete', metering: COUNTED });
      const bytes = bytesOf(format.pieces);
      const cuts = {
        'by event': format.pieces,
        'in one': [bytes],
        'its first byte alone': [bytes.subarray(0, 1), bytes.subarray(1)],
        'by byte': byByte(bytes),
      };
      for (const [at, label] of [...LABELS, SSE, NDJSON].entries()) {
        for (const [cut, pieces] of Object.entries(cuts).slice(0, at === 0 ? 4 : 1)) {
          const { answer, record } = await place.ask(format, { type: label, pieces });
          t.ok(answer.body.equals(bytes), `${label}, ${cut}: the bytes`);
          t.equal(answer.headers['content-type'], label, `${label}, ${cut}: the label`);
          t.strictSame(essence(record), essence(right), `${label}, ${cut}`);
        }
      }
    });
  }
});

t.test('it leaves event by event', async (t) => {
  const place = await startPlace(t);
  for (const { name, host, path, body, pieces } of FORMATS) {
    place.next = { type: 'text/plain', pieces, ending: 'wait' };
    const socket = await connectThrough(place.gw.port, `${host}:443`, place.gw.caPem, { alpn: ['h2'] });
    const session = h2Session(socket, host);
    t.teardown(() => session.destroy());
    const begun = place.upstream.requests.length;
    const request = session.request({ ':method': 'POST', ':path': path, 'content-type': JSON_TYPE, authorization: 'Bearer k' });
    request.end(JSON.stringify(body));
    while (place.upstream.requests.length === begun || !(await place.upstream.requests.at(-1)?.complete))
      await new Promise((resolve) => setImmediate(resolve));
    await new Promise((resolve) => setImmediate(resolve));
    let seen = 0;
    request.on('data', (chunk: Buffer) => {
      seen += chunk.length;
    });
    let wanted = 0;
    for (const piece of pieces.slice(0, -1)) {
      wanted += Buffer.byteLength(piece);
      place.more();
      // Blanks and marks say nothing yet.
      if (Buffer.byteLength(piece) > 3) while (seen < wanted) await once(request, 'data');
    }
    t.equal(seen, wanted, name);
    place.more();
    place.more();
    await once(request, 'end');
  }
});

t.test('encoded streams too', async (t) => {
  const place = await startPlace(t);
  for (const format of FORMATS) {
    for (const [encoding, encode] of [
      ['gzip', gzipSync],
      ['br', brotliCompressSync],
    ] as const) {
      const bytes = encode(bytesOf(format.pieces));
      for (const type of new Set(['text/plain', format.type])) {
        for (const pieces of [[bytes], byByte(bytes)]) {
          const { answer, record } = await place.ask(format, { type, encoding, pieces });
          t.ok(answer.body.equals(bytes));
          t.match(record, { stream_outcome: 'complete', metering: COUNTED }, `${format.name}, ${encoding}, ${type}, ${pieces.length}`);
        }
      }
      const whole = encode(JSON.stringify(format.whole));
      const { answer, record } = await place.ask(format, { type: SSE, encoding, pieces: byByte(whole) });
      t.ok(answer.body.equals(whole));
      t.match(record, { metering: COUNTED }, `${format.name}, ${encoding}, whole`);
      t.notOk('stream_outcome' in record);
    }
  }
});

t.test('a plain answer that is called a stream is metered as one answer, and waits for its record', async (t) => {
  const place = await startPlace(t);
  for (const format of FORMATS) {
    for (const label of new Set(['text/plain', SSE, format.type])) {
      const text = JSON.stringify(format.whole);
      for (const body of [text, `${text}\n`, ` \r\n${JSON.stringify(format.whole, null, 2)}`]) {
        for (const pieces of [[body], byByte(Buffer.from(body))]) {
          const { answer, record } = await place.ask(format, { type: label, pieces });
          t.equal(answer.body.toString(), body, `${format.name}, ${label}`);
          t.equal(answer.headers['content-type'], label);
          t.notOk('stream_outcome' in record, `${format.name}, ${label}`);
          t.match(record, { metering: COUNTED, response_bytes: Buffer.byteLength(body) }, `${format.name}, ${label}`);
        }
      }
    }
  }
  const embeddings = { ...OPENAI, path: '/v1/embeddings', body: { model: 'text-embedding-3-small', input: 'hello' } };
  const embedded = await place.ask(embeddings, { type: SSE, pieces: ['{"data":[],"usage":{"prompt_tokens":5,"total_tokens":5}}'] });
  t.match(embedded.record, { action_type: 'ai.embed', metering: { tokens_in: 5, tokens_out: 0, usage_reported: true } });
  t.notOk('stream_outcome' in embedded.record, 'a format that never streams');
  const error = '{"error":{"message":"overloaded"}}';
  for (const status of [400, 429, 500]) {
    const { answer, record } = await place.ask(OPENAI, { type: SSE, status, pieces: [error] });
    t.match([answer.status, answer.body.toString()], [status, error]);
    t.notOk('stream_outcome' in record, 'an error is no stream that broke off');
  }
  const large = JSON.stringify({ choices: 'x'.repeat(200_000), usage: USAGE });
  const { answer, record } = await place.ask(OPENAI, { type: SSE, pieces: [large.slice(0, 90_000), large.slice(90_000)] });
  t.equal(answer.body.toString(), large);
  t.match(record, { metering: COUNTED });
});

t.test('a call that asks for no stream and is given one', async (t) => {
  const place = await startPlace(t);
  for (const format of FORMATS) {
    if (format.unasked === undefined) continue;
    const body = { ...format.body, ...format.unasked };
    for (const label of ['text/plain', JSON_TYPE, format.type]) {
      for (const pieces of [format.pieces, byByte(bytesOf(format.pieces))]) {
        const { answer, record } = await place.ask(format, { type: label, pieces }, body);
        t.ok(answer.body.equals(bytesOf(format.pieces)));
        t.match(record, { stream: false, stream_outcome: 'complete', metering: COUNTED }, `${format.name}, ${label}`);
      }
      const { record } = await place.ask(format, { type: label, pieces: [JSON.stringify(format.whole)] }, body);
      t.notOk('stream_outcome' in record, `${format.name}, ${label}, as asked`);
    }
  }
});

t.test('what only looks like a stream is none', async (t) => {
  const place = await startPlace(t);
  const plain: readonly (readonly [string, object, string])[] = [
    ['text', { ...CHAT }, 'data: the new oil'],
    ['text of several lines', { ...CHAT }, 'id: 5\nevent: a concert\nand more'],
    ['a list', { ...CHAT }, '[1,2]'],
    ['an asked stream that is a text', { ...CHAT, stream: true }, 'data: the new oil'],
    ['a word that begins as a field', { ...CHAT, stream: true }, 'dat'],
    ['a list for one that asked', { ...CHAT, stream: true }, '[{"choices":[]}]'],
    ['nothing', { ...CHAT, stream: true }, ''],
    ['blanks', { ...CHAT, stream: true }, ' \n'],
    ['bytes', { ...CHAT, stream: true }, '\0\0\0\x10\0\0\0\0\0\0\0\0'],
  ];
  for (const [name, body, text] of plain) {
    for (const pieces of [[text], byByte(Buffer.from(text))]) {
      const { answer, record } = await place.ask(OPENAI, { type: 'text/plain', pieces }, body);
      t.equal(answer.body.toString(), text, name);
      t.notOk('stream_outcome' in record, name);
    }
  }
  const refused = await place.ask(OPENAI, { type: 'text/plain', status: 400, pieces: OPENAI_PIECES });
  t.equal(refused.answer.status, 400);
  t.notOk('stream_outcome' in refused.record, 'what the provider refuses is held as any refusal');
});

t.test('a stream that breaks off before it has said what it is, or behind that', async (t) => {
  const place = await startPlace(t);
  const cut = (type: string, ...pieces: readonly string[]) => place.ask(OPENAI, { type, pieces, ending: 'cut' });
  await t.rejects(cut('text/plain', OPENAI_PIECES[0] ?? ''), 'the client sees that it broke off');
  await t.rejects(cut(SSE, ''), 'by its label its head has left');
  for (const text of ['dat', '\ufeff', 'data: ']) {
    const { answer, record } = await cut('text/plain', text);
    t.match([answer.status, record], [502, { decision: 'error', response_bytes: Buffer.byteLength(text) }], JSON.stringify(text));
  }
});

const DIRECT = { target_host: 'api.openai.com', params: { ...CHAT, stream: true } };

t.test('on the structured API a stream is called one, and an answer stands in its envelope', async (t) => {
  const place = await startPlace(t);
  const direct = async (answer: Answer, extra: object = {}, action: object = DIRECT) => {
    place.next = answer;
    return place.execute(extra, action);
  };
  for (const label of [...LABELS, SSE]) {
    for (const pieces of [OPENAI_PIECES, byByte(bytesOf(OPENAI_PIECES))]) {
      const answer = await direct({ type: label, pieces }, { idempotency_key: `k-${LABELS.indexOf(label)}-${pieces.length}` });
      t.equal(answer.text, OPENAI_PIECES.join(''), `${label}`);
      t.equal(answer.headers.get('content-type'), SSE, `${label}`);
      const record = await place.gw.record(answer.headers.get('x-gw-record-id') ?? '');
      t.match(record, { stream_outcome: 'complete', metering: { ...COUNTED, cost_usd: exactly('0.0065') } });
      const again = await direct({ type: label, pieces: [] }, { idempotency_key: `k-${LABELS.indexOf(label)}-${pieces.length}` });
      t.match([again.text, again.headers.get('content-type'), again.headers.get('idempotent-replayed')], [answer.text, SSE, 'true']);
    }
    const whole = await direct({ type: label === 'text/plain' ? SSE : label, pieces: byByte(Buffer.from(JSON.stringify(OPENAI.whole))) });
    t.equal(whole.status, 200);
    t.match(whole.text, /^\{"schema":"gw\.action_response\.v1".*"result":\{"status_code":200,"body":/);
    const record = await place.gw.record(String(whole.body['record_id']));
    t.match(record, { stream: true, metering: COUNTED });
    t.notOk('stream_outcome' in record);
  }
  const refused = await direct({ type: SSE, status: 429, pieces: ['{"error":{"message":"slow down"}}'] });
  t.match(refused, { status: 200, body: { result: { status_code: 429, body: { error: { message: 'slow down' } } } } });
  const gemini = { target_host: 'generativelanguage.googleapis.com', params: { model: 'gemini-2.5-flash', contents: [], stream: true } };
  const plain = await direct({ type: JSON_TYPE, pieces: [JSON.stringify({ candidates, ...GEMINI_USAGE })] }, {}, gemini);
  t.match(plain, { status: 200, body: { result: { status_code: 200, body: GEMINI_USAGE } } }, 'an object is no list of events');
  const events = await direct({ type: JSON_TYPE, pieces: [data({ candidates, ...GEMINI_USAGE })] }, {}, gemini);
  t.match([events.headers.get('content-type'), events.text], [SSE, /^data: /]);
  const ollama = { target_host: 'ollama.com', params: OLLAMA.body };
  const lines = await direct({ type: 'text/plain', pieces: OLLAMA.pieces }, {}, ollama);
  t.strictSame([lines.headers.get('content-type'), lines.text], [NDJSON, OLLAMA.pieces.join('')]);
});

async function capped(t: Test, env: Readonly<Record<string, string>>): Promise<Place> {
  const place = await startPlace(t, { env });
  await place.gw.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd: '0.05', actions: ['cap'] });
  return place;
}

t.test('under a cap its usage is asked for and kept from its caller, and it ends at the cap', async (t) => {
  for (const label of [...LABELS, SSE]) {
    const place = await capped(t, { GW_STREAM_STOP_AT_CAP: 'true' });
    const pieces = [
      data({ choices: [delta('Once')], usage: null }),
      data({ choices: [delta('', 'stop')], usage: null }),
      data({ choices: [], usage: USAGE }),
      'data: [DONE]\n\n',
    ];
    for (const cut of [pieces, byByte(bytesOf(pieces))]) {
      const { answer, record } = await place.ask(OPENAI, { type: label, pieces: cut }, { ...OPENAI.body, max_tokens: 200 });
      t.equal(answer.body.toString(), [...OPENAI_PIECES.slice(0, 2), 'data: [DONE]\n\n'].join(''), `${label}: nobody asked`);
      t.match(record, { stream_outcome: 'complete', metering: COUNTED });
    }
    const endless = Array.from({ length: 400 }, () => data({ choices: [delta('Once upon a time there was a cap. ')] }));
    const { answer, record } = await place.ask(OPENAI, { type: label, pieces: endless }, { ...OPENAI.body, max_tokens: 5 });
    t.match(
      record,
      { stream_outcome: 'aborted', error: { code: 'stream_stopped_at_cap' }, metering: { usage_reported: false } },
      `${label}`,
    );
    const last = answer.body.toString().trimEnd().split('\n\n').at(-1) ?? '';
    t.match(JSON.parse(last.slice('data: '.length)), { error: { code: 'budget_exceeded' }, record_id: record['record_id'] });
  }
});
