// What a stream has said so far, and where it is cut: fed to the taps as any upstream may cut it.
import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import type { Dialect } from '../../../src/base/catalogue/types.ts';
import { textTokens } from '../../../src/decide/pricing/count-tokens.ts';
import { AwsFrames } from '../../../src/outbound/connectors/aws-frames.ts';
import { createStreamTap } from '../../../src/outbound/connectors/create-stream-tap.ts';
import { streamError } from '../../../src/outbound/connectors/provider-error.ts';
import { SeenUsage } from '../../../src/outbound/connectors/seen-usage.ts';
import { awsChunk, awsEvent } from '../../support/aws-events.ts';
import { ENDLESS, endlessText } from '../../support/endless-streams.ts';

const catalogue = loadCatalogue();
const SSE = 'text/event-stream';
const AWS = 'application/vnd.amazon.eventstream';

function dialect(id: string): Dialect {
  const found = catalogue.dialect(id);
  if (found?.deltas === undefined) throw new Error(`${id} shows nothing`);
  return found;
}

/** A tap that stops at so many tokens. */
function watched(id: string, contentType: string, most = Number.POSITIVE_INFINITY, outStated?: number) {
  const found = dialect(id);
  const seen = new SeenUsage(found.deltas ?? { paths: [], except: [] }, { tokensIn: 9, outStated });
  const watch = { seen, passes: () => seen.usage.tokens_out > most };
  return { seen, tap: createStreamTap(found, contentType, watch) };
}

/** Offset in the whole stream at which it was stopped; -1 when it was not. */
function stoppedAt(id: string, contentType: string, pieces: readonly Buffer[], most: number): number {
  const { tap } = watched(id, contentType, most);
  let base = 0;
  for (const piece of pieces) {
    tap.push(piece);
    if (tap.stopsAt !== -1) return base + tap.stopsAt;
    base += piece.length;
  }
  return -1;
}

function cut(bytes: Buffer, size: number): Buffer[] {
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) => bytes.subarray(at * size, (at + 1) * size));
}

t.test('a stream is stopped behind the whole event that passes, however it is cut', async (t) => {
  for (const form of ENDLESS) {
    const ends = new Set(Array.from({ length: 40 }, (_, at) => Buffer.byteLength(endlessText(form, at))));
    const bytes = Buffer.from(endlessText(form, 40));
    const found = new Set([1, 7, 64, bytes.length].map((size) => stoppedAt(form.dialect, form.contentType, cut(bytes, size), 12)));
    const last = Math.max(...found);
    t.ok(ends.has(last), `${form.name}: at ${last}`);
    // Of a CRLF that is cut the CR ends the event.
    const isEnd = (at: number): boolean => at === last || (at === last - 1 && bytes[at] === 0x0a && bytes[at - 1] === 0x0d);
    t.ok([...found].every(isEnd), `${form.name}: ${[...found].join()}`);
  }
});

t.test('AWS event streams too', async (t) => {
  const word = { contentBlockDelta: { delta: { text: ' word' } }, delta: { text: ' word' } };
  for (const [id, event] of [
    ['bedrock_converse', awsEvent('contentBlockDelta', { delta: { text: ' word' }, contentBlockIndex: 0 })],
    ['bedrock_anthropic', awsChunk({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: ' word' } })],
    ['bedrock_invoke', awsChunk(word)],
  ] as const) {
    const bytes = Buffer.concat(Array.from({ length: 40 }, () => event));
    const found = new Set([1, 7, 64, bytes.length].map((size) => stoppedAt(id, AWS, cut(bytes, size), 12)));
    t.same([...found], [12 * event.length], id);
  }
  const text = { status: 403, type: 'budget_exceeded', message: 'Stopped.' };
  const [frame = Buffer.alloc(0)] = streamError(dialect('bedrock_converse'), 'aws_event_stream', text, { record_id: 'r' });
  const said: unknown[] = [];
  const frames = new AwsFrames(({ headers, payload }) => said.push(Object.fromEntries(headers), JSON.parse(String(payload))));
  frames.push(frame);
  t.match(said, [
    { ':message-type': 'error', ':error-code': 'budget_exceeded', ':error-message': 'Stopped.' },
    { record_id: 'r', message: 'Stopped.' },
  ]);
});

t.test('all that is said is counted, whatever member it stands in; nothing else is', async (t) => {
  const tokens = (id: string, contentType: string, text: string): number => {
    const { tap, seen } = watched(id, contentType);
    for (const piece of cut(Buffer.from(text), 11)) tap.push(piece);
    return seen.usage.tokens_out;
  };
  const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
  const delta = (value: object): string => data({ choices: [{ index: 0, delta: value, finish_reason: null }] });
  const ten = ' a b c d e f g h i j';
  const expected = Math.ceil(textTokens(ten));
  for (const value of [
    { content: ten },
    { reasoning_content: ten },
    { refusal: ten },
    { tool_calls: [{ index: 0, id: 'call', type: 'function', function: { name: 'f', arguments: ten } }] },
  ])
    t.equal(tokens('openai_chat', SSE, delta({ role: 'assistant', ...value })), expected, JSON.stringify(value));
  t.equal(
    tokens('anthropic_messages', SSE, data({ type: 'content_block_delta', delta: { type: 'thinking_delta', thinking: ten } })),
    expected,
  );
  t.equal(tokens('openai_responses', SSE, data({ type: 'response.output_audio.delta', delta: 'A'.repeat(4000) })), 0, 'sound is no text');
  t.equal(tokens('openai_responses', SSE, `event: response.audio.delta\n${data({ delta: 'A'.repeat(4000) })}`), 0);
  t.equal(tokens('openai_chat', SSE, `: ${ten}\n\nid: ${ten}\n\n${data({ id: ten, choices: [] })}`), 0);
  const chinese = '\u4f60\u597d\u4e16\u754c'.repeat(5);
  t.equal(tokens('openai_chat', SSE, delta({ content: chinese })), Math.ceil(textTokens(chinese)), 'as text, not as bytes of UTF-8');
  const array = `[${JSON.stringify({ candidates: [{ content: { parts: [{ text: chinese }, { functionCall: { name: 'f', args: {} } }] } }] })}]`;
  t.equal(tokens('gemini_generate', 'application/json', array), Math.ceil(textTokens(chinese) + 0));
  const long = ` ${'word '.repeat(60_000)}`;
  t.ok(
    tokens('gemini_generate', SSE, data({ candidates: [{ content: { parts: [{ text: 'x'.repeat(300_000) }, { text: ten }] } }] })) >=
      expected,
    'also of an event that is too large to keep',
  );
  t.ok(tokens('openai_chat', SSE, delta({ content: long.slice(0, 200_000) })) > 30_000);
});

t.test('reports and approximations', async (t) => {
  const seen = new SeenUsage({ paths: ['t'], except: [] }, { tokensIn: 9, outStated: 100 });
  const say = (words: number): void => seen.add({ t: ' word'.repeat(words) }, '');
  t.same([seen.approximated, seen.takeGrowth()], [false, false]);
  say(20);
  t.same([seen.takeGrowth(), seen.takeGrowth(), seen.approximated], [true, false, true]);
  const first = seen.usage.tokens_out;
  t.ok(first >= 18 && first <= 24, `${first}`);
  t.equal(seen.usage.tokens_in, 9, 'as expected, until it is reported');
  seen.report({ tokens_in: 5, tokens_out: 0 });
  t.match(seen.usage, { tokens_in: 5, tokens_out: first }, 'a zero takes nothing back');
  seen.report({ tokens_in: 5, tokens_out: 17, reasoning_tokens_out: 3 });
  t.match([seen.approximated, seen.usage], [false, { tokens_in: 5, tokens_out: 17, reasoning_tokens_out: 3 }]);
  say(20);
  t.equal(seen.usage.tokens_out, 17 + first, 'what comes behind a report is approximated anew');
  say(90);
  t.equal(seen.usage.tokens_out, 100, 'an approximation above the stated maximum is an error of its own');
  say(60);
  t.ok(seen.usage.tokens_out > 150, 'unless it is half as much again');
});

t.test('an event that ends a stream is never one to stop at', async (t) => {
  const { tap } = watched('mistral_conversations', SSE, 0);
  tap.push(Buffer.from('event: conversation.response.done\ndata: {"type":"conversation.response.done","content":"all of it"}\n\n'));
  t.equal(tap.stopsAt, -1);
  const cohere = watched('cohere_chat_v1', 'application/stream+json', 0);
  cohere.tap.push(Buffer.from('{"event_type":"stream-end","text":"all of it"}\n'));
  t.equal(cohere.tap.stopsAt, -1);
  const unfinished = watched('openai_chat', SSE, 0);
  unfinished.tap.push(Buffer.from('data: {"choices":[{"delta":{"content":"half an event"}}]}\n'));
  unfinished.tap.end();
  t.equal(unfinished.tap.stopsAt, -1, 'nor is the end');
});
