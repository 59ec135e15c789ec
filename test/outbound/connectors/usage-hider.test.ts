import t from 'tap';
import { UsageHider } from '../../../src/outbound/connectors/usage-hider.ts';

const data = (...values: readonly string[]): string => values.map((value) => `data: ${value}\n\n`).join('');
const USAGE = '{"prompt_tokens":19,"completion_tokens":10}';

// name, the stream as the provider sends it when it was asked for usage, what is left
const STREAMS: readonly (readonly [string, string, string])[] = [
  [
    'OpenAI',
    data(
      '{"id":"c","choices":[{"delta":{"content":"日本 \\"usage\\":null"}}],"usage":null}',
      '{"id":"c","usage":null,"choices":[]}',
      '{"usage":null}',
      `{"id":"c","choices":[],"usage":${USAGE}}`,
      '[DONE]',
    ),
    data('{"id":"c","choices":[{"delta":{"content":"日本 \\"usage\\":null"}}]}', '{"id":"c","choices":[]}', '{}', '[DONE]'),
  ],
  [
    "Azure's first event, white space, comments",
    `: hello\n\n${data('{"choices":[],"prompt_filter_results":[{"usage":1}]}', '{ "a" : 1.0 , "usage" : null , "b":2 }', `{"choices": [ ], "usage": ${USAGE} }`)}: bye\n\n`,
    `: hello\n\n${data('{"choices":[],"prompt_filter_results":[{"usage":1}]}', '{ "a" : 1.0 , "b":2 }')}: bye\n\n`,
  ],
  [
    'usage beside a choice is the provider’s own, and other members of that name stay',
    data(`{"choices":[{"index":0}],"usage":${USAGE}}`, '{"choices":[{"usage":null}]}', '{"usage":', 'null', '"usage"'),
    data(`{"choices":[{"index":0}],"usage":${USAGE}}`, '{"choices":[{"usage":null}]}', '{"usage":', 'null', '"usage"'),
  ],
  [
    'a byte order mark',
    `\ufeff${data('{"choices":[{}],"usage":null}', `{"choices":[],"usage":${USAGE}}`)}`,
    `\ufeff${data('{"choices":[{}]}')}`,
  ],
  ['an event with an id keeps what is not its data', `id: 7\ndata: {"choices":[],"usage":${USAGE}}\n\ndata: x`, 'id: 7\n\ndata: x'],
];

function hidden(chunks: readonly Buffer[]): Buffer {
  const hider = new UsageHider();
  return Buffer.concat([...chunks.map((chunk) => Buffer.from(hider.push(chunk))), Buffer.from(hider.flush())]);
}

t.test('what an unasked provider would not have sent is gone, everything else is there byte for byte, wherever it is cut', async (t) => {
  for (const [name, sent, left] of STREAMS) {
    for (const end of ['\n', '\r\n', '\r']) {
      const bytes = Buffer.from(sent.replaceAll('\n', end));
      const want = left.replaceAll('\n', end);
      for (let at = 0; at <= bytes.length; at++) {
        const got = hidden([bytes.subarray(0, at), bytes.subarray(at)]).toString();
        if (got !== want) t.equal(got, want, `${name} ${JSON.stringify(end)} cut at ${at}`);
      }
      const single = hidden([...bytes].map((byte) => Buffer.from([byte])));
      t.equal(single.toString(), want, `${name} ${JSON.stringify(end)} byte by byte`);
    }
  }
});

t.test('whole lines pass at once, and one that is too long to hold any usage passes as it comes', async (t) => {
  const hider = new UsageHider();
  t.equal(Buffer.from(hider.push(Buffer.from('data: {"choices":[1]}\n'))).toString(), 'data: {"choices":[1]}\n');
  const long = Buffer.from(`data: {"usage":null,"x":"${'y'.repeat(300_000)}`);
  t.equal(hider.push(long).length, long.length);
  t.equal(Buffer.from(hider.push(Buffer.from('"}\n\ndata: z\n\n'))).toString(), '"}\n\ndata: z\n\n');
  t.equal(hider.flush().length, 0);
});
