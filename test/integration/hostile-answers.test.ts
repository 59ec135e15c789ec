// What an upstream may send as its answer: however large, deep or long it is, it ends no more than its own call, and
// nothing of it stays.
import type { ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { fakeClock } from '../support/fake-clock.ts';
import { ALLOW_ALL, CHAT, chat, startGoverned } from '../support/governed.ts';

const DEEP = '['.repeat(30_000) + ']'.repeat(30_000);

/** Writes as fast as it is read, until nobody reads any more. */
function endless(response: ServerResponse, piece: string): void {
  const go = (): void => {
    while (!response.destroyed && response.write(piece));
  };
  response.on('drain', go);
  go();
}

t.test('what comes without an end behind a terminal event is not kept, and takes nothing from the client', async (t) => {
  const { send, gw } = await startGoverned(t, {
    // It stands still: no time-out ends anything.
    clock: fakeClock(),
    bundle: ALLOW_ALL,
    env: { GW_MAX_BODY_BYTES: '2000000', GW_MAX_BUFFERED_BYTES: '3000000' },
    handler: (_request, response, body) =>
      void body.then(() => {
        response.setHeader('content-type', 'text/event-stream');
        response.write('data: {"choices":[{"delta":{"content":"hi"}}]}\n\ndata: [DONE]\n\n');
        endless(response, `: ${'x'.repeat(20_000)}\n\n`);
      }),
  });
  for (let at = 0; at < 3; at++) {
    const answer = await send(chat([], undefined, { ...CHAT, stream: true }));
    t.equal(answer.status, 200);
    t.match(answer.body.toString('latin1', 0, 200), /"hi".*\n\ndata: \[DONE\]\n\n/, 'the stream is whole, each time');
    t.ok(answer.body.length < 3_000_000);
    t.match(await gw.record(answer.headers['x-gw-record-id'] ?? ''), { stream_outcome: 'complete', decision: 'allow' });
  }
});

t.test('a terminal event without an end ends its call as an error', async (t) => {
  const { send, gw, upstream } = await startGoverned(t, {
    clock: fakeClock(),
    bundle: ALLOW_ALL,
    env: { GW_MAX_BODY_BYTES: '2000000', GW_MAX_BUFFERED_BYTES: '3000000' },
    handler: (_request, response, body) =>
      void body.then(() => {
        response.setHeader('content-type', 'text/event-stream');
        response.write('event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":3}}}\n\n');
        response.write('event: message_stop\ndata: {"type":"message_stop","x":"');
        endless(response, 'x'.repeat(20_000));
      }),
  });
  const path = '/proxy/anthropic/v1/messages';
  const body = { model: 'claude-3-5-haiku-latest', max_tokens: 5, messages: [{ role: 'user', content: 'x' }], stream: true };
  for (let at = 0; at < 3; at++) await t.rejects(send(chat([], path, body)), 'the client sees that it is not complete');
  t.equal(upstream.requests.length, 3);
  t.equal((await gw.admin('GET', '/healthz')).status, 200);
});

t.test('an answer stands in its envelope as it came: its numbers, its blanks, its depth', async (t) => {
  let answer = '';
  let type = 'application/json';
  const { execute } = await startGoverned(t, {
    bundle: ALLOW_ALL,
    handler: (_request, response, body) => void body.then(() => response.setHeader('content-type', type).end(answer)),
  });
  const cases: readonly (readonly [string, string])[] = [
    ['{"big": 12345678901234567890, "e": 1e999, "a":\t1.0}', '{"big": 12345678901234567890, "e": 1e999, "a":\t1.0}'],
    ['\ufeff[1]\n', '[1]\n'],
    ['"ü\\ud800"', '"ü\\ud800"'],
    ['{"a":1', JSON.stringify('{"a":1')],
    [DEEP, JSON.stringify(DEEP)],
    [`{"usage":{"prompt_tokens":${DEEP}}}`, JSON.stringify(`{"usage":{"prompt_tokens":${DEEP}}}`)],
  ];
  for (const [sent, inside] of cases) {
    answer = sent;
    const { status, text } = await execute();
    t.equal(status, 200);
    t.ok(text.includes(`"result":{"status_code":200,"body":${inside}}`), sent.slice(0, 40));
  }
  type = 'text/plain';
  answer = '{"a":1}';
  t.match((await execute()).text, `"result":{"status_code":200,"body":${JSON.stringify(answer)}}`);
  answer = '';
  t.match((await execute()).text, '"result":{"status_code":200}');
});

t.test('an encoded answer that is held is decoded piece by piece, whatever the pieces', async (t) => {
  const json = JSON.stringify({ model: 'gpt-4o-mini', choices: [], usage: { prompt_tokens: 11, completion_tokens: 4 } });
  const { send, execute, recordOf, gw } = await startGoverned(t, {
    bundle: ALLOW_ALL,
    handler: (_request, response, body) =>
      void body.then(() => {
        response.setHeader('content-type', 'application/json').setHeader('content-encoding', 'gzip');
        for (const byte of gzipSync(json)) response.write(Buffer.from([byte]));
        response.end();
      }),
  });
  t.match(await recordOf(await send(chat())), { metering: { tokens_in: 11, tokens_out: 4 } });
  const { body } = await execute();
  t.match(await gw.record(String(body['record_id'])), { metering: { tokens_in: 11, tokens_out: 4 } });
});
