// GW_STREAM_STOP_AT_CAP: a stream that would pass a cap is ended with an error in its own format, recorded first and
// charged for what was seen.
import { once } from 'node:events';
import { constants, createGzip } from 'node:zlib';
import t from 'tap';
import { loadCatalogue } from '../../src/base/catalogue/catalogue.ts';
import { createLogger } from '../../src/base/lib/log.ts';
import { picoFromUsd, usdFromPico } from '../../src/base/lib/money.ts';
import { estimate } from '../../src/decide/pricing/estimate.ts';
import { ENDLESS, type EndlessForm, endlessText, endlessUpstream } from '../support/endless-streams.ts';
import { exactly } from '../support/exactly.ts';
import type { TestGateway } from '../support/gateway.ts';
import { ALLOW_ALL, bundleOf, type Governed, startGoverned } from '../support/governed.ts';
import { connectPlain, connectThrough, h1Request, h2Request, h2Session, type RawResponse } from '../support/raw-clients.ts';
import type { HasTeardown } from '../support/temp-dir.ts';

type Json = Record<string, unknown>;

const CHAT = ENDLESS[0] as EndlessForm;
const ON = { GW_STREAM_STOP_AT_CAP: 'true' };
/** At 30.00 a million, 66 tokens of output and a little input. */
const CAP = '0.002';

async function limits(gw: TestGateway): Promise<readonly Json[]> {
  return ((await gw.admin('GET', '/v1/admin/budgets/limits')).body as { limits: Json[] }).limits;
}

async function capped(t: HasTeardown, upstream: ReturnType<typeof endlessUpstream>, options: Parameters<typeof startGoverned>[1] = {}) {
  const lines: Json[] = [];
  const log = createLogger({
    level: 'info',
    format: 'json',
    destination: { write: (line: string) => void lines.push(JSON.parse(line) as Json) },
  });
  const governed = await startGoverned(t, {
    bundle: ALLOW_ALL,
    log,
    handler: upstream.handler,
    ...options,
    env: { ...ON, ...options.env },
  });
  const limit = (limit_usd: string, more: object = {}) =>
    governed.gw.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd, actions: ['cap'], ...more });
  return { ...governed, lines, limit };
}

function request(form: EndlessForm, path: string, more: object = {}) {
  const headers = ['Authorization', 'Bearer k', 'Content-Type', 'application/json'];
  return { method: 'POST', path, headers, body: JSON.stringify({ ...form.body, ...more }) };
}

function through(governed: Governed, form: EndlessForm): Promise<RawResponse> {
  return governed.through(`${form.host}:443`, request(form, form.path));
}

/** The upstream knows the end of every stream that it began. */
async function over(upstream: ReturnType<typeof endlessUpstream>): Promise<void> {
  while (upstream.stopped + upstream.ended < upstream.begun) await new Promise((resolve) => setImmediate(resolve));
}

/** Splits what a client got into what the provider said, which must be whole events, and the gateway's last word. */
function lastWord(form: EndlessForm, body: Buffer): { said: string; last: string; events: number } {
  const all = body.toString();
  const whole = endlessText(form);
  let same = 0;
  while (same < all.length && all[same] === whole[same]) same++;
  let said = form.head;
  let events = 0;
  while (said.length + form.word(events).length <= same) said += form.word(events++);
  return { said, last: all.slice(said.length), events };
}

/** The data of the event; of Gemini's two it is the first. */
function dataOf(last: string): Json {
  const data = /^data: (.*)$/m.exec(last)?.[1] ?? last.trim().replace(/^,/, '').replace(/\]$/, '');
  return JSON.parse(data) as Json;
}

/** How each format tells it. */
const TOLD: Readonly<Record<string, { event?: string; data: object }>> = {
  openai_chat: {
    data: {
      error: { message: /would pass the monthly budget limit of its org/, type: 'budget_exceeded', param: null, code: 'budget_exceeded' },
    },
  },
  openai_completions: { data: { error: { code: 'budget_exceeded' } } },
  openai_responses: { event: 'error', data: { type: 'error', code: 'budget_exceeded', message: /budget limit of its org/, param: null } },
  anthropic_messages: { event: 'error', data: { type: 'error', error: { type: 'budget_exceeded', message: /budget limit of its org/ } } },
  gemini_generate: { data: { error: { code: 403, message: /budget limit of its org/, status: 'PERMISSION_DENIED' } } },
  gemini_interactions: { event: 'error', data: { event_type: 'error', error: { message: /budget limit of its org/ } } },
  cohere_chat: { event: 'message-end', data: { type: 'message-end', delta: { finish_reason: 'ERROR', error: /budget limit of its org/ } } },
  cohere_chat_v1: { data: { event_type: 'stream-end', is_finished: true, finish_reason: 'ERROR', message: /budget limit of its org/ } },
  cohere_generate: { data: { event_type: 'stream-error', finish_reason: 'ERROR', err: /budget limit of its org/ } },
  ollama: { data: { error: /budget limit of its org/ } },
  mistral_chat: {
    data: { object: 'error', message: /budget limit of its org/, type: 'budget_exceeded', error: { message: /budget limit of its org/ } },
  },
  mistral_conversations: {
    event: 'conversation.response.error',
    data: { type: 'conversation.response.error', message: /budget limit of its org/, code: 403 },
  },
};

/** A cap that leaves so much of what is spent already. */
async function leave(
  governed: Awaited<ReturnType<typeof capped>>,
  amount: string,
): Promise<{ cap: string; spent: string; remove(): Promise<unknown> }> {
  const draft = (await governed.limit('1', { actions: [] })).body as { limit_id: string };
  const spent = String((await limits(governed.gw)).find(({ limit_id }) => limit_id === draft.limit_id)?.['spent_usd']);
  const cap = usdFromPico(picoFromUsd(spent) + picoFromUsd(amount));
  const made = (await governed.limit(cap)).body as { limit_id: string };
  const remove = () =>
    Promise.all([draft, made].map(({ limit_id }) => governed.gw.admin('DELETE', `/v1/admin/budgets/limits/${limit_id}`)));
  return { cap, spent, remove };
}

// Holds: streams-end-at-their-cap
t.test('a stream is ended at its cap', async (t) => {
  const upstream = endlessUpstream();
  const governed = await capped(t, upstream);
  for (const form of ENDLESS) {
    await t.test(form.name, async (t) => {
      const { cap, spent, remove } = await leave(governed, CAP);
      const answer = await through(governed, form);
      const record = await governed.recordOf(answer);
      const { said, last, events } = lastWord(form, answer.body);
      t.equal(answer.status, 200);
      await over(upstream);
      t.equal(upstream.ended, 0, 'the upstream was stopped');
      t.ok(events > 40 && events < 80, `about as many words as the cap allows: ${events}`);
      const told = TOLD[form.dialect];
      t.match(dataOf(last), told?.data);
      t.equal(/^event: (.*)$/m.exec(last)?.[1], told?.event);
      const codes = ['stream_stopped_at_cap', 'budget_limit_exceeded'];
      t.match(dataOf(last), {
        reason: 'budget_exceeded',
        reason_codes: codes,
        record_id: record['record_id'],
        record_hash: record['record_hash'],
        budget: { kind: 'limit', limit_usd: exactly(cap) },
      });
      if (form.contentType.startsWith('application/json')) t.doesNotThrow(() => JSON.parse(said + last) as unknown, 'still one JSON array');
      t.match(record, {
        decision: 'allow',
        reason: 'budget_exceeded',
        reason_codes: codes,
        stream_outcome: 'aborted',
        status_code: 200,
        budget: { kind: 'limit', scope: 'org', limit_usd: exactly(cap), reserved_usd: exactly('0') },
        error: { code: 'stream_stopped_at_cap', message: new RegExp(`the monthly budget limit of its org, ${cap} USD`) },
        response_bytes: Buffer.byteLength(said),
        metering: { usage_reported: form.name === 'Gemini', rate_in: exactly('10'), rate_out: exactly('30') },
      });
      const cost = picoFromUsd((record['metering'] as { cost_usd: string }).cost_usd);
      t.ok(cost > picoFromUsd(CAP), 'the event that passed the cap is the last that was given, and charged');
      t.ok(cost < picoFromUsd('0.0021'), usdFromPico(cost));
      t.match((await limits(governed.gw)).at(-1), { spent_usd: usdFromPico(picoFromUsd(spent) + cost), reserved_usd: exactly('0') });
      t.equal((await through(governed, form)).status, 403, 'nothing is left');
      t.match(
        governed.lines.find(({ msg, record_id: id }) => id === record['record_id'] && String(msg).includes('would pass its cap')),
        { level: 'warn', reason_code: 'budget_limit_exceeded', limit_usd: exactly(cap), spent_usd: exactly(spent) },
      );
      await remove();
    });
  }
  const counted = new RegExp(`gw_streams_stopped_at_cap_total\\{org_id="default",reason_code="budget_limit_exceeded"\\} ${ENDLESS.length}`);
  t.match((await governed.gw.admin('GET', '/metrics')).text, counted);
});

t.test('every format that providers stream by default shows what it says', async (t) => {
  const catalogue = loadCatalogue();
  const dialects = catalogue.providers.flatMap((provider) => {
    const path = provider.defaultPath?.replace('{model}', 'm');
    return path === undefined ? [] : (catalogue.operation(provider, 'POST', path).dialect ?? []);
  });
  t.ok(dialects.length > 10);
  t.same(
    dialects.filter(({ streaming, deltas }) => streaming && !deltas).map(({ id }) => id),
    [],
  );
});

t.test('on each door', async (t) => {
  const doors: Record<string, (governed: Governed) => Promise<RawResponse>> = {
    'CONNECT, HTTP/1.1': (governed) => through(governed, CHAT),
    'CONNECT, h2': async ({ gw }) => {
      const session = h2Session(await connectThrough(gw.port, `${CHAT.host}:443`, gw.caPem, { alpn: ['h2'] }), CHAT.host);
      t.teardown(() => session.destroy());
      return h2Request(session, request(CHAT, CHAT.path));
    },
    redirect: (governed) => governed.send(request(CHAT, `/proxy/openai${CHAT.path}`)),
    'absolute form': async ({ gw }) => {
      const socket = await connectPlain(gw.port);
      t.teardown(() => socket.destroy());
      return h1Request(socket, CHAT.host, request(CHAT, `https://${CHAT.host}${CHAT.path}`));
    },
  };
  const upstream = endlessUpstream();
  const governed = await capped(t, upstream);
  for (const [name, call] of Object.entries(doors)) {
    await t.test(name, async (t) => {
      const { remove } = await leave(governed, CAP);
      const answer = await call(governed);
      t.match(dataOf(lastWord(CHAT, answer.body).last), {
        error: { code: 'budget_exceeded' },
        record_id: answer.headers['x-gw-record-id'],
      });
      t.match(await governed.recordOf(answer), { stream_outcome: 'aborted', error: { code: 'stream_stopped_at_cap' } });
      t.equal(upstream.ended, 0);
      await remove();
    });
  }
  await t.test('structured API', async (t) => {
    const { cap } = await leave(governed, CAP);
    const key = { idempotency_key: 'once' };
    const answer = await governed.execute(key, { params: CHAT.body });
    const { last } = lastWord(CHAT, Buffer.from(String(answer.body['text'])));
    t.match(last, /^event: error\ndata: /);
    const event = dataOf(last);
    t.match(event, {
      schema: 'gw.action_response.v1',
      decision: 'allow',
      reason: 'budget_exceeded',
      reason_codes: ['stream_stopped_at_cap', 'budget_limit_exceeded'],
      error: { code: 'stream_stopped_at_cap', message: /budget limit of its org/ },
      decision_trace: { attributes: { limit_usd: exactly(cap), cost_usd: /^0\.002/ } },
    });
    t.match(await governed.gw.record(String(event['record_id'])), { record_hash: event['record_hash'], stream_outcome: 'aborted' });
    t.equal((await governed.execute(key, { params: CHAT.body })).status, 403, 'an answer that was not complete is not given again');
  });
});

t.test('each cap that holds a call ends its stream', async (t) => {
  const budget = (effect: string) => bundleOf(`  budgets:\n    - {id: cap, effect: {decision: allow, budget: {${effect}}}}\n`);
  const cases: readonly [string, string, string, RegExp][] = [
    ['of one request', budget('usd_max: "0.0015"'), 'budget_usd_max_exceeded', /the cap of one request, 0\.0015 USD/],
    [
      'of a project and month',
      budget('monthly_usd_max: "0.0015"'),
      'budget_monthly_usd_max_exceeded',
      /the cap of its project for this month, 0\.0015 USD/,
    ],
  ];
  for (const [name, bundle, code, message] of cases) {
    await t.test(name, async (t) => {
      const governed = await capped(t, endlessUpstream(), { bundle });
      const answer = await through(governed, CHAT);
      const { events, last } = lastWord(CHAT, answer.body);
      t.ok(events > 30 && events < 60, `${events}`);
      t.match(dataOf(last), { error: { message }, reason_codes: ['stream_stopped_at_cap', code] });
    });
  }
});

t.test('where nothing is to be ended nothing is', async (t) => {
  const said = Buffer.from(endlessText(CHAT));
  const off = await capped(t, endlessUpstream(), { env: { GW_STREAM_STOP_AT_CAP: 'false' } });
  await off.limit(CAP);
  t.ok((await through(off, CHAT)).body.equals(said), 'the setting is off');
  const on = await capped(t, endlessUpstream());
  await on.limit(CAP, { actions: ['alert'] });
  await on.limit(CAP, { scope: 'project', scope_id: 'another' });
  t.ok((await through(on, CHAT)).body.equals(said), 'no cap holds the call');
});

t.test('a stated maximum that the provider keeps never ends its own stream', async (t) => {
  // The provider counts 30 tokens, the gateway more.
  const tail = 'data: {"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":30}}\n\ndata: [DONE]\n\n';
  const said = endlessText(CHAT, 34) + tail;
  const handler: Parameters<typeof startGoverned>[1] = {
    handler: (_request, response, body) => void body.then(() => response.setHeader('content-type', CHAT.contentType).end(said)),
  };
  const governed = await capped(t, endlessUpstream(), handler);
  const body = { ...CHAT.body, max_tokens: 30, stream_options: { include_usage: true } };
  const catalogue = loadCatalogue();
  const { costPico } = estimate(body, catalogue.dialect(CHAT.dialect), undefined, catalogue.price('openai', 'unlisted-model'));
  await governed.limit(usdFromPico(costPico));
  const answer = await governed.through(`${CHAT.host}:443`, request(CHAT, CHAT.path, body));
  t.equal(answer.body.toString(), said);
  t.match(await governed.recordOf(answer), { stream_outcome: 'complete', metering: { usage_reported: true, tokens_out: 30 } });
});

t.test('what the provider reports counts more than the approximation, and a repeated zero does not', async (t) => {
  for (const [reported, least, most] of [
    [(at: number) => at * 4, 14, 18],
    [() => 0, 50, 75],
  ] as const) {
    const word = (at: number): string =>
      CHAT.word(at).replace('"choices"', `"usage":{"prompt_tokens":4,"completion_tokens":${reported(at)}},"choices"`);
    const handler: Parameters<typeof startGoverned>[1] = {
      handler: (_request, response, body) =>
        void body.then(() => {
          response.setHeader('content-type', CHAT.contentType);
          for (let at = 0; at < 200; at++) response.write(word(at));
          response.end('data: [DONE]\n\n');
        }),
    };
    const governed = await capped(t, endlessUpstream(), handler);
    await governed.limit(CAP);
    const answer = await through(governed, CHAT);
    const events = answer.body.toString().split('"content"').length - 1;
    t.ok(events >= least && events <= most, `${events} events`);
  }
});

t.test('a report as large as a number can be ends the stream, not the gateway', async (t) => {
  const handler: Parameters<typeof startGoverned>[1] = {
    handler: (_request, response, body) =>
      void body.then(() => {
        response.setHeader('content-type', CHAT.contentType);
        response.write(`data: {"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":${Number.MAX_SAFE_INTEGER}}}\n\n`);
        for (let at = 0; at < 3; at++) response.write(CHAT.word(at));
      }),
  };
  const governed = await capped(t, endlessUpstream(), handler);
  await governed.limit(CAP);
  const record = await governed.recordOf(await through(governed, CHAT));
  t.match(record, { error: { code: 'stream_stopped_at_cap' }, metering: { tokens_out: Number.MAX_SAFE_INTEGER } });
});

t.test('what only the gateway asked for stays hidden, also from a stream that is ended', async (t) => {
  const asked = endlessText(CHAT).replaceAll('"choices"', '"usage":null,"choices"');
  const handler: Parameters<typeof startGoverned>[1] = {
    env: { GW_METER_INJECT_USAGE: 'true' },
    handler: (_request, response, body) => void body.then(() => response.setHeader('content-type', CHAT.contentType).end(asked)),
  };
  const governed = await capped(t, endlessUpstream(), handler);
  await governed.limit(CAP);
  const answer = await through(governed, CHAT);
  const { said, last, events } = lastWord(CHAT, answer.body);
  t.ok(events > 40 && events < 80, `${events}`);
  t.match(dataOf(last), { error: { code: 'budget_exceeded' } });
  t.match(await governed.recordOf(answer), { response_bytes: Buffer.byteLength(said), error: { code: 'stream_stopped_at_cap' } });
});

t.test('a stream that was encoded in spite of identity is broken off, recorded and charged', async (t) => {
  const gzip = createGzip({ flush: constants.Z_SYNC_FLUSH });
  const handler: Parameters<typeof startGoverned>[1] = {
    handler: (_request, response, body) =>
      void body.then(async () => {
        response.writeHead(200, { 'content-type': CHAT.contentType, 'content-encoding': 'gzip' });
        gzip.pipe(response);
        for (let at = 0; at < 300 && !response.destroyed; at++) {
          gzip.write(CHAT.word(at));
          await new Promise((resolve) => setImmediate(resolve));
        }
        gzip.end();
      }),
  };
  const governed = await capped(t, endlessUpstream(), handler);
  await governed.limit(CAP);
  await t.rejects(through(governed, CHAT), 'nobody takes it for complete');
  const id = String(governed.lines.find(({ msg }) => String(msg).includes('would pass its cap'))?.['record_id']);
  const record = (await governed.gw.record(id)) as { metering: { cost_usd: string } };
  t.match(record, { stream_outcome: 'aborted', error: { code: 'stream_stopped_at_cap' } });
  t.match(await limits(governed.gw), [{ spent_usd: exactly(record.metering.cost_usd), reserved_usd: exactly('0') }]);
});

t.test('a CRLF that is cut between its two bytes is made whole before the last word', async (t) => {
  const gemini = ENDLESS.find(({ name }) => name === 'Gemini') as EndlessForm;
  const handler: Parameters<typeof startGoverned>[1] = {
    handler: (_request, response, body) =>
      void body.then(async () => {
        response.setHeader('content-type', gemini.contentType);
        for (let at = 0; at < 300 && !response.destroyed; at++) {
          const word = gemini.word(at);
          response.write((at === 0 ? '' : '\n') + word.slice(0, -1));
          await new Promise((resolve) => setImmediate(resolve));
        }
        if (!response.destroyed) response.end();
      }),
  };
  const governed = await capped(t, endlessUpstream(), handler);
  await governed.limit(CAP);
  const { said, last } = lastWord(gemini, (await through(governed, gemini)).body);
  t.match(said, /\r\n\r\n$/);
  t.match(last, /^data: \{"error":/);
});

// Holds: streams-end-at-their-cap
t.test('streams at the same time end together at one cap, and what they cost is what is counted', async (t) => {
  let open = false;
  const waiting: (() => void)[] = [];
  const pause = () => new Promise<void>((resolve) => (open ? setImmediate(resolve) : void waiting.push(resolve)));
  const upstream = endlessUpstream(pause);
  const governed = await capped(t, upstream);
  await governed.limit('0.02');
  const answers = Array.from({ length: 8 }, () => through(governed, CHAT));
  while (waiting.length < 8) await new Promise((resolve) => setImmediate(resolve));
  open = true;
  for (const go of waiting) go();
  const records = await Promise.all((await Promise.all(answers)).map((answer) => governed.recordOf(answer)));
  const sum = records.reduce((total, { metering }) => total + picoFromUsd((metering as { cost_usd: string }).cost_usd), 0n);
  t.match(await limits(governed.gw), [{ spent_usd: usdFromPico(sum), reserved_usd: exactly('0') }], 'to the last digit');
  t.ok(sum > picoFromUsd('0.018'), `the cap is used: ${usdFromPico(sum)}`);
  // Each passes by its last event, of at most three tokens.
  t.ok(sum <= picoFromUsd('0.02') + 8n * 3n * 30_000_000n, `and not passed by more than the last events: ${usdFromPico(sum)}`);
  t.equal(upstream.ended, 0);
});

t.test('a client that leaves a watched stream pays for what it saw', async (t) => {
  let pieces = 0;
  const pause = () => new Promise((resolve) => ++pieces < 40 && setImmediate(resolve));
  const governed = await capped(t, endlessUpstream(pause));
  await governed.limit('1');
  const socket = await connectThrough(governed.gw.port, `${CHAT.host}:443`, governed.gw.caPem);
  const body = JSON.stringify(CHAT.body);
  socket.write(
    `POST ${CHAT.path} HTTP/1.1\r\nHost: ${CHAT.host}\r\nAuthorization: Bearer k\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  let seen = '';
  socket.on('data', (chunk: Buffer) => {
    seen += chunk.toString();
  });
  while (seen.split('"content"').length < 10) await once(socket, 'data');
  socket.destroy();
  const id = /x-gw-record-id: (\S+)/i.exec(seen)?.[1] ?? '';
  let answer = await governed.gw.admin('GET', `/v1/records/${id}`);
  while (answer.status !== 200) answer = await governed.gw.admin('GET', `/v1/records/${id}`);
  const record = answer.body as { metering: { tokens_out: number; cost_usd: string } };
  t.match(record, { stream_outcome: 'aborted', error: { code: 'client_gone' }, metering: { usage_reported: false } });
  t.ok(record.metering.tokens_out >= 9, `${record.metering.tokens_out} tokens`);
  t.match(await limits(governed.gw), [{ spent_usd: exactly(record.metering.cost_usd), reserved_usd: exactly('0') }]);
});
