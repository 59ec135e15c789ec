// Answers are a stranger's words: however they nest, are named or are cut, they cost memory and time in proportion to
// what is kept of them.
import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import type { Dialect } from '../../../src/base/catalogue/types.ts';
import { createAnswerReader } from '../../../src/outbound/connectors/answer-reader.ts';
import { createStreamTap } from '../../../src/outbound/connectors/create-stream-tap.ts';
import type { StreamTap } from '../../../src/outbound/connectors/event-reader.ts';
import { SeenUsage } from '../../../src/outbound/connectors/seen-usage.ts';
import { UsageHider } from '../../../src/outbound/connectors/usage-hider.ts';
import { awsEvent } from '../../support/aws-events.ts';
import { bytesInUse } from '../../support/bytes-in-use.ts';
import { cpuClock } from '../../support/cpu-clock.ts';

const catalogue = loadCatalogue();
const SSE = 'text/event-stream';
const AWS = 'application/vnd.amazon.eventstream';
const MB = 1024 * 1024;
const DEEP = 30_000;

function dialect(id: string): Dialect {
  const found = catalogue.dialect(id);
  if (found === undefined) throw new Error(`no dialect ${id}`);
  return found;
}

/** A tap that follows what is said, as each stream has one whose call costs money. */
function followed(id: string, contentType: string): { readonly tap: StreamTap; readonly seen: SeenUsage } {
  const found = dialect(id);
  const seen = new SeenUsage(found.deltas ?? { paths: [], except: [] }, { tokensIn: 0, outStated: undefined });
  return { seen, tap: createStreamTap(found, contentType, { seen, passes: () => false }) };
}

function* cut(bytes: Buffer, size: number): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

t.test('a value may nest as deep as its sender likes, in events that are kept and in those that are too large for it', async (t) => {
  const values = { lists: '['.repeat(DEEP) + ']'.repeat(DEEP), objects: `${'{"a":'.repeat(9_000)}1${'}'.repeat(9_000)}` };
  const filler = `"filler":"${'x'.repeat(300_000)}",`;
  const events = {
    openai_chat: (value: string) => `"choices":[{"delta":{"content":${value}}}],"usage":${value},"error":null,"model":${value}`,
    openai_responses: (value: string) => `"delta":${value},"response":{"usage":${value},"model":"m"}`,
    gemini_generate: (value: string) =>
      `"candidates":[{"content":{"parts":[{"functionCall":{"args":${value}}}]}}],"usageMetadata":${value}`,
    anthropic_messages: (value: string) => `"delta":{"text":${value}},"usage":${value}`,
  };
  for (const [id, event] of Object.entries(events)) {
    for (const [name, value] of Object.entries(values)) {
      for (const large of ['', filler]) {
        const { tap } = followed(id, SSE);
        const bytes = Buffer.from(`data: {${large}${event(value)}}\n\n`);
        t.doesNotThrow(() => {
          for (const piece of cut(bytes, 16_384)) tap.push(piece);
        }, `${id} ${name} ${large.length}`);
        tap.push(Buffer.from(`data: {"usage":{"prompt_tokens":3,"input_tokens":3},"usageMetadata":{"promptTokenCount":3}}\n\n`));
        t.doesNotThrow(() => tap.end());
        if (id !== 'openai_responses') t.equal(tap.usage?.tokens_in, 3, 'and the stream goes on');
      }
    }
  }
  const reader = createAnswerReader(dialect('openai_chat'));
  reader.push(Buffer.from(`{"model":${values.lists},"usage":{"prompt_tokens":3,"prompt_tokens_details":${values.objects}}}`));
  t.same(reader.end(), { usage: { tokens_in: 3, tokens_out: 0 } });
  const aws = followed('bedrock_converse', AWS);
  t.doesNotThrow(() =>
    aws.tap.push(awsEvent('contentBlockDelta', { delta: { text: JSON.parse(`[${'['.repeat(900)}${']'.repeat(900)}]`) } })),
  );
});

t.test('of an event that is too large to keep the text counts as text, not as bytes of UTF-8', async (t) => {
  const chinese = '\u4f60\u597d\u4e16\u754c'.repeat(500);
  const counted = [0, 300_000].map((filler) => {
    const { tap, seen } = followed('openai_chat', SSE);
    const event = {
      filler: 'x'.repeat(filler),
      choices: [{ delta: { content: chinese, tool_calls: [{ function: { arguments: chinese } }] } }],
    };
    for (const piece of cut(Buffer.from(`data: ${JSON.stringify(event)}\n\n`), 9_999)) tap.push(piece);
    return seen.usage.tokens_out;
  });
  t.equal(counted[1], counted[0]);
});

t.test('of usage reports only known counts are kept, whatever else stands in them', async (t) => {
  const names = (report: number): string => Array.from({ length: 4_000 }, (_, at) => `"n${report}_${at}":{"a":[1,2,3,4,5]}`).join();
  for (const [id, member] of [
    ['openai_chat', 'usage'],
    ['gemini_generate', 'usageMetadata'],
  ] as const) {
    const { tap } = followed(id, SSE);
    tap.push(Buffer.from(`data: {"${member}":{"first":1}}\n\n`));
    const before = bytesInUse();
    for (let report = 0; report < 25; report++) {
      tap.push(
        Buffer.from(`data: {"${member}":{${names(report)},"prompt_tokens_details":{"cached_tokens":2,"x":"${'y'.repeat(50_000)}"}}}\n\n`),
      );
    }
    const grown = bytesInUse() - before;
    t.ok(grown < MB, `${id}: ${Math.round(grown / 1024)} KiB are kept`);
    tap.push(Buffer.from(`data: {"${member}":{"prompt_tokens":7,"promptTokenCount":7}}\n\n`));
    tap.end();
    t.equal(tap.usage?.tokens_in, 7);
  }
});

t.test('a count is a whole number that is no less than nothing; all else says nothing, and takes nothing back', async (t) => {
  const nonsense = ['1e308', '-5', '1.5', '"9"', 'true', '[9]', '9007199254740993', 'null', '{}', '-0.0', '0'];
  const { tap } = followed('openai_chat', SSE);
  const report = (members: string): void => void tap.push(Buffer.from(`data: {"usage":{${members}}}\n\n`));
  for (const value of nonsense.slice(0, -2)) report(`"prompt_tokens":${value},"completion_tokens":${value}`);
  t.equal(tap.usage, undefined, 'absent is not zero');
  report('"prompt_tokens":10,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":3}');
  for (const value of nonsense)
    report(`"prompt_tokens":${value},"completion_tokens":${value},"prompt_tokens_details":{"cached_tokens":${value}}`);
  t.same(tap.usage, { tokens_in: 10, tokens_out: 4, cached_tokens_in: 3 });
  report('"completion_tokens":5,"prompt_tokens_details":7');
  t.same(tap.usage, { tokens_in: 10, tokens_out: 5, cached_tokens_in: 3 }, 'later counts win, one by one');
});

t.test('what comes in pieces of one byte is kept in its own length', async (t) => {
  const whole = 200_000;
  const forms: Readonly<Record<string, () => { push(piece: Uint8Array): unknown }>> = {
    'a line': () => begun('openai_chat', SSE, 'data: {"x":"'),
    'a line that is one event': () => begun('cohere_chat_v1', 'application/stream+json', '{"x":"'),
    'a value that is picked': () => begun('gemini_generate', 'application/json', '[{"candidates":[{"content":{"parts":[{"text":"'),
    'a line of which usage is to be hidden': () => {
      const hider = new UsageHider();
      hider.push(Buffer.from('data: {"x":"'));
      return hider;
    },
    'a message of an AWS stream': () => {
      const { tap } = followed('bedrock_converse', AWS);
      const message = awsEvent('contentBlockDelta', { delta: { text: 'x'.repeat(whole + 1_000) } });
      tap.push(message.subarray(0, 100));
      return tap;
    },
  };
  const piece = Buffer.from('y');
  for (const [name, open] of Object.entries(forms)) {
    const tap = open();
    const before = bytesInUse();
    for (let at = 0; at < whole; at++) tap.push(piece);
    const grown = bytesInUse() - before;
    t.ok(grown < 6 * whole, `${name}: ${Math.round(grown / 1024)} KiB`);
    tap.push(piece);
  }
  const { tap } = followed('openai_chat', SSE);
  const before = bytesInUse();
  for (let at = 0; at < whole / 2; at++) tap.push(Buffer.from('data\n'));
  t.ok(bytesInUse() - before < 6 * whole, 'an event of many lines');
  // Each line is a small cut of a chunk that holds nothing else.
  const sparse = followed('openai_chat', SSE).tap;
  const comment = `:${' '.repeat(16_000)}\n`;
  const sparseBefore = bytesInUse();
  for (let at = 0; at < 1_000; at++) sparse.push(Buffer.from(`data: ${'x'.repeat(20)}\n${comment}`));
  t.ok(bytesInUse() - sparseBefore < 4 * MB, 'lines do not keep what stood around them');
});

function begun(id: string, contentType: string, text: string): StreamTap {
  const { tap } = followed(id, contentType);
  tap.push(Buffer.from(text));
  return tap;
}

t.test('time is in proportion to length, too', async (t) => {
  const cases: Readonly<Record<string, () => void>> = {
    'an event of one-byte pieces': () => {
      const { tap } = followed('openai_chat', SSE);
      for (const piece of cut(Buffer.from(`data: {"x":"${'y'.repeat(250_000)}"}\n\n`), 1)) tap.push(piece);
    },
    'tiny events': () => void followed('openai_chat', SSE).tap.push(Buffer.from('data:0\n\n'.repeat(60_000))),
    'names and nothing else': () => void followed('openai_chat', SSE).tap.push(Buffer.from(`data:${'"usage":null '.repeat(30_000)}\n\n`)),
    'lines of which usage is to be hidden': () => {
      const hider = new UsageHider();
      hider.push(Buffer.from('\r'.repeat(200_000)));
      hider.push(Buffer.from('data:{"usage"\n'.repeat(40_000)));
    },
  };
  for (const [name, run] of Object.entries(cases)) {
    let fastest = Number.POSITIVE_INFINITY;
    for (let i = 0; i < 5 && fastest > 250; i++) {
      const clock = cpuClock();
      run();
      fastest = Math.min(fastest, clock.spent());
    }
    t.ok(fastest <= 250, `${name}: ${fastest.toFixed(0)} ms`);
  }
});

t.test('from a stream of broken lines nothing is taken out any more, and nothing is lost', async (t) => {
  const hider = new UsageHider();
  const broken = 'data: {"usage"\n'.repeat(200);
  t.equal(Buffer.from(hider.push(Buffer.from(broken))).toString(), broken);
});
