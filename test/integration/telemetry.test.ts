// Usage reports of a whole gateway: over TLS to a receiver of our own, and what people are shown of them.
import t from 'tap';
import { loadConfig } from '../../src/base/config/config.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { ADMIN_TOKEN } from '../support/gateway.ts';
import { ALLOW_ALL, CHAT, startGoverned } from '../support/governed.ts';
import { Inbox } from '../support/inbox.ts';
import { gw as runGw } from '../support/run-gw.ts';

const RECEIVER = 'reports.example.com';
const HOUR = 3_600_000;
type Json = Record<string, unknown>;

t.test('a report goes to the receiver over TLS, the receiver slows the next one, and the preview shows what comes', async (t) => {
  const clock = fakeClock();
  const inbox = new Inbox(() => ({
    status: 200,
    text: '{"next_interval_seconds": 7200}',
    headers: { 'content-type': 'application/json' },
  }));
  const governed = await startGoverned(t, {
    clock,
    bundle: ALLOW_ALL,
    hosts: [RECEIVER],
    handler: inbox.handler(
      [RECEIVER],
      (_request, response, body) =>
        void body.then(() =>
          response.setHeader('content-type', 'application/json').end('{"usage":{"prompt_tokens":11,"completion_tokens":7}}'),
        ),
    ),
    env: { GW_TELEMETRY_URL: `https://${RECEIVER}/in?key=secret-of-the-url` },
  });
  await governed.execute({ caller_id: 'bob' }, { params: { ...CHAT, messages: [{ role: 'user', content: 'planted prompt' }] } });
  const preview = async (): Promise<Json> => (await governed.gw.admin('GET', '/v1/admin/telemetry/preview')).body as Json;
  const counted = (shown: Json): boolean => 'openai' in ((shown['report'] as Json)['providers'] as Json);
  // The event comes behind the last byte of the answer.
  let before = await preview();
  while (!counted(before)) before = await preview();
  t.match(before, { sending: true, basis: 'window', last: null, next_at: '2026-11-21T13:00:00.000Z', url: `https://${RECEIVER}:443/in` });
  clock.advance(HOUR);
  await inbox.until(() => inbox.received.length === 1);
  const [message] = inbox.received;
  t.match(message, { path: '/in?key=secret-of-the-url', headers: { 'content-type': 'application/json' } });
  t.same(message?.body, { ...(before['report'] as Json), window_end: '2026-11-21T13:00:00.000Z' }, 'what was shown is what is sent');
  t.match(message?.body, {
    providers: { openai: { requests: 1, tokens_in: 11, tokens_out: 7, connection_types: { direct_api: 1 }, models: { 'gpt-4o-mini': 1 } } },
  });
  t.notMatch(JSON.stringify(message), /planted|bob|127\.0\.0\.1|sk-caller/);
  while ((await preview())['last'] === null);
  t.match(await preview(), { interval_seconds: 7_200, last: { delivered: true, detail: 'HTTP 200' } });
  t.notMatch(JSON.stringify(await preview()), 'secret-of-the-url');
});

// Holds: no-telemetry-unasked
t.test('without a URL, or switched off, nothing listens and nothing waits, and the preview is made of records', async (t) => {
  for (const [env, why] of [
    [{}, 'GW_TELEMETRY_URL is not set'],
    [{ GW_TELEMETRY_URL: `https://${RECEIVER}/`, GW_TELEMETRY_ENABLED: 'false' }, 'GW_TELEMETRY_ENABLED is false'],
  ] as const) {
    const inbox = new Inbox(() => ({ status: 204 }));
    const clock = fakeClock();
    const governed = await startGoverned(t, {
      clock,
      bundle: ALLOW_ALL,
      hosts: [RECEIVER],
      env,
      handler: inbox.handler(
        [RECEIVER],
        (_request, response, body) =>
          void body.then(() =>
            response.setHeader('content-type', 'application/json').end('{"usage":{"prompt_tokens":11,"completion_tokens":7}}'),
          ),
      ),
    });
    await governed.execute();
    const shown = (await governed.gw.admin('GET', '/v1/admin/telemetry/preview')).body;
    t.match(shown, {
      sending: false,
      why,
      url: null,
      next_at: null,
      basis: 'records',
      report: { providers: { openai: { tokens_in: 11 } } },
    });
    clock.advance(3 * HOUR);
    t.equal(inbox.received.length, 0);
  }
});

t.test('gw telemetry preview shows the whole report', async (t) => {
  const { gw } = await startGoverned(t, { bundle: ALLOW_ALL });
  const env = { GW_ADMIN_TOKEN: ADMIN_TOKEN };
  const text = await runGw(['telemetry', 'preview', '--url', gw.url], { env });
  t.match(text, {
    code: 0,
    out: /^Nothing is sent: GW_TELEMETRY_URL is not set\. Of the last hour a report would say:\n\{\n {2}"schema": "gw\.telemetry\.v2"/,
  });
  const json = await runGw(['telemetry', 'preview', '--json', '--url', gw.url], { env });
  t.match(JSON.parse(json.out), { sending: false, report: { schema: 'gw.telemetry.v2' } });
});

t.test('http is for loopback and for hosts of GW_EGRESS_ALLOW', async (t) => {
  const load = (env: Record<string, string>) => loadConfig({ GW_DATA_DIR: '/nowhere', ...env }, false).config.telemetryUrl;
  t.throws(() => load({ GW_TELEMETRY_URL: 'http://reports.example.com/' }), { message: /GW_TELEMETRY_URL must be an https URL/ });
  t.throws(() => load({ GW_TELEMETRY_URL: 'ftp://reports.example.com/' }), { message: /GW_TELEMETRY_URL/ });
  t.match(load({ GW_TELEMETRY_URL: 'http://127.0.0.1:9/' }), { tls: false });
  t.match(load({ GW_TELEMETRY_URL: 'http://reports.example.com/', GW_EGRESS_ALLOW: 'reports.example.com' }), { tls: false });
});
