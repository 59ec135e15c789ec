// Where the link in an approval's alert leads, and how the page behind it is served; what a person does there is
// test/e2e/approval-page.test.ts.
import { createHash } from 'node:crypto';
import t from 'tap';
import { ManagementPlace } from '../../src/app/management-place.ts';
import { loadConfig } from '../../src/base/config/config.ts';
import { UNSEEN } from '../../src/base/lib/shown-text.ts';
import { startTestGateway } from '../support/gateway.ts';
import { bundleOf, CHAT, startGoverned } from '../support/governed.ts';
import { Inbox } from '../support/inbox.ts';
import { managedOf } from '../support/managed.ts';
import { connectPlain, h1Request } from '../support/raw-clients.ts';

const SLACK = 'hooks.slack.com';
const ASKS = bundleOf(`  targets:
    - {id: ask, effect: {decision: require_approval, reason: large jobs are agreed on first}}
`);
/** What a browser says of a click on another site. */
const VISIT = { 'Sec-Fetch-Site': 'cross-site', 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'document' };

type Json = Record<string, unknown>;

function placeOf(env: Readonly<Record<string, string>>): ManagementPlace {
  return new ManagementPlace(loadConfig({ GW_PROXY_AUTH: 'optional', ...env }, false).config);
}

t.test('the link leads to GW_PUBLIC_URL, on a loopback bind to the port of the management API, and else there is none', async (t) => {
  const shown = ({ url, pages }: ManagementPlace) => [url, pages];
  t.same(shown(placeOf({})), ['http://127.0.0.1:7080', 'http://127.0.0.1:7080']);
  t.same(shown(placeOf({ GW_MGMT_PORT: '7090' })), ['http://127.0.0.1:7090', 'http://127.0.0.1:7090']);
  t.same(shown(placeOf({ GW_HOST: '::1' })), ['http://[::1]:7080', 'http://[::1]:7080']);
  t.same(shown(placeOf({ GW_PUBLIC_NAMES: 'gw.example' })), ['http://gw.example:7080', 'http://127.0.0.1:7080']);
  t.same(shown(placeOf({ GW_HOST: '0.0.0.0' })), ['http://localhost:7080', undefined]);
  t.same(shown(placeOf({ GW_HOST: '10.0.0.5', GW_MGMT_PORT: '7090' })), ['http://10.0.0.5:7090', undefined]);
  const everywhere = { GW_HOST: '0.0.0.0', GW_PUBLIC_NAMES: 'gw.example', GW_PUBLIC_URL: 'https://gateway.example' };
  t.same(shown(placeOf(everywhere)), ['https://gateway.example', 'https://gateway.example']);

  const free = placeOf({ GW_PORT: '0' });
  t.equal(free.pages, undefined, 'a port that nobody knows yet');
  free.bound([
    { trafficClass: 'developer', address: '127.0.0.1', port: 4001 },
    { trafficClass: 'ambient', address: '127.0.0.1', port: 4002 },
  ]);
  t.same(shown(free), ['http://127.0.0.1:4001', 'http://127.0.0.1:4001']);
  const apart = placeOf({ GW_PORT: '0', GW_MGMT_PORT: '0' });
  apart.bound([
    { trafficClass: 'developer', address: '127.0.0.1', port: 4001 },
    { address: '127.0.0.1', port: 4003 },
  ]);
  t.equal(apart.pages, 'http://127.0.0.1:4003');
  const handedOver = placeOf({});
  handedOver.bound([{ trafficClass: 'developer', address: '10.0.0.5', port: 443 }]);
  t.equal(handedOver.pages, undefined, 'a socket that was handed over is where it is');
});

t.test('an alert of an approval has the link beside the commands, and no other alert has one', async (t) => {
  const inbox = new Inbox(() => ({ status: 200, text: 'ok' }));
  const usage = '{"usage":{"prompt_tokens":1,"completion_tokens":1}}';
  const governed = await startGoverned(t, {
    bundle: ASKS,
    hosts: [SLACK],
    env: { GW_PUBLIC_URL: 'https://gateway.example' },
    handler: inbox.handler([SLACK], (_request, response) => response.end(usage)),
  });
  const { keyOf, with: withKey } = await managedOf(governed.gw);
  const manage = withKey((await keyOf('default')).key);
  const config = { webhook_url: `https://${SLACK}/services/T0/B0/x` };
  const channel = (await manage('POST', 'alerts/channels', { name: 'ops', kind: 'slack', config })).body as Json;
  await manage('POST', `alerts/channels/${String(channel['channel_id'])}/test`);
  await manage('POST', 'alerts/subscriptions', { channel_id: channel['channel_id'], event: 'approval' });
  const asked = await governed.execute();
  await inbox.until(() => inbox.received.length === 2);
  const [tested, waits] = inbox.received.map(({ text }) => text);
  t.notMatch(tested, '"url"');
  const id = String(asked.body['approval_id']);
  t.match(waits, `"text":"Look at it and decide"},"url":"https://gateway.example/approvals/${id}"`);
  t.match(waits, `gw approvals deny ${id}`);
  t.match(waits, `https://gateway.example/mgmt/v1/approvals/${id}/approve`);
});

t.test('the page holds no data, and nothing runs in it but its own script', async (t) => {
  const { url } = await startTestGateway(t);
  const [one, other] = [await fetch(`${url}/approvals/01a2`), await fetch(`${url}/approvals/%3Cscript%3E`)];
  const text = await one.text();
  t.equal(text, await other.text(), 'it is the same for all');
  t.notMatch(text, /<style|<script>|\son\w+=/, 'nothing that runs stands in it');
  const linked = [...text.matchAll(/(?:href|src)="([^"]+)" integrity="([^"]+)"/g)];
  t.match(
    linked.map(([, path]) => path),
    [/^\/assets\/page-[0-9a-f]{16}\.css$/, /^\/assets\/approval-[0-9a-f]{16}\.js$/],
  );
  const files = new Map<string, string>();
  for (const [, path = '', integrity] of linked) {
    const file = await fetch(`${url}${path}`);
    const source = await file.text();
    files.set(path, source);
    t.equal(`sha256-${createHash('sha256').update(source).digest('base64')}`, integrity);
    t.match(file.headers.get('content-type'), path.endsWith('.js') ? /^text\/javascript/ : /^text\/css/);
    t.equal(file.headers.get('cache-control'), 'public, max-age=31536000, immutable');
    t.equal(file.headers.get('x-content-type-options'), 'nosniff');
  }
  const script = [...files.values()].find((source) => source.includes('const PATTERN'));
  t.ok(script?.includes(`const PATTERN = ${JSON.stringify(UNSEEN)};`), 'it shows what strangers chose by the pattern of all faces');
  t.same([one.status, one.headers.get('content-type')], [200, 'text/html; charset=utf-8']);
  t.equal(
    one.headers.get('content-security-policy'),
    `default-src 'none'; script-src '${linked[1]?.[2]}'; connect-src 'self'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  );
  t.equal(one.headers.get('x-frame-options'), 'DENY');
  t.equal(one.headers.get('referrer-policy'), 'no-referrer');
  t.equal(one.headers.get('cross-origin-opener-policy'), 'same-origin');
  t.equal(one.headers.get('cache-control'), 'no-store');
  t.equal(one.headers.get('x-content-type-options'), 'nosniff');
  t.equal(one.headers.get('set-cookie'), null);
  t.equal((await fetch(`${url}/approvals/01a2`, { method: 'POST' })).status, 405);
  t.equal((await fetch(`${url}/approvals/`)).status, 404);
});

// Holds: approval-page-runs-nothing-foreign
t.test('a link leads from any site to the page and to nothing else, and what its page asks is let through', async (t) => {
  const { gw } = await startGoverned(t, { bundle: ASKS, env: { GW_PUBLIC_URL: 'https://gateway.example' } });
  const { keyOf } = await managedOf(gw);
  const { key } = await keyOf('default');
  const ask = async (path: string, headers: Readonly<Record<string, string>>, host = `127.0.0.1:${gw.port}`, method = 'GET') => {
    const socket = await connectPlain(gw.port);
    const answer = await h1Request(socket, host, {
      method,
      path,
      headers: ['Authorization', `Bearer ${key}`, ...Object.entries(headers).flat()],
    });
    socket.destroy();
    return answer.status;
  };
  t.equal(await ask('/approvals/01a2', VISIT), 200);
  t.equal(await ask('/approvals/01a2', VISIT, 'gateway.example'), 200);
  t.equal(await ask('/approvals/01a2', VISIT, 'evil.example'), 421);
  t.equal(await ask('/approvals/01a2', { ...VISIT, 'Sec-Fetch-Dest': 'iframe' }), 403);
  t.equal(await ask('/', { ...VISIT, Accept: 'text/html' }), 200);
  t.equal(await ask('/assets/page.css', { ...VISIT, 'Sec-Fetch-Dest': 'style' }), 403);
  t.equal(await ask('/mgmt/v1/approvals', VISIT), 403);
  t.equal(await ask('/mgmt/v1/approvals', { 'Sec-Fetch-Site': 'same-origin' }, 'gateway.example'), 200);
  const approve = (origin: string) =>
    ask('/mgmt/v1/approvals/01a2/approve', { Origin: origin, 'Sec-Fetch-Site': 'same-origin' }, 'gateway.example', 'POST');
  t.equal(await approve('https://gateway.example'), 404, 'there is none of this id');
  t.equal(await approve('https://elsewhere.example'), 403);
  t.equal(await approve('null'), 403);
});

t.test('it is where the management API is', async (t) => {
  const { gateway, url, ambientPort } = await startTestGateway(t, { env: { GW_MGMT_PORT: '0' } });
  const status = async (base: string) => (await fetch(`${base}/approvals/01a2`)).status;
  t.equal(await status(`http://127.0.0.1:${gateway.managementPort}`), 200);
  t.equal(await status(url), 404);
  t.equal(await status(`http://127.0.0.1:${ambientPort}`), 404);
});

t.test('the address of a port says to a browser where to go, and to a program what it said before', async (t) => {
  const { gateway, url } = await startTestGateway(t, { env: { GW_MGMT_PORT: '0' } });
  const management = `http://127.0.0.1:${gateway.managementPort}`;
  const visit = (base: string) => fetch(`${base}/?utm_source=chat`, { headers: { Accept: 'text/html,application/xhtml+xml' } });
  for (const [base, what, links] of [
    [url, 'HTTPS_PROXY', ['/healthz', '/readyz', '/v1/openapi.json']],
    [management, '/mgmt/v1', ['console/', '/healthz', '/readyz', '/mgmt/v1/openapi.json']],
  ] as const) {
    const page = await visit(base);
    const text = await page.text();
    t.same(
      [page.status, page.headers.get('content-type'), page.headers.get('cache-control')],
      [200, 'text/html; charset=utf-8', 'no-store'],
    );
    t.match(page.headers.get('content-security-policy'), "default-src 'none'; style-src 'self'; base-uri 'none'");
    t.ok(text.includes(what));
    t.notMatch(text, /<script|\d+\.\d+\.\d+/, 'no script, no version');
    t.same(
      [...text.matchAll(/<a href="([^"]+)"/g)].map(([, link]) => link),
      links,
    );
    const style = /href="(\/assets\/[^"]+)"/.exec(text)?.[1] ?? '';
    for (const link of [...links, style]) t.equal((await fetch(new URL(link, base))).status, 200, `${base}${link}`);
  }
  for (const base of [url, management]) {
    const program = await fetch(`${base}/`, { headers: { Accept: 'application/json' } });
    t.equal(program.status, 404);
    t.match(await program.text(), 'There is nothing at /. Base URLs begin with /proxy/{provider}, such as /proxy/openai/v1.');
  }
});

t.test('one approval is read by its id, and by the keys of its org alone', async (t) => {
  const governed = await startGoverned(t, { bundle: ASKS });
  const { keyOf, with: withKey } = await managedOf(governed.gw);
  const id = String((await governed.execute()).body['approval_id']);
  await governed.execute({}, { params: { ...CHAT, seed: 2 } });
  const mine = withKey((await keyOf('default')).key);
  const read = (query: string, manage = mine) => manage('GET', `approvals?${query}`);
  t.match((await read(`approval_id=${id}`)).body, { data: [{ approval_id: id, status: 'pending' }], has_more: false, next_cursor: null });
  t.match((await read(`approval_id=${id}&status=denied`)).body, { data: [] });
  t.match((await read(`approval_id=${id}&workload_id=another`)).body, { data: [] });
  t.same((await read('approval_id=none')).body, { data: [], has_more: false, next_cursor: null });
  t.match((await read(`approval_id=${id}`, withKey((await keyOf('globex')).key))).body, { data: [] });
  t.equal(((await read('limit=10')).body as { data: unknown[] }).data.length, 2);
  t.equal((await read('approval_id=')).status, 400);
});
