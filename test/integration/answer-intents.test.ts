// Nothing of an answer whose record is not stored yet leaves before it is certain that there will be one (decision
// 6.8).
import t from 'tap';
import { GatewayError } from '../../src/base/lib/gateway-error.ts';
import type { Effect, Store } from '../../src/storage/contract/store.ts';
import { exactly } from '../support/exactly.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { ALLOW_ALL, CHAT, chat, startGoverned } from '../support/governed.ts';
import { connectPlain } from '../support/raw-clients.ts';
import type { UpstreamHandler } from '../support/tls-upstream.ts';

const EVENT = 'data: {"choices":[{"index":0,"delta":{"content":"Once"}}]}\n\n';
const END = 'data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7}}\n\ndata: [DONE]\n\n';
const LARGE = `{"usage":{"prompt_tokens":11,"completion_tokens":7},"choices":"${'x'.repeat(200_000)}"}`;

/** A store that can be made to keep commits waiting, in their order, or to refuse intents. */
function gatedStore() {
  const gate = {
    held: false,
    refuses: false,
    /** Intents that were ever written. */
    written: 0,
    /** Commits that wait. */
    waiting: [] as (() => void)[],
    opened: undefined as Store | undefined,
    letGo: () => {
      gate.held = false;
      for (const write of gate.waiting.splice(0)) write();
    },
    store: (opened: Store): Store => {
      gate.opened = opened;
      const commit = async (record: Parameters<Store['commit']>[0], effects: readonly Effect[]) => {
        const isIntent = effects.some(({ op, space }) => op === 'put' && space === 'intent');
        if (isIntent && gate.refuses) throw new GatewayError('record_store_unavailable', 'no room');
        if (gate.held) await new Promise<void>((resolve) => gate.waiting.push(resolve));
        if (isIntent) gate.written++;
        return opened.commit(record, effects);
      };
      return new Proxy(opened, {
        get(target, name) {
          if (name === 'commit') return commit;
          const member: unknown = Reflect.get(target, name, target);
          return typeof member === 'function' ? member.bind(target) : member;
        },
      });
    },
  };
  return gate;
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

const answers: UpstreamHandler = (_request, response, whole) =>
  void whole.then((body) => {
    const text = body.toString();
    if (text.includes('"stream":true')) response.setHeader('content-type', 'text/event-stream').end(EVENT + END);
    else
      response
        .setHeader('content-type', 'application/json')
        .end(text.includes('"large"') ? LARGE : '{"usage":{"prompt_tokens":1,"completion_tokens":1}}');
  });

const STREAM = { ...CHAT, stream: true };

// Holds: record-before-last-byte
t.test('the head of a stream or of a large answer waits for its intent, and the answer is whole', async (t) => {
  const gate = gatedStore();
  const { gw } = await startGoverned(t, { bundle: ALLOW_ALL, handler: answers, store: gate.store });
  for (const [body, whole] of [
    [STREAM, EVENT],
    [{ ...CHAT, user: 'large' }, LARGE],
  ] as const) {
    gate.held = true;
    const socket = await connectPlain(gw.port);
    t.teardown(() => socket.destroy());
    let seen = '';
    const said = new Promise<void>((resolve) => {
      socket.on('data', (bytes: Buffer) => {
        seen += bytes.toString('latin1');
        if (seen.endsWith('0\r\n\r\n') || seen.endsWith('"}')) resolve();
      });
    });
    const text = JSON.stringify(body);
    const { path, headers } = chat();
    const fields = ['Host', `127.0.0.1:${gw.port}`, 'Content-Length', String(text.length), ...(headers ?? [])];
    const lines = fields.map((name, at) => (at % 2 === 0 ? `${name}: ` : `${name}\r\n`)).join('');
    socket.write(`POST ${path} HTTP/1.1\r\n${lines}\r\n${text}`);
    while (gate.waiting.length === 0) await turn();
    for (let more = 0; more < 20; more++) await turn();
    t.equal(seen, '', 'not even the head');
    gate.letGo();
    await said;
    t.ok(seen.includes(whole));
    const id = /x-gw-record-id: (\S+)/i.exec(seen)?.[1] ?? '';
    t.match(await gw.record(id), { decision: 'allow', metering: { tokens_in: 11, tokens_out: 7 } });
    t.same(await gate.opened?.list('intent'), [], 'the record has taken its place');
  }
});

/** Its events, its last one, and what waits for the record: the end of a stream, all of what is only called one. */
const WITHOUT_TERMINAL = [
  [
    'a stream without a terminal event',
    `${EVENT}data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":11,"completion_tokens":7}}\n\n`,
    '',
  ],
  ['an answer that is only called a stream', '', '{"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7}}'],
] as const;

t.test('what has no terminal event ends behind its record, though its head and its events leave as they come', async (t) => {
  let next: readonly [string, string] = ['', ''];
  let end: () => void = () => undefined;
  const gate = gatedStore();
  const { gw } = await startGoverned(t, {
    bundle: ALLOW_ALL,
    store: gate.store,
    handler: (_request, response, whole) =>
      void whole.then(() => {
        const [events, last] = next;
        response.setHeader('content-type', 'text/event-stream').flushHeaders();
        response.write(events);
        end = () => response.end(last);
      }),
  });
  for (const [name, events, last] of WITHOUT_TERMINAL) {
    next = [events, last];
    const answer = await fetch(`${gw.url}/proxy/openai/v1/chat/completions`, { method: 'POST', body: JSON.stringify(STREAM) });
    const reader = answer.body?.getReader();
    let seen = '';
    while (seen !== events) seen += Buffer.from((await reader?.read())?.value ?? []).toString();
    gate.held = true;
    const over = (async () => {
      for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) seen += Buffer.from(part.value).toString();
      seen += ' the end';
    })();
    end();
    while (gate.waiting.length === 0) await turn();
    for (let more = 0; more < 20; more++) await turn();
    t.equal(seen, events, `${name}: the rest waits`);
    gate.letGo();
    await over;
    t.equal(seen, `${events}${last} the end`);
    const { status, body } = await gw.admin('GET', `/v1/records/${answer.headers.get('x-gw-record-id') ?? ''}`);
    t.match([status, body], [200, { metering: { tokens_in: 11, tokens_out: 7 } }]);
    t.equal((body as Record<string, unknown>)['stream_outcome'], last === '' ? 'complete' : undefined);
  }
});

t.test('what is held until its record is stored needs none', async (t) => {
  const gate = gatedStore();
  const { send, execute } = await startGoverned(t, { bundle: ALLOW_ALL, handler: answers, store: gate.store });
  t.equal((await send(chat())).status, 200);
  t.equal((await execute()).status, 200);
  t.equal((await execute({}, { params: { ...CHAT, user: 'large' } })).status, 200, 'an envelope is held, too');
  t.equal(gate.written, 0);
  t.equal((await send(chat([], undefined, STREAM))).status, 200);
  t.equal(gate.written, 1);
});

t.test('an answer whose intent cannot be stored does not begin, and nothing stays set aside', async (t) => {
  const gate = gatedStore();
  const clock = fakeClock();
  const { gw, send, execute } = await startGoverned(t, { bundle: ALLOW_ALL, handler: answers, store: gate.store, clock });
  gate.refuses = true;
  for (const refused of [await send(chat([], undefined, STREAM)), await execute({}, { params: STREAM })]) t.equal(refused.status, 503);
  gate.refuses = false;
  const limit = await gw.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd: '1', actions: [] });
  t.equal(limit.status, 201);
  t.match(
    (await gw.admin('GET', '/v1/admin/budgets/limits')).body,
    { limits: [{ reserved_usd: exactly('0') }] },
    'nothing stays set aside',
  );
  t.same(await gate.opened?.list('intent'), []);
  t.equal((await send(chat([], undefined, STREAM))).status, 200, 'the next one');
});

t.test('a client that leaves while the intent is being stored leaves a record and no intent', async (t) => {
  const gate = gatedStore();
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, handler: answers, store: gate.store });
  gate.held = true;
  const leaving = new AbortController();
  const call = fetch(`${governed.gw.url}/proxy/openai/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify(STREAM),
    signal: leaving.signal,
  });
  while (gate.waiting.length === 0) await turn();
  leaving.abort();
  await t.rejects(call);
  while (gate.waiting.length === 1) await turn();
  gate.letGo();
  let text: string | undefined;
  while (text === undefined) {
    await turn();
    text = (await gate.opened?.records({ limit: 1 }))?.[0]?.text;
  }
  t.match(JSON.parse(text), { stream_outcome: 'aborted', status_code: 499 });
  t.same(await gate.opened?.list('intent'), []);
});
