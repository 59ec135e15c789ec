import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import type { Dialect } from '../../../src/base/catalogue/types.ts';
import { createStreamTap } from '../../../src/outbound/connectors/create-stream-tap.ts';
import type { StreamTap } from '../../../src/outbound/connectors/event-reader.ts';
import { MOCK_USAGE, startAimock } from '../../support/aimock.ts';
import { bytesInUse } from '../../support/bytes-in-use.ts';
import { fc } from '../../support/properties.ts';
import { FINISHED } from './finished-streams.ts';
import { SAMPLES, type StreamSample } from './samples.ts';

const catalogue = loadCatalogue();

function dialect(id: string): Dialect {
  const found = catalogue.dialect(id);
  if (found === undefined) throw new Error(`no dialect ${id}`);
  return found;
}

interface Seen {
  readonly outcome: StreamTap['outcome'];
  readonly usage: StreamTap['usage'];
  readonly model: string | undefined;
  /** Position in the stream from which bytes are held, -1 for never. */
  readonly heldFrom: number;
  /** The first offset that was outside its chunk, or not 0 after an offset had been given. */
  readonly badOffset: number | undefined;
}

function feed(sample: Pick<StreamSample, 'dialect' | 'contentType'>, pieces: Iterable<Uint8Array>): Seen {
  const tap = createStreamTap(dialect(sample.dialect), sample.contentType);
  let heldFrom = -1;
  let badOffset: number | undefined;
  let base = 0;
  for (const piece of pieces) {
    const offset = tap.push(piece);
    if (offset < -1 || offset > piece.length || (heldFrom !== -1 && offset !== 0)) badOffset ??= offset;
    if (heldFrom === -1 && offset !== -1) heldFrom = base + offset;
    base += piece.length;
  }
  tap.end();
  return { outcome: tap.outcome, usage: tap.usage, model: tap.model, heldFrom, badOffset };
}

function terminalStart(sample: StreamSample, bytes: Buffer): number {
  return sample.terminal === undefined ? -1 : bytes.lastIndexOf(sample.terminal);
}

t.test('each stream yields its usage, model, outcome and the start of its terminal event', async (t) => {
  for (const sample of SAMPLES) {
    const bytes = Buffer.from(sample.text);
    t.strictSame(
      feed(sample, [bytes]),
      { outcome: sample.outcome, usage: sample.usage, model: sample.model, heldFrom: terminalStart(sample, bytes), badOffset: undefined },
      sample.name,
    );
  }
});

t.test('wherever a stream is cut in two, nothing changes but where holding can begin', async (t) => {
  for (const sample of SAMPLES) {
    const bytes = Buffer.from(sample.text);
    const start = terminalStart(sample, bytes);
    const faults: string[] = [];
    for (let at = 0; at <= bytes.length; at++) {
      const seen = feed(sample, [bytes.subarray(0, at), bytes.subarray(at)]);
      const { heldFrom, ...rest } = seen;
      if (JSON.stringify(rest) !== JSON.stringify({ outcome: sample.outcome, usage: sample.usage, model: sample.model }))
        faults.push(`${at}: ${JSON.stringify(seen)}`);
      if (heldFrom !== start && (heldFrom !== at || at < start)) faults.push(`${at}: held from ${heldFrom}, terminal at ${start}`);
    }
    t.strictSame(faults, [], sample.name);
  }
});

t.test('fed byte by byte, the terminal event is held before the line that says it is complete', async (t) => {
  for (const sample of SAMPLES) {
    const bytes = Buffer.from(sample.text);
    const start = terminalStart(sample, bytes);
    const pieces = Array.from(bytes, (_, i) => bytes.subarray(i, i + 1));
    const { heldFrom, ...rest } = feed(sample, pieces);
    t.strictSame(rest, { outcome: sample.outcome, usage: sample.usage, model: sample.model, badOffset: undefined }, sample.name);
    const lineEnd = bytes.indexOf('\n', start);
    t.ok(
      start === -1 ? heldFrom === -1 : heldFrom >= start && heldFrom <= lineEnd,
      `${sample.name}: ${start} <= ${heldFrom} <= ${lineEnd}`,
    );
  }
});

t.test('a body that ends behind the reason why its answer ended has lacked nothing, wherever it is cut', async (t) => {
  for (const { name, dialect: id, contentType, bytes, outcome, usage } of FINISHED) {
    const want = JSON.stringify({ outcome, usage });
    const faults: string[] = [];
    for (let at = 0; at <= bytes.length; at++) {
      const seen = feed({ dialect: id, contentType }, [bytes.subarray(0, at), bytes.subarray(at)]);
      if (JSON.stringify({ outcome: seen.outcome, usage: seen.usage }) !== want) faults.push(`${at}: ${JSON.stringify(seen)}`);
      if (seen.heldFrom !== -1) faults.push(`${at}: held from ${seen.heldFrom}`);
    }
    t.strictSame(faults, [], name);
    const pieces = Array.from(bytes, (_, i) => bytes.subarray(i, i + 1));
    t.match(feed({ dialect: id, contentType }, pieces), { outcome, usage }, `${name}, byte by byte`);
    const tap = createStreamTap(dialect(id), contentType);
    tap.push(bytes);
    t.equal(tap.outcome, outcome === 'error' ? 'error' : 'open', `${name}: one that breaks off here is not complete`);
  }
});

t.test('of many answers at once all must have ended, and so many that nobody counts them end with the format alone', async (t) => {
  const events = (from: number, to: number, finish_reason: string | null): string =>
    Array.from(
      { length: to - from },
      (_, at) => `data: {"choices":[{"index":${from + at},"delta":{},"finish_reason":${JSON.stringify(finish_reason)}}]}\n\n`,
    ).join('');
  const chat = { dialect: 'openai_chat', contentType: 'text/event-stream' };
  const outcome = (...texts: readonly string[]) =>
    feed(
      chat,
      texts.map((text) => Buffer.from(text)),
    ).outcome;
  t.equal(outcome(events(0, 128, null), events(0, 128, 'stop')), 'complete');
  t.equal(outcome(events(0, 128, null), events(1, 128, 'stop')), 'open');
  t.equal(outcome(events(0, 5_000, 'stop')), 'open');
  t.equal(outcome(events(0, 5_000, 'stop'), 'data: [DONE]\n\n'), 'complete');
});

t.test('a reason in an event that is too large to keep counts too', async (t) => {
  const big = 'x"\\'.repeat(200_000);
  const choices = [0, 1].map((index) => ({ index, delta: { content: big }, finish_reason: index === 0 ? 'stop' : null }));
  const cases = [
    [{ choices: choices.slice(0, 1) }, 'complete'],
    [{ choices }, 'open'],
  ] as const;
  for (const [event, outcome] of cases) {
    const bytes = Buffer.from(`data: ${JSON.stringify(event)}\n\n`);
    for (const size of [16_384, bytes.length]) {
      const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.subarray(i * size, (i + 1) * size));
      t.equal(feed({ dialect: 'openai_chat', contentType: 'text/event-stream' }, pieces).outcome, outcome, `${outcome}, pieces of ${size}`);
      t.equal(feed({ dialect: 'openai_chat', contentType: 'text/event-stream' }, pieces.slice(0, -1)).outcome, 'open');
    }
  }
});

t.test('LF, CR and CRLF end lines, in any mix', async (t) => {
  const sse = SAMPLES.filter((sample) => sample.contentType.startsWith('text/event-stream'));
  for (const sample of sse) {
    const want = { outcome: sample.outcome, usage: sample.usage, model: sample.model };
    const plain = sample.text.replaceAll('\r\n', '\n');
    let turn = 0;
    const mixed = plain.replaceAll('\n', () => ['\r\n', '\n', '\r'][turn++ % 3] ?? '\n');
    for (const [name, text] of Object.entries({ cr: plain.replaceAll('\n', '\r'), crlf: plain.replaceAll('\n', '\r\n'), mixed })) {
      const bytes = Buffer.from(text);
      const half = Math.floor(bytes.length / 2);
      for (const pieces of [
        [bytes],
        [bytes.subarray(0, half), bytes.subarray(half)],
        Array.from(bytes, (_, i) => bytes.subarray(i, i + 1)),
      ]) {
        const { outcome, usage, model } = feed(sample, pieces);
        t.strictSame({ outcome, usage, model }, want, `${sample.name}, ${name}, ${pieces.length} pieces`);
      }
    }
  }
});

t.test('framing details of server-sent events', async (t) => {
  const chat = { dialect: 'openai_chat', contentType: 'text/event-stream' };
  const usage = '{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}';
  const counted = { tokens_in: 1, tokens_out: 2 };
  const table: readonly [string, string, unknown, string][] = [
    ['a byte order mark', `\ufeffdata: ${usage}\n\ndata: [DONE]\n\n`, counted, 'complete'],
    ['no space behind the colon', `data:${usage}\n\ndata:[DONE]\n\n`, counted, 'complete'],
    [
      'data in several lines',
      `data: {"choices":[],\ndata: "usage":{"prompt_tokens":1,\ndata: "completion_tokens":2}}\n\ndata: [DONE]\n\n`,
      counted,
      'complete',
    ],
    ['other fields', `id: 7\nretry: 10\ndata: ${usage}\n\ndata: [DONE]\n\n`, counted, 'complete'],
    ['the last empty line is left out', `data: ${usage}\n\ndata: [DONE]\n`, counted, 'complete'],
    ['the last line has no end', `data: ${usage}\n\ndata: [DONE]`, counted, 'complete'],
    ['the terminal is a comment', `data: ${usage}\n\n: [DONE]\n\n`, counted, 'open'],
    ['the terminal is part of a longer text', `data: ${usage}\n\ndata: x[DONE]\n\n`, counted, 'open'],
    ['data that is no JSON', `data: "usage": nonsense {\n\ndata: ${usage}\n\ndata: [DONE]\n\n`, counted, 'complete'],
    [
      'spaces around the colon of a member',
      'data: { "usage" : { "prompt_tokens" : 1 , "completion_tokens" : 2 } }\n\ndata: [DONE]\n\n',
      counted,
      'complete',
    ],
    ['counts that are none', 'data: {"usage":{"prompt_tokens":-1,"completion_tokens":"2"}}\n\ndata: [DONE]\n\n', undefined, 'complete'],
    ['one event ends behind the terminal', `data: [DONE]\n\ndata: ${usage}\n\n`, counted, 'complete'],
  ];
  for (const [name, text, want, outcome] of table) {
    const seen = feed(chat, [Buffer.from(text)]);
    t.strictSame([seen.usage, seen.outcome], [want, outcome], name);
  }
});

t.test('an event of any size is read in bounded memory', async (t) => {
  const big = 'x"\\'.repeat(1_000_000);
  const completed = {
    type: 'response.completed',
    response: {
      output: [{ type: 'message', usage: { input_tokens: 999 }, text: big }],
      model: 'gpt-5',
      error: null,
      usage: { input_tokens: 3, output_tokens: 4 },
    },
  };
  const bytes = Buffer.from(`event: response.completed\ndata: ${JSON.stringify(completed)}\n\n`);
  const pieces = (size: number): Uint8Array[] =>
    Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.subarray(i * size, (i + 1) * size));
  for (const size of [1000, 16_384, 65_536, bytes.length]) {
    const { usage, outcome, model, heldFrom } = feed({ dialect: 'openai_responses', contentType: 'text/event-stream' }, pieces(size));
    t.strictSame([usage, outcome, model, heldFrom], [{ tokens_in: 3, tokens_out: 4 }, 'complete', 'gpt-5', 0], `pieces of ${size}`);
  }
  const tap = createStreamTap(dialect('openai_chat'), 'text/event-stream');
  const piece = Buffer.alloc(1024 * 1024, 'a');
  tap.push(Buffer.from('data: {"usage":{"prompt_tokens":'));
  const before = bytesInUse();
  for (let i = 0; i < 64; i++) tap.push(piece);
  const grown = bytesInUse() - before;
  t.ok(grown < 8 * 1024 * 1024, `a line of 64 MiB that never ends holds ${grown} bytes`);
  t.equal(tap.outcome, 'open');
});

t.test('without a dialect nothing is read, and the end of the body completes the stream', async (t) => {
  const tap = createStreamTap(undefined, 'text/event-stream');
  t.equal(tap.push(Buffer.from('data: [DONE]\n\n')), -1);
  t.equal(tap.outcome, 'open');
  tap.end();
  t.strictSame([tap.outcome, tap.usage, tap.model], ['complete', undefined, undefined]);
});

t.test('an independent mock of the providers is understood in all its streams', async (t) => {
  const upstream = await startAimock();
  t.teardown(() => upstream.close());
  const messages = [{ role: 'user', content: 'hello' }];
  const parts = { contents: [{ role: 'user', parts: [{ text: 'hello' }] }] };
  const calls: readonly (readonly [string, string, object, 0?])[] = [
    ['openai_chat', '/v1/chat/completions', { model: 'gpt-4o', messages, stream: true, stream_options: { include_usage: true } }],
    ['openai_responses', '/v1/responses', { model: 'gpt-4o', input: 'hello', stream: true }],
    ['anthropic_messages', '/v1/messages', { model: 'claude-sonnet-4-5', max_tokens: 100, messages, stream: true }],
    ['gemini_generate', '/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse', parts],
    [
      'azure_chat',
      '/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21',
      { model: 'gpt-4o', messages, stream: true, stream_options: { include_usage: true } },
    ],
    ['cohere_chat', '/v2/chat', { model: 'command-r', messages, stream: true }],
    // It counts nothing for Ollama.
    ['ollama', '/api/chat', { model: 'llama3.2', messages }, 0],
    ['bedrock_converse', '/model/amazon.nova-lite-v1%3A0/converse-stream', { messages: [{ role: 'user', content: [{ text: 'hello' }] }] }],
  ];
  for (const [id, path, body, uncounted] of calls) {
    const answer = await fetch(new URL(path, upstream.mockUrl), {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: 'Bearer k' },
      body: JSON.stringify(body),
    });
    const bytes = new Uint8Array(await answer.arrayBuffer());
    const seen = feed({ dialect: id, contentType: answer.headers.get('content-type') ?? '' }, [bytes]);
    t.strictSame(
      [answer.status, seen.outcome, seen.usage?.tokens_in, seen.usage?.tokens_out],
      [200, 'complete', uncounted ?? MOCK_USAGE.tokensIn, uncounted ?? MOCK_USAGE.tokensOut],
      id,
    );
  }
});

t.test('no bytes make a tap throw, leave its chunk or change with the way they are cut', async (t) => {
  const ids = ['openai_chat', 'anthropic_messages', 'gemini_generate', 'cohere_chat_v1', 'openai_responses'];
  const types = ['text/event-stream', 'application/x-ndjson', 'application/json', ''];
  const word = fc.oneof(
    fc.constantFrom(
      'data: ',
      'event: ',
      '\n',
      '\r',
      '\r\n',
      '\n\n',
      '[DONE]',
      'message_stop',
      '{"usage":',
      '{"type":"',
      '"',
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '\\',
      'null',
      '1',
      '"error"',
      '"model":"m"',
    ),
    fc.string({ maxLength: 4 }),
  );
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(
        fc.constantFrom(...ids),
        fc.constantFrom(...types),
        fc.array(word, { maxLength: 40 }),
        fc.nat(),
        (id, contentType, words, cut) => {
          const bytes = Buffer.from(words.join(''));
          const at = cut % (bytes.length + 1);
          const whole = feed({ dialect: id, contentType }, [bytes]);
          const cutInTwo = feed({ dialect: id, contentType }, [bytes.subarray(0, at), bytes.subarray(at)]);
          const essence = ({ outcome, usage, model, badOffset }: Seen): string =>
            JSON.stringify([outcome, usage, model, badOffset ?? 'fine']);
          return whole.badOffset === undefined && essence(whole) === essence(cutInTwo);
        },
      ),
      { numRuns: 3000 },
    ),
  );
});

t.test('a large terminal event ends its stream when it is whole, not when its name is known', async (t) => {
  for (const [id, name, start] of [
    ['openai_responses', 'response.completed', '{"type":"response.completed","response":{"x":"'],
    ['anthropic_messages', 'message_stop', '{"type":"message_stop","y":{"x":"'],
  ] as const) {
    const tap = createStreamTap(dialect(id), 'text/event-stream');
    t.not(tap.push(Buffer.from(`event: ${name}\ndata: ${start}`)), -1, 'its bytes are held from its name on');
    for (let at = 0; at < 40; at++) tap.push(Buffer.alloc(16_384, 'x'));
    t.equal(tap.outcome, 'open');
    tap.push(Buffer.from('"}}\n'));
    t.equal(tap.outcome, 'open');
    tap.push(Buffer.from('\n'));
    t.equal(tap.outcome, 'complete');
  }
});

t.test('what a hostile upstream sends costs time in proportion to its length', async (t) => {
  const cases = {
    'one event of many lines': ['anthropic_messages', 'text/event-stream', 'data: {"typ\n'.repeat(20_000)],
    'many broken events': ['openai_chat', 'text/event-stream', 'data: {"usage":{\n\n'.repeat(20_000)],
    'many broken members': ['gemini_generate', 'application/json', `[{"modelVersion":""${'usageMetadata":{"'.repeat(40_000)}`],
  } as const;
  for (const [name, [dialect, contentType, text]] of Object.entries(cases)) {
    const bytes = Buffer.from(text);
    let fastest = Number.POSITIVE_INFINITY;
    for (let i = 0; i < 5 && fastest > 200; i++) {
      const cpu = process.cpuUsage();
      feed({ dialect, contentType }, [bytes]);
      const { user, system } = process.cpuUsage(cpu);
      fastest = Math.min(fastest, (user + system) / 1000);
    }
    t.ok(fastest <= 200, `${name}: ${fastest.toFixed(0)} ms for ${bytes.length} bytes`);
  }
});
