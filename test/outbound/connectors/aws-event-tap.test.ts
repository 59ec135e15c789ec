import { encodeEventStreamFrame } from '@copilotkit/aimock';
import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import { type AwsFrame, AwsFrames } from '../../../src/outbound/connectors/aws-frames.ts';
import { createStreamTap } from '../../../src/outbound/connectors/create-stream-tap.ts';
import type { StreamTap } from '../../../src/outbound/connectors/event-reader.ts';
import { awsChunk, awsEvent, awsMessage, withChecksums } from '../../support/aws-events.ts';

const catalogue = loadCatalogue();
const TYPE = 'application/vnd.amazon.eventstream';

function tapOf(dialect: string): StreamTap {
  return createStreamTap(catalogue.dialect(dialect), TYPE);
}

function framesOf(pieces: Iterable<Uint8Array>): { readonly frames: readonly AwsFrame[]; readonly broken: boolean } {
  const frames: AwsFrame[] = [];
  const reader = new AwsFrames((frame) => frames.push({ ...frame, payload: frame.payload && Buffer.from(frame.payload) }));
  for (const piece of pieces) reader.push(piece);
  return { frames, broken: reader.broken };
}

const CONVERSE = [
  awsEvent('messageStart', { role: 'assistant' }),
  awsEvent('contentBlockDelta', { delta: { text: '"usage":{"inputTokens":999} metadata 日本' }, contentBlockIndex: 0 }),
  awsEvent('messageStop', { stopReason: 'end_turn' }),
  awsEvent('metadata', {
    usage: { inputTokens: 10, outputTokens: 7, totalTokens: 47, cacheReadInputTokens: 20, cacheWriteInputTokens: 10 },
    metrics: { latencyMs: 12 },
  }),
];

const METRICS = { inputTokenCount: 8, outputTokenCount: 3, invocationLatency: 900, firstByteLatency: 300 };

const SAMPLES: readonly {
  readonly name: string;
  readonly dialect: string;
  readonly messages: readonly Buffer[];
  readonly want: { readonly outcome: string; readonly usage: unknown; readonly model: string | undefined };
  /** Index of the message that ends it. */
  readonly last: number | undefined;
}[] = [
  {
    name: 'converse',
    dialect: 'bedrock_converse',
    messages: CONVERSE,
    want: {
      outcome: 'complete',
      usage: { tokens_in: 40, tokens_out: 7, cached_tokens_in: 20, cache_write_tokens_in: 10 },
      model: undefined,
    },
    last: 3,
  },
  {
    name: 'converse that is cut',
    dialect: 'bedrock_converse',
    messages: CONVERSE.slice(0, 2),
    want: { outcome: 'open', usage: undefined, model: undefined },
    last: undefined,
  },
  {
    name: 'converse that is throttled',
    dialect: 'bedrock_converse',
    messages: [
      ...CONVERSE.slice(0, 2),
      awsMessage({ ':message-type': 'exception', ':exception-type': 'throttlingException' }, '{"message":"slow down"}'),
    ],
    want: { outcome: 'error', usage: undefined, model: undefined },
    last: undefined,
  },
  {
    name: 'claude',
    dialect: 'bedrock_anthropic',
    messages: [
      awsChunk({
        type: 'message_start',
        message: { model: 'claude-3', usage: { input_tokens: 5, cache_read_input_tokens: 3, output_tokens: 1 } },
      }),
      awsChunk({ type: 'content_block_delta', delta: { text: '{"type":"message_stop"}' } }),
      awsChunk({ type: 'message_delta', delta: {}, usage: { output_tokens: 3 } }),
      awsChunk({ type: 'message_stop', 'amazon-bedrock-invocationMetrics': METRICS }),
    ],
    want: { outcome: 'complete', usage: { tokens_in: 8, tokens_out: 3, cached_tokens_in: 3 }, model: 'claude-3' },
    last: 3,
  },
  {
    name: 'another model',
    dialect: 'bedrock_invoke',
    messages: [
      awsChunk({ generation: 'Hel' }),
      awsChunk({ generation: 'lo', stop_reason: 'stop', 'amazon-bedrock-invocationMetrics': METRICS }),
    ],
    want: { outcome: 'complete', usage: { tokens_in: 8, tokens_out: 3 }, model: undefined },
    last: 1,
  },
];

t.test('each stream says its usage, its end and its failure, wherever it is cut', async (t) => {
  for (const { name, dialect, messages, want, last } of SAMPLES) {
    const bytes = Buffer.concat(messages);
    const start = last === undefined ? -1 : Buffer.concat(messages.slice(0, last)).length;
    const faults: string[] = [];
    for (let at = 0; at <= bytes.length; at++) {
      const tap = tapOf(dialect);
      const first = tap.push(bytes.subarray(0, at));
      const second = tap.push(bytes.subarray(at));
      const held = first !== -1 ? first : second === -1 ? -1 : at + second;
      tap.end();
      const { outcome, usage, model } = tap;
      if (JSON.stringify({ outcome, usage, model }) !== JSON.stringify(want)) faults.push(`${at}: ${outcome} ${JSON.stringify(usage)}`);
      if (held !== (start === -1 ? -1 : Math.max(start, at < bytes.length && at > start ? at : start)))
        faults.push(`${at}: held from ${held}`);
    }
    t.strictSame(faults, [], name);
  }
});

t.test('a stream that breaks off keeps what was seen of its usage', async (t) => {
  const [claude] = SAMPLES.filter(({ name }) => name === 'claude');
  const tap = tapOf('bedrock_anthropic');
  tap.push(Buffer.concat(claude?.messages.slice(0, 2) ?? []));
  t.strictSame([tap.outcome, tap.usage], ['open', { tokens_in: 8, tokens_out: 1, cached_tokens_in: 3 }]);
});

t.test('messages that another encoder wrote are read, whole and byte by byte', async (t) => {
  const written = [
    encodeEventStreamFrame({ ':event-type': 'a', ':message-type': 'event' }, Buffer.from('{"x":1}')),
    encodeEventStreamFrame({}, Buffer.alloc(0)),
    encodeEventStreamFrame({ name: 'é'.repeat(300) }, Buffer.alloc(70_000, 'z')),
  ];
  const bytes = Buffer.concat(written);
  for (const pieces of [[bytes], written, Array.from(bytes, (_, i) => bytes.subarray(i, i + 1))]) {
    const { frames, broken } = framesOf(pieces);
    t.equal(broken, false);
    t.strictSame(
      frames.map(({ start, headers, payload }) => [start, headers.size, payload?.length]),
      [
        [0, 2, 7],
        [written[0]?.length, 0, 0],
        [(written[0]?.length ?? 0) + 16, 1, 70_000],
      ],
    );
    t.equal(frames[0]?.headers.get(':event-type'), 'a');
  }
});

t.test('headers of every type are stepped over, and only a list to its last byte is one', async (t) => {
  const text = Buffer.from([1, 0x74, 7, 0, 2, 0x6f, 0x6b]);
  const values: readonly (readonly number[])[] = [
    [0],
    [1],
    [2, 9],
    [3, 9, 9],
    [4, 9, 9, 9, 9],
    [5, 9, 9, 9, 9, 9, 9, 9, 9],
    [6, 0, 3, 9, 9, 9],
    [7, 0, 0],
    [8, 9, 9, 9, 9, 9, 9, 9, 9],
    [9, ...Array<number>(16).fill(9)],
  ];
  const message = (headers: Buffer): Buffer => {
    const bytes = Buffer.concat([Buffer.alloc(12), headers, Buffer.alloc(4)]);
    bytes.writeUInt32BE(bytes.length, 0);
    bytes.writeUInt32BE(headers.length, 4);
    return withChecksums(bytes);
  };
  for (const value of values) {
    const header = Buffer.concat([Buffer.from([1, 0x78]), Buffer.from(value)]);
    t.equal(framesOf([message(Buffer.concat([header, text]))]).frames[0]?.headers.get('t'), 'ok', `type ${value[0]}`);
    for (let cut = 1; cut < header.length; cut++)
      t.ok(framesOf([message(header.subarray(0, cut))]).broken, `type ${value[0]} cut at ${cut}`);
  }
  t.ok(framesOf([message(Buffer.from([1, 0x78, 10]))]).broken, 'a type that is none');
});

t.test('a byte that was changed anywhere ends the reading, and nothing of its message counts', async (t) => {
  const good = Buffer.concat(CONVERSE.slice(0, 3));
  const [, , , metadata = Buffer.alloc(0)] = CONVERSE;
  for (let at = 0; at < metadata.length; at++) {
    const bad = Buffer.from(metadata);
    bad[at] = (bad[at] ?? 0) ^ 0x10;
    const tap = tapOf('bedrock_converse');
    tap.push(Buffer.concat([good, bad, ...CONVERSE]));
    tap.end();
    if (tap.usage !== undefined || !['error', 'open'].includes(tap.outcome))
      t.fail(`byte ${at}: ${tap.outcome} ${JSON.stringify(tap.usage)}`);
  }
  const tap = tapOf('bedrock_converse');
  t.equal(tap.push(Buffer.from('HTTP is no event stream')), -1);
  t.equal(tap.outcome, 'error');
});

t.test('a message that is too large to keep is checked and stepped over', async (t) => {
  const large = awsEvent('metadata', { usage: { inputTokens: 1, outputTokens: 1 }, trace: 'x'.repeat(2_000_000) });
  const { frames, broken } = framesOf([large.subarray(0, 1_000_000), large.subarray(1_000_000), ...CONVERSE]);
  t.equal(broken, false);
  t.strictSame([frames.length, frames[0]?.payload, frames[0]?.headers.get(':event-type')], [5, undefined, 'metadata']);
});
