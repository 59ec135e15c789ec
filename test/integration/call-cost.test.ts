// What a call costs in calls of our own functions, which is the same on every machine, however busy: what is added to the path of a request shows here first.
import { Session } from 'node:inspector/promises';
import t from 'tap';
import { ALLOW_ALL, type Governed, startGoverned } from '../support/governed.ts';
import type { UpstreamHandler } from '../support/tls-upstream.ts';

const CALLS = 40;
/** On a busy machine answers come in more pieces, and timers are due meanwhile: the figure is that of the first round without that. */
const ROUNDS = 5;
const EVENTS = 20;
const OPENAI = '/openai/v1/chat/completions';
const ANTHROPIC = '/anthropic/v1/messages';
const usage = { prompt_tokens: 212, completion_tokens: 50, total_tokens: 262, prompt_tokens_details: { cached_tokens: 12 } };
const messages = [{ role: 'user', content: 'Say something short about the weather.' }];

const event = (data: object): string =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', model: 'gpt-4o-mini', ...data })}\n\n`;
const streamed = [
  ...Array.from({ length: EVENTS }, (_, at) => event({ choices: [{ index: 0, delta: { content: `word ${at} ` }, finish_reason: null }] })),
  event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }),
  event({ choices: [], usage }),
  'data: [DONE]\n\n',
];
const whole: Readonly<Record<string, object>> = {
  '/v1/chat/completions': {
    id: 'c',
    object: 'chat.completion',
    model: 'gpt-4o-mini-2024-07-18',
    choices: [{ index: 0, message: { role: 'assistant', content: 'word '.repeat(140) }, finish_reason: 'stop' }],
    usage,
  },
  '/v1/messages': {
    id: 'm',
    type: 'message',
    model: 'claude-sonnet-4-5-20250929',
    content: [{ type: 'text', text: 'word '.repeat(140) }],
    stop_reason: 'end_turn',
    usage: { input_tokens: 30, cache_read_input_tokens: 300, cache_creation_input_tokens: 0, output_tokens: 50 },
  },
};

const handler: UpstreamHandler = (request, response, body) =>
  void body.then((bytes) => {
    if (!bytes.includes('"stream":true')) {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(whole[request.url ?? '']));
      return;
    }
    response.setHeader('content-type', 'text/event-stream');
    for (const piece of streamed) response.write(piece);
    response.end();
  });

/**
 * Calls of our functions for one call, at most. A change that needs more says in its message why; one that needs less lowers the figure. Streams come in pieces of any
 * size, which leaves some room.
 */
const MOST: readonly (readonly [name: string, most: number, path: string, body: object])[] = [
  ['a whole answer', 1_100, OPENAI, { model: 'gpt-4o-mini', max_tokens: 256, messages }],
  ['a whole answer of Anthropic', 1_080, ANTHROPIC, { model: 'claude-sonnet-4-5', max_tokens: 256, messages }],
  ['a stream', 1_790, OPENAI, { model: 'gpt-4o-mini', max_tokens: 256, messages, stream: true, stream_options: { include_usage: true } }],
];

async function place({ gw }: Governed, path: string, body: object): Promise<void> {
  const response = await fetch(`${gw.url}/proxy${path}`, {
    method: 'POST',
    headers: { Authorization: 'Bearer k', 'x-api-key': 'k', 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(text);
}

/** Calls of functions of the gateway since the last time that this was asked, by name. */
async function counted(session: Session): Promise<Map<string, number>> {
  const { result } = await session.post('Profiler.takePreciseCoverage');
  const counts = new Map<string, number>();
  for (const { url, functions } of result.filter((script) => script.url.includes('/build/src/'))) {
    for (const { functionName, ranges } of functions) {
      const name = `${url.slice(url.indexOf('/build/src/') + '/build/src/'.length)} ${functionName}`;
      counts.set(name, (counts.get(name) ?? 0) + (ranges[0]?.count ?? 0));
    }
  }
  return counts;
}

t.test('a call costs no more calls of our functions than it did', async (t) => {
  const governed = await startGoverned(t, { handler, bundle: ALLOW_ALL });
  const session = new Session();
  session.connect();
  t.teardown(() => session.disconnect());
  await session.post('Profiler.enable');
  for (const [, , path, body] of MOST) await place(governed, path, body);
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  for (const [name, most, path, body] of MOST) {
    await place(governed, path, body);
    let counts = new Map<string, number>();
    let each = Number.POSITIVE_INFINITY;
    for (let round = 0; round < ROUNDS && each > most; round += 1) {
      await counted(session);
      for (let at = 0; at < CALLS; at += 1) await place(governed, path, body);
      counts = await counted(session);
      each = [...counts.values()].reduce((all, one) => all + one, 0) / CALLS;
    }
    if (each > most)
      t.comment(
        [...counts]
          .sort(([, a], [, b]) => b - a)
          .slice(0, 40)
          .map(([of, count]) => `${count / CALLS} ${of}`)
          .join('\n'),
      );
    t.ok(each <= most, `${name}: ${each} of ${most}`);
    t.ok(each > most * 0.9, `${name}: ${each} of ${most}, the figure is not too large`);
  }
});
