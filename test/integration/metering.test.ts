// What a call is charged is what its provider reported, however the answer came and wherever it ended.
import t, { type Test } from 'tap';
import { eventually } from '../support/child.ts';
import { exactly } from '../support/exactly.ts';
import { ALLOW_ALL, type Governed, startGoverned } from '../support/governed.ts';
import type { UpstreamHandler } from '../support/tls-upstream.ts';

/** The next answer of the upstream: its pieces, each in a turn of its own, and how it ends. */
interface Answer {
  readonly type: string;
  readonly status?: number;
  readonly pieces: readonly string[];
  /** `cut`: the connection breaks; `hang`: nothing more comes. */
  readonly ending?: 'end' | 'cut' | 'hang';
  /** What the head says. */
  readonly length?: number;
}

const JSON_TYPE = 'application/json';
const SSE = 'text/event-stream';

let next: Answer = { type: JSON_TYPE, pieces: [] };
const handler: UpstreamHandler = (_request, response, body) =>
  void body.then(() => {
    const { type, status = 200, pieces, ending = 'end', length } = next;
    response.writeHead(status, { 'content-type': type, ...(length === undefined ? {} : { 'content-length': length }) });
    const step = (at: number): void => {
      const piece = pieces[at];
      if (piece !== undefined) response.write(piece, () => setImmediate(step, at + 1));
      else if (ending === 'end') response.end();
      else if (ending === 'cut') response.destroy();
    };
    response.flushHeaders();
    step(0);
  });

interface Seen {
  readonly status: number;
  readonly text: string | undefined;
  readonly record: Record<string, unknown>;
}

/** One call by base URL; `text` is undefined when the answer broke off. */
async function call({ gw }: Governed, path: string, body: object, answer: Answer): Promise<Seen> {
  next = answer;
  const response = await fetch(`${gw.url}/proxy${path}`, {
    method: 'POST',
    headers: { Authorization: 'Bearer k', 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await response.text().catch(() => undefined);
  return { status: response.status, text, record: await recordAt(gw, response) };
}

function recordAt(gw: Governed['gw'], { headers }: Response): Promise<Record<string, unknown>> {
  return eventually('the record', async () => {
    const { status, body } = await gw.admin('GET', `/v1/records/${headers.get('x-gw-record-id') ?? ''}`);
    return status === 200 ? (body as Record<string, unknown>) : undefined;
  });
}

const MESSAGES = [{ role: 'user', content: 'hello' }];
const OPENAI = '/openai/v1/chat/completions';
const CHAT = { model: 'gpt-4o-2024-05-13', messages: MESSAGES };
const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
const named = (type: string, value: object): string => `event: ${type}\n${data({ type, ...value })}`;
const NOTHING = { tokens_in: 0, tokens_out: 0, cost_usd: exactly('0'), usage_reported: false };

const GEMINI = '/gemini/v1beta/models/gemini-2.5-flash:streamGenerateContent';
const CHUNKS = [
  { candidates: [{ content: { parts: [{ text: 'Once ]' }] } }], usageMetadata: { promptTokenCount: 10, thoughtsTokenCount: 3 } },
  {
    candidates: [{ content: { parts: [{ text: ' upon' }] }, finishReason: 'STOP' }],
    usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 20, thoughtsTokenCount: 5 },
    modelVersion: 'gemini-2.5-flash',
  },
].map((chunk) => JSON.stringify(chunk));

t.test('a Gemini stream that is one JSON array leaves as it comes and is metered', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, handler });
  const [first = '', second = ''] = CHUNKS;
  const whole = await call(governed, GEMINI, { contents: [] }, { type: JSON_TYPE, pieces: [`[${first}`, `\n,\r\n${second}`, '\n]'] });
  t.equal(whole.text, `[${first}\n,\r\n${second}\n]`);
  t.match(whole.record, {
    stream: true,
    stream_outcome: 'complete',
    metering: { tokens_in: 10, tokens_out: 25, reasoning_tokens_out: 5, usage_reported: true },
  });

  next = { type: `${JSON_TYPE}; charset=UTF-8`, pieces: [`[${first}`, `\n,\r\n${second.slice(0, 40)}`], ending: 'hang' };
  const leaving = new AbortController();
  const begun = await fetch(`${governed.gw.url}/proxy${GEMINI}`, { method: 'POST', body: '{"contents":[]}', signal: leaving.signal });
  const { value } = (await begun.body?.getReader().read()) ?? {};
  t.match(Buffer.from(value ?? []).toString(), /Once/, 'the first chunk is there before the last');
  leaving.abort();
  t.match(await recordAt(governed.gw, begun), {
    stream_outcome: 'aborted',
    metering: { tokens_in: 10, tokens_out: 3, reasoning_tokens_out: 3, usage_reported: true },
  });

  const error = '[{"error":{"code":400,"message":"no such model","status":"INVALID_ARGUMENT"}}]';
  const refused = await call(governed, GEMINI, { contents: [] }, { type: JSON_TYPE, status: 400, pieces: [error] });
  t.match(refused, { status: 400, text: error, record: { status_code: 400, metering: NOTHING } });
  const inside = await call(governed, GEMINI, { contents: [] }, { type: JSON_TYPE, pieces: [`[${first},`, error.slice(1)] });
  t.match(inside.record, { status_code: 200, stream_outcome: 'error', metering: { tokens_in: 10, tokens_out: 3 } });
});

interface Broken {
  readonly name: string;
  readonly path: string;
  readonly body: object;
  /** Until the break. */
  readonly pieces: readonly string[];
  readonly metering: object;
}

const BROKEN: readonly Broken[] = [
  {
    name: 'OpenAI chat, which reports at the end: the prompt and what was said, approximated',
    path: OPENAI,
    body: { ...CHAT, stream: true, stream_options: { include_usage: true } },
    pieces: [data({ model: 'gpt-4o-2024-05-13', choices: [{ index: 0, delta: { content: 'Once' } }], usage: null })],
    metering: { tokens_in: 7, tokens_out: 2, cost_usd: exactly('0.000065'), usage_reported: false },
  },
  {
    name: 'OpenAI chat, after its usage and before its end',
    path: OPENAI,
    body: { ...CHAT, stream: true, stream_options: { include_usage: true } },
    pieces: [
      data({ model: 'gpt-4o-2024-05-13', choices: [{ index: 0, delta: { content: 'Once' } }], usage: null }),
      // Without the empty line that would end the event.
      data({ choices: [], usage: { prompt_tokens: 1000, completion_tokens: 100 } }).trimEnd(),
    ],
    metering: { tokens_in: 1000, tokens_out: 100, cost_usd: exactly('0.0065'), usage_reported: true },
  },
  {
    name: 'Anthropic: its prompt, cached parts too, and behind the first token what was said',
    path: '/anthropic/v1/messages',
    body: { model: 'claude-3-5-sonnet-20241022', max_tokens: 100, messages: MESSAGES, stream: true },
    pieces: [
      named('message_start', {
        message: { model: 'claude-3-5-sonnet-20241022', usage: { input_tokens: 400, cache_read_input_tokens: 600, output_tokens: 1 } },
      }),
      named('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'Once' } }),
    ],
    metering: { tokens_in: 1000, tokens_out: 3, cached_tokens_in: 600, cost_usd: exactly('0.001425'), usage_reported: false },
  },
  {
    name: 'Gemini: what the last whole chunk said',
    path: `${GEMINI}?alt=sse`,
    body: { contents: [] },
    pieces: [`data: ${CHUNKS[0] ?? ''}\r\n\r\n`, `data: ${CHUNKS[1]?.slice(0, 120) ?? ''}`],
    metering: { tokens_in: 10, tokens_out: 3, reasoning_tokens_out: 3, usage_reported: true },
  },
  {
    name: 'OpenAI responses',
    path: '/openai/v1/responses',
    body: { model: 'gpt-4o-2024-05-13', input: 'hello', stream: true },
    pieces: [
      named('response.created', { response: { model: 'gpt-4o-2024-05-13', usage: null } }),
      named('response.output_text.delta', { delta: '{"usage":{"input_tokens":9}}' }),
    ],
    metering: { tokens_in: 2, tokens_out: 10, usage_reported: false },
  },
  {
    name: 'Mistral, after its usage',
    path: '/mistral/v1/chat/completions',
    body: { model: 'mistral-small-latest', messages: MESSAGES, stream: true },
    pieces: [data({ choices: [{ index: 0, delta: { content: 'x' } }], usage: { prompt_tokens: 4, completion_tokens: 1 } })],
    metering: { tokens_in: 4, tokens_out: 1, usage_reported: true },
  },
  {
    name: 'Cohere, which reports at the end',
    path: '/cohere/v2/chat',
    body: { model: 'command-r7b-12-2024', messages: MESSAGES, stream: true },
    pieces: [named('content-delta', { delta: { message: { content: { text: 'x' } } } })],
    metering: { tokens_in: 7, tokens_out: 1, usage_reported: false },
  },
  {
    name: 'OpenAI chat, before anything was said',
    path: OPENAI,
    body: { ...CHAT, stream: true },
    pieces: [data({ model: 'gpt-4o-2024-05-13', choices: [{ index: 0, delta: { role: 'assistant', content: '' } }] })],
    metering: NOTHING,
  },
];

t.test('a stream that breaks off, on either side, is charged what was seen of it', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, handler });
  for (const { name, path, body, pieces, metering } of BROKEN) {
    await t.test(name, async (t) => {
      const cut = await call(governed, path, body, { type: SSE, pieces, ending: 'cut' });
      t.equal(cut.text, undefined, 'the client sees that it broke off');
      t.match(cut.record, { decision: 'allow', stream_outcome: 'error', metering });
      t.match(await left(governed, path, body, pieces), { decision: 'allow', stream_outcome: 'aborted', metering });
    });
  }
});

/** The record of a call whose client leaves when everything has come to it. */
async function left({ gw }: Governed, path: string, body: object, pieces: readonly string[], type = SSE): Promise<Record<string, unknown>> {
  next = { type, pieces, ending: 'hang' };
  const leaving = new AbortController();
  const response = await fetch(`${gw.url}/proxy${path}`, { method: 'POST', body: JSON.stringify(body), signal: leaving.signal });
  const reader = response.body?.getReader();
  for (let seen = ''; seen.length < pieces.join('').length; ) {
    const { value, done } = (await reader?.read()) ?? { done: true };
    if (done) throw new Error('the stream ended by itself');
    seen += Buffer.from(value ?? []).toString();
  }
  leaving.abort();
  return recordAt(gw, response);
}

t.test('answers that are no stream', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, handler });
  const usage = { prompt_tokens: 1000, completion_tokens: 100, completion_tokens_details: { reasoning_tokens: 60 } };
  const charged = { tokens_in: 1000, tokens_out: 100, reasoning_tokens_out: 60, cost_usd: exactly('0.0065'), usage_reported: true };
  const answers = async (t: Test, name: string, answer: Omit<Answer, 'type'>, record: object, body: object = CHAT) => {
    const seen = await call(governed, OPENAI, body, { type: JSON_TYPE, ...answer });
    t.match(seen.record, record, name);
    return seen;
  };
  const choices = [0, 1, 2].map((index) => ({ index, message: { content: 'Once' } }));
  await answers(
    t,
    'several choices are reported together',
    { pieces: [JSON.stringify({ choices, usage })] },
    { metering: charged },
    { ...CHAT, n: 3 },
  );
  const tool_calls = [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{"usage":{"prompt_tokens":7}}' } }];
  const calling = { choices: [{ index: 0, message: { content: null, tool_calls }, finish_reason: 'tool_calls' }], usage };
  await answers(t, 'tool calls', { pieces: [JSON.stringify(calling)] }, { metering: charged });
  await answers(t, 'a provider that reports nothing', { pieces: ['{"choices":[]}'] }, { decision: 'allow', metering: NOTHING });
  for (const status of [400, 401, 429, 500, 503]) {
    const seen = await answers(
      t,
      `status ${status}`,
      { status, pieces: ['{"error":{"message":"no"}}'] },
      { status_code: status, metering: NOTHING },
    );
    t.equal(seen.status, status);
  }
  await answers(t, 'no JSON at all', { pieces: ['<html>', 'bad gateway'] }, { decision: 'allow', metering: NOTHING });
  await answers(t, 'JSON that ends too early', { pieces: ['{"usage":{"prompt_tokens":10'] }, { decision: 'allow', metering: NOTHING });
  await answers(t, 'an error with status 200', { pieces: ['{"error":{"message":"overloaded"}}'] }, { status_code: 200, metering: NOTHING });

  const begun = `{"usage":${JSON.stringify(usage)},"choices":[`;
  const cut = await answers(
    t,
    'one that breaks off is charged what it had reported',
    { length: 1000, pieces: [begun], ending: 'cut' },
    { decision: 'error', status_code: 502, metering: charged },
  );
  t.equal(cut.status, 502);
  const early = { length: 1000, pieces: ['{"choices":[],"usage":{"prompt_tok'], ending: 'cut' } as const;
  await answers(t, 'or nothing', early, { decision: 'error', status_code: 502, metering: NOTHING });
  const asked = { ...CHAT, stream: true };
  const plain = await answers(
    t,
    'a stream that is answered whole',
    { pieces: [JSON.stringify({ choices, usage })] },
    { metering: charged },
    asked,
  );
  t.notOk('stream_outcome' in plain.record);
});

interface Finished {
  readonly name: string;
  readonly path: string;
  readonly body: object;
  readonly type?: string;
  /** The last one says why the answer ended. */
  readonly pieces: readonly string[];
  readonly metering: object;
}

const delta = (finish_reason: string | null, index = 0, content = 'Once'): object => ({ index, delta: { content }, finish_reason });
const COUNTED = { tokens_in: 1000, tokens_out: 100, usage_reported: true };
const USAGE = { prompt_tokens: 1000, completion_tokens: 100 };
const STREAMED = { ...CHAT, stream: true };
const FINISHED: readonly Finished[] = [
  {
    name: 'OpenAI chat with its usage',
    path: OPENAI,
    body: { ...STREAMED, stream_options: { include_usage: true } },
    pieces: [data({ choices: [delta(null)] }), data({ choices: [delta('stop', 0, '')] }), data({ choices: [], usage: USAGE })],
    metering: { ...COUNTED, cost_usd: exactly('0.0065') },
  },
  {
    name: 'OpenAI chat without: as one that says [DONE]',
    path: OPENAI,
    body: STREAMED,
    pieces: [data({ choices: [delta(null)] }), data({ choices: [delta('length', 0, '')] })],
    metering: NOTHING,
  },
  {
    name: 'OpenAI chat, a tool call, the last line without its end',
    path: OPENAI,
    body: STREAMED,
    pieces: [
      data({
        choices: [{ index: 0, delta: { tool_calls: [{ index: 0, function: { arguments: '{' } }] }, finish_reason: 'tool_calls' }],
        usage: USAGE,
      }).trimEnd(),
    ],
    metering: COUNTED,
  },
  {
    name: 'OpenAI chat, two choices',
    path: OPENAI,
    body: { ...STREAMED, n: 2 },
    pieces: [
      data({ choices: [delta(null, 0)] }),
      data({ choices: [delta('content_filter', 1)] }),
      data({ choices: [delta('stop', 0)], usage: USAGE }),
    ],
    metering: COUNTED,
  },
  {
    name: 'OpenAI completions',
    path: '/openai/v1/completions',
    body: { model: 'gpt-3.5-turbo-instruct', prompt: 'hello', stream: true },
    pieces: [data({ choices: [{ index: 0, text: 'Once', finish_reason: 'stop' }], usage: USAGE })],
    metering: COUNTED,
  },
  {
    name: 'Mistral',
    path: '/mistral/v1/chat/completions',
    body: { model: 'mistral-small-latest', messages: MESSAGES, stream: true },
    pieces: [data({ choices: [delta('stop')], usage: USAGE })],
    metering: COUNTED,
  },
  {
    name: 'Anthropic',
    path: '/anthropic/v1/messages',
    body: { model: 'claude-3-5-sonnet-20241022', max_tokens: 100, messages: MESSAGES, stream: true },
    pieces: [
      named('message_start', { message: { model: 'claude-3-5-sonnet-20241022', usage: { input_tokens: 1000, output_tokens: 1 } } }),
      named('message_delta', { delta: { stop_reason: 'max_tokens' }, usage: { output_tokens: 100 } }),
    ],
    metering: COUNTED,
  },
  {
    name: 'Gemini, a list without its bracket',
    path: GEMINI,
    body: { contents: [] },
    type: JSON_TYPE,
    pieces: [`[${CHUNKS[0] ?? ''}`, `\n,${CHUNKS[1] ?? ''}`],
    metering: { tokens_in: 10, tokens_out: 25 },
  },
  {
    name: 'Cohere v1',
    path: '/cohere/v1/chat',
    body: { model: 'command-r7b-12-2024', message: 'hello', stream: true },
    type: 'application/stream+json',
    pieces: [
      '{"text":"Once"}\n',
      '{"is_finished":true,"finish_reason":"COMPLETE","response":{"meta":{"tokens":{"input_tokens":1000,"output_tokens":100}}}}\n',
    ],
    metering: COUNTED,
  },
];

t.test(
  'a stream that ends by itself behind the reason why its answer ended is complete, and one that breaks off there is not',
  async (t) => {
    const governed = await startGoverned(t, { bundle: ALLOW_ALL, handler });
    for (const { name, path, body, type = SSE, pieces, metering } of FINISHED) {
      await t.test(name, async (t) => {
        const whole = await call(governed, path, body, { type, pieces });
        t.equal(whole.text, pieces.join(''));
        t.match(whole.record, { decision: 'allow', stream_outcome: 'complete', metering });
        t.notOk('error' in whole.record);
        const length = Buffer.byteLength(pieces.join('')) + 1;
        for (const broken of [{ ending: 'cut' }, { ending: 'cut', length }] as const)
          t.match((await call(governed, path, body, { type, pieces, ...broken })).record, { stream_outcome: 'error' });
        const [first = ''] = pieces.slice(0, -1);
        const before = await call(governed, path, body, { type, pieces: [first] });
        if (first !== '') t.match(before.record, { stream_outcome: 'aborted' }, 'nor one that ends before it');
        t.match((await left(governed, path, body, pieces, type))['stream_outcome'], 'aborted', 'nor one that its client leaves');
      });
    }
  },
);

t.test('an error inside a stream with status 200', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, handler });
  const error = data({ error: { message: 'The server had an error', type: 'server_error' } });
  const body = { ...CHAT, stream: true };
  const seen = await call(governed, OPENAI, body, { type: SSE, pieces: [data({ choices: [] }), error, 'data: [DONE]\n\n'] });
  t.match(seen, { status: 200, text: /server_error/, record: { stream_outcome: 'error', metering: NOTHING } });
  const overloaded = named('error', { error: { type: 'overloaded_error', message: 'Overloaded' } });
  const start = named('message_start', { message: { model: 'c', usage: { input_tokens: 5, output_tokens: 1 } } });
  const claude = { model: 'claude-3-5-haiku-20241022', max_tokens: 9, messages: MESSAGES, stream: true };
  const later = await call(governed, '/anthropic/v1/messages', claude, { type: SSE, pieces: [start, overloaded] });
  t.match(later.record, { stream_outcome: 'error', metering: { tokens_in: 5, tokens_out: 1, usage_reported: true } });
});

t.test('reports of a stream that say less than those before take nothing back', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, handler });
  const report = (prompt_tokens: unknown, completion_tokens: unknown) => data({ choices: [], usage: { prompt_tokens, completion_tokens } });
  for (const last of [report(0, 0), report('5', -1), report(1e20, 2.5), report({}, []), report(null, null), data({ usage: 7 })]) {
    const pieces = [report(10, 4), report(10, 20), last, 'data: [DONE]\n\n'];
    const { record } = await call(governed, OPENAI, { ...CHAT, stream: true }, { type: SSE, pieces });
    t.match(record, { metering: { tokens_in: 10, tokens_out: 20, usage_reported: true } }, last.trim());
  }
  const less = [report(10, 20), report(8, 19), 'data: [DONE]\n\n'];
  const { record } = await call(governed, OPENAI, { ...CHAT, stream: true }, { type: SSE, pieces: less });
  t.match(record, { metering: { tokens_in: 8, tokens_out: 19 } }, 'a count that is put right is the last one');
});

t.test('what was charged for broken answers is what budgets and bills know', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, handler });
  await governed.gw.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd: '5', actions: ['cap'] });
  const begun = `{"usage":${JSON.stringify({ prompt_tokens: 1000, completion_tokens: 100 })},"choices":[`;
  const cut = await call(governed, OPENAI, CHAT, { type: JSON_TYPE, length: 1000, pieces: [begun], ending: 'cut' });
  t.match(cut.record, { decision: 'error', metering: { cost_usd: exactly('0.0065') } });
  const get = async (path: string) => (await governed.gw.admin('GET', path)).body;
  t.match(await get('/v1/admin/budgets/limits'), { limits: [{ spent_usd: exactly('0.0065'), reserved_usd: exactly('0') }] });
  t.match(await get('/v1/dashboard/summary'), { total_cost_usd: exactly('0.0065') });
  t.match(await get('/v1/admin/billing/summary'), { total_cost_usd: exactly('0.0065') });
});
