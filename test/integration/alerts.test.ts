// Alerts from nothing: channels of every kind, what they are told of, what arrives at real receivers, and what became
// of it.
import t from 'tap';
import { startTestGateway } from '../support/gateway.ts';
import { ALLOW_ALL, bundleOf, CHAT, type Governed, startGoverned } from '../support/governed.ts';
import { Inbox, type InboxAnswer, type Received } from '../support/inbox.ts';
import { codeIn, type Manage, managedOf } from '../support/managed.ts';
import { gw as runGw } from '../support/run-gw.ts';
import type { HasTeardown } from '../support/temp-dir.ts';
import { startPlainUpstream, type UpstreamHandler } from '../support/tls-upstream.ts';
import { towards } from '../support/upstreams.ts';

const SLACK = 'hooks.slack.com';
const TEAMS = 'prod-01.westeurope.logic.azure.com';
const DISCORD = 'discord.com';
const GOOGLE = 'chat.googleapis.com';
const CHATS = [SLACK, TEAMS, DISCORD, GOOGLE] as const;
const URLS = {
  slack: `https://${SLACK}/services/T0/B0/secret-of-slack`,
  teams: `https://${TEAMS}/workflows/x/triggers/manual/paths/invoke?sig=secret-of-teams`,
  discord: `https://${DISCORD}/api/webhooks/1/secret-of-discord`,
  google_chat: `https://${GOOGLE}/v1/spaces/S/messages?key=k&token=secret-of-google`,
} as const;
const MASK = '••••••••••••';
/** As each product answers what it takes. */
const TAKEN: Readonly<Record<string, InboxAnswer>> = {
  [SLACK]: { status: 200, text: 'ok' },
  [TEAMS]: { status: 202 },
  [DISCORD]: { status: 200, text: '{"id":"1"}', headers: { 'content-type': 'application/json' } },
  [GOOGLE]: { status: 200, text: '{"name":"spaces/S/messages/M"}', headers: { 'content-type': 'application/json' } },
};

type Json = Record<string, unknown>;

/** 15 USD per million tokens out: a thousand cost 0.015. */
const charge: UpstreamHandler = (_request, response, whole) =>
  void whole.then((body) => {
    const { max_tokens: out = 0 } = JSON.parse(body.toString()) as { max_tokens?: number };
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ usage: { prompt_tokens: 0, completion_tokens: out } }));
  });

interface Scene {
  readonly governed: Governed;
  readonly inbox: Inbox;
  readonly manage: Manage;
  readonly other: Manage;
  spend(tokens: number): Promise<number>;
  channel(kind: keyof typeof URLS, more?: object): Promise<string>;
}

async function scene(
  t: HasTeardown,
  bundle = ALLOW_ALL,
  answer: (message: Received) => InboxAnswer | undefined = ({ host }) => TAKEN[host],
): Promise<Scene> {
  const inbox = new Inbox(answer);
  const governed = await startGoverned(t, { bundle, hosts: CHATS, handler: inbox.handler(CHATS, charge) });
  const { keyOf, with: withKey } = await managedOf(governed.gw);
  const manage = withKey((await keyOf('default')).key);
  return {
    governed,
    inbox,
    manage,
    other: withKey((await keyOf('globex')).key),
    spend: async (tokens) =>
      (await governed.execute({}, { params: { model: 'gpt-4o-2024-05-13', messages: [], max_tokens: tokens } })).status,
    channel: async (kind, more = {}) => {
      const made = await manage('POST', 'alerts/channels', { name: `to ${kind}`, kind, config: { webhook_url: URLS[kind] }, ...more });
      if (made.status !== 201) throw new Error(JSON.stringify(made.body));
      return String((made.body as Json)['channel_id']);
    },
  };
}

async function limit(governed: Governed, body: object): Promise<string> {
  const made = await governed.gw.admin('POST', '/v1/admin/budgets/limits', { org_id: 'default', scope: 'org', ...body });
  return String((made.body as Json)['limit_id']);
}

async function history(manage: Manage, query = ''): Promise<readonly Json[]> {
  return ((await manage('GET', `alerts/history${query}`)).body as { data: readonly Json[] }).data;
}

/** Until so many entries are there: each is written right behind the answer of a receiver. */
async function historyOf(manage: Manage, count: number, query = ''): Promise<readonly Json[]> {
  for (;;) {
    const found = await history(manage, query);
    if (found.length >= count) return found;
  }
}

t.test('each chat gets an alert in its own form, and a test tells what came back', async (t) => {
  const { inbox, manage, channel } = await scene(t);
  for (const kind of ['slack', 'teams', 'discord', 'google_chat'] as const) {
    const id = await channel(kind);
    const tested = await manage('POST', `alerts/channels/${id}/test`);
    t.match(tested, { status: 200, body: { channel_id: id, test: true, delivered: true, detail: /^HTTP 20\d$/ } }, kind);
  }
  t.match(inbox.of(SLACK)[0], { path: '/services/T0/B0/secret-of-slack', body: { text: 'Test alert', attachments: [{ color: /^#/ }] } });
  t.match(inbox.of(TEAMS)[0]?.body, {
    type: 'message',
    attachments: [{ contentType: 'application/vnd.microsoft.card.adaptive', content: { type: 'AdaptiveCard', version: '1.2' } }],
  });
  t.match(inbox.of(DISCORD)[0], { path: /\?wait=true$/, body: { allowed_mentions: { parse: [] }, embeds: [{ title: 'Test alert' }] } });
  t.match(inbox.of(GOOGLE)[0]?.body, { cardsV2: [{ card: { header: { title: 'Test alert' } } }] });
  t.match(inbox.of(GOOGLE)[0]?.headers['content-type'], 'application/json; charset=UTF-8');
  const told = await history(manage);
  t.equal(told.length, 4);
  t.match(told[0], { event: 'test', test: true, outcome: 'delivered', channel_kind: 'google_chat', attempts: 1 });
});

t.test('what a receiver refuses is told in its own words, and nothing of the address is', async (t) => {
  const answers: InboxAnswer[] = [
    { status: 404, text: 'no_service for /services/T0/B0/secret-of-slack' },
    { status: 403, text: 'action_prohibited' },
    { status: 200, text: 'invalid_payload' },
    { status: 302, headers: { location: 'https://elsewhere.example/' } },
  ];
  const { manage, channel } = await scene(t, ALLOW_ALL, () => answers.shift());
  const id = await channel('slack');
  const test = async () => (await manage('POST', `alerts/channels/${id}/test`)).body;
  t.match(await test(), { delivered: false, reason: 'gone', detail: 'HTTP 404: no_service for …' });
  t.match(await test(), { delivered: false, reason: 'auth_error', detail: 'HTTP 403: action_prohibited' });
  t.match(await test(), { delivered: false, reason: 'server_error', detail: 'HTTP 200: invalid_payload' });
  t.match(await test(), { delivered: false, reason: 'client_error', detail: 'HTTP 302' });
  t.notMatch(JSON.stringify(await history(manage)), 'secret-of-slack');
});

// Holds: destinations-secrets-stay-in
t.test('a webhook URL is shown this once, never again, and its mask is never taken back', async (t) => {
  const { governed, manage, inbox } = await scene(t);
  const made = await manage('POST', 'alerts/channels', { name: 'ops', kind: 'chat_1', config: { webhook_url: URLS.slack } });
  t.match(made, { status: 201, body: { kind: 'slack', enabled: true, config: { webhook_url: URLS.slack }, org_id: 'default' } });
  const path = `alerts/channels/${String((made.body as Json)['channel_id'])}`;
  const read = await manage('GET', path);
  t.match(read.body, { config: { webhook_url: MASK } });
  t.match((await manage('GET', 'alerts/channels')).body, { data: [{ config: { webhook_url: MASK } }], has_more: false });
  const back = await manage('PUT', path, read.body);
  t.equal(back.status, 400, 'what is read cannot be written back whole');
  t.match(await manage('PUT', path, { config: { webhook_url: MASK } }), {
    status: 400,
    body: { error: { details: [{ path: 'config.webhook_url', message: /mask/ }] } },
  });
  t.match(await manage('PUT', path, { name: 'on call', enabled: true }), {
    status: 200,
    body: { name: 'on call', config: { webhook_url: MASK } },
  });
  t.match((await manage('POST', `${path}/test`)).body, { delivered: true }, 'the URL is as it was');
  t.equal(inbox.received[0]?.path, '/services/T0/B0/secret-of-slack');
  const trail = await governed.gw.admin('GET', '/v1/admin/audit?org_id=default');
  t.match(trail.text, 'mgmt.alerts.channels.update');
  t.notMatch(trail.text, 'secret-of-slack');
});

t.test('bad channels are refused with the member that is wrong; addresses inside are not reached', async (t) => {
  const { manage } = await scene(t);
  const make = (kind: string, config: unknown) => manage('POST', 'alerts/channels', { name: 'x', kind, config });
  const bad: readonly (readonly [string, unknown, string])[] = [
    ['slack', { webhook_url: 'http://hooks.slack.com/x' }, 'config.webhook_url'],
    ['slack', { webhook_url: 'https://user:pass@hooks.slack.com/x' }, 'config.webhook_url'],
    ['slack', { webhook_url: 'file:///etc/passwd' }, 'config.webhook_url'],
    ['slack', { to_addresses: ['a@b.example'] }, 'config.to_addresses'],
    ['slack', undefined, 'config'],
    ['email', { to_addresses: [] }, 'config.to_addresses'],
    ['email', { to_addresses: ['a@b.example\r\nBcc: c@d.example'] }, 'config.to_addresses[0]'],
    ['pager', {}, 'kind'],
  ];
  for (const [kind, config, path] of bad) {
    t.match(await make(kind, config), { status: 400, body: { error: { details: [{ path }] } } }, `${kind} ${JSON.stringify(config)}`);
  }
  const inside = (await make('slack', { webhook_url: 'https://127.0.0.1:9/hook' })).body as Json;
  t.match((await manage('POST', `alerts/channels/${String(inside['channel_id'])}/test`)).body, {
    delivered: false,
    reason: 'egress_denied',
  });
  const mail = (await make('email', { to_addresses: ['ops@example.com'] })).body as Json;
  t.match(mail, { config: { to_addresses: ['ops@example.com'] } });
  t.match((await manage('POST', `alerts/channels/${String(mail['channel_id'])}/test`)).body, {
    delivered: false,
    reason: 'not_configured',
    detail: /GW_SMTP_URL/,
  });
});

t.test('a budget alerts each subscription once for each level, and the history says so', async (t) => {
  const { governed, inbox, manage, spend, channel } = await scene(t);
  const id = await limit(governed, { limit_usd: '0.1', warning_threshold_pct: 30, critical_threshold_pct: 60 });
  const [slack, teams] = [await channel('slack'), await channel('teams')];
  const made = await manage('POST', 'alerts/subscriptions', { limit_id: id, channel_id: slack });
  t.match(made, {
    status: 201,
    body: { limit_id: id, channel_id: slack, channel_name: 'to slack', channel_kind: 'slack', last_alerted_at: null },
  });
  await manage('POST', 'alerts/subscriptions', { limit_id: id, channel_id: teams });
  for (let at = 0; at < 8; at += 1) t.equal(await spend(1_000), 200);
  await inbox.until(() => inbox.of(SLACK).length === 3 && inbox.of(TEAMS).length === 3);
  t.same(
    inbox.of(SLACK).map(({ body }) => body['text']),
    ['Budget warning: org default at 30.0 %', 'Budget critical: org default at 60.0 %', 'Budget exceeded: org default at 105.0 %'],
  );
  const told = await historyOf(manage, 3, `?limit_id=${id}&channel_id=${slack}`);
  t.match(told, [{ level: 'exceeded', outcome: 'delivered' }, { level: 'critical' }, { level: 'warning', event: 'budget_alert' }]);
  t.equal((await history(manage, '?level=warning')).length, 2);
  const subscription = String((made.body as Json)['subscription_id']);
  t.match(await manage('GET', `alerts/subscriptions/${subscription}`), {
    status: 200,
    body: { last_alerted_level: 'exceeded', last_alerted_at: /^20\d\d-/ },
  });
  t.equal((await history(manage, `?subscription_id=${subscription}`)).length, 3);
});

t.test('a disabled subscription and a disabled channel are told nothing', async (t) => {
  const { governed, inbox, manage, spend, channel } = await scene(t);
  const id = await limit(governed, { limit_usd: '0.1', warning_threshold_pct: 10 });
  const [slack, teams, discord] = [await channel('slack'), await channel('teams', { enabled: false }), await channel('discord')];
  const made = (await manage('POST', 'alerts/subscriptions', { limit_id: id, channel_id: slack })).body as Json;
  t.match(await manage('PUT', `alerts/subscriptions/${String(made['subscription_id'])}`, { enabled: false }), { body: { enabled: false } });
  await manage('POST', 'alerts/subscriptions', { limit_id: id, channel_id: teams });
  await manage('POST', 'alerts/subscriptions', { limit_id: id, channel_id: discord });
  await spend(1_000);
  await inbox.until(() => inbox.of(DISCORD).length === 1);
  t.equal(inbox.received.length, 1);
});

t.test('an approval that waits, a quarantine and a risk alert can be subscribed to', async (t) => {
  const rules = `  targets:
    - {id: all, effect: {decision: allow}}
  risk:
    - {id: large, when: {field: context.action.params.user, equals: ask}, effect: {decision: require_approval, reason: "large <!channel> jobs"}}
    - {id: bad, when: {field: context.action.params.user, equals: bad}, effect: {decision: quarantine, reason: it is bad}}
`;
  const { governed, inbox, manage, channel } = await scene(t, bundleOf(rules));
  const slack = await channel('slack');
  for (const event of ['approval', 'quarantine', 'risk_alert']) {
    t.match(await manage('POST', 'alerts/subscriptions', { channel_id: slack, event }), { status: 201, body: { event } });
  }
  t.equal((await governed.execute({ caller_id: 'bob' }, { params: { ...CHAT, user: 'ask' } })).status, 202);
  await inbox.until(() => inbox.received.length === 1);
  const waiting = ((await governed.gw.admin('GET', '/v1/admin/approvals')).body as { items: readonly Json[] }).items[0];
  const text = JSON.stringify(inbox.received[0]?.body);
  for (const part of [
    'ai.infer',
    'api.openai.com',
    'gpt-4o-mini',
    'bob',
    String(waiting?.['approval_id']),
    String(waiting?.['expires_at']),
    'risk/large',
  ])
    t.match(text, part);
  t.match(text, `gw approvals approve ${String(waiting?.['approval_id'])}`);
  t.match(text, 'large &lt;!channel&gt; jobs');
  await governed.gw.admin('POST', `/v1/admin/approvals/${String(waiting?.['approval_id'])}/approve`);
  await governed.execute({ caller_id: 'eve' }, { params: { ...CHAT, user: 'bad' } });
  await inbox.until(() => inbox.received.length === 2);
  t.match(inbox.received[1]?.body['text'], 'Quarantine: eve of default');
  t.same(
    (await historyOf(manage, 2)).map(({ event }) => event),
    ['quarantine', 'approval'],
    'a decision is no alert',
  );
});

t.test('unusual behaviour is told, also to a host inside that the operator allows', async (t) => {
  const inbox = new Inbox(() => ({ status: 200, text: 'ok' }));
  const inside = await startPlainUpstream(inbox.handler([]));
  t.teardown(() => inside.close());
  const env = { GW_RISK_ALERT_THRESHOLD: '0', GW_EGRESS_ALLOW: '127.0.0.1' };
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, env, handler: charge });
  const { keyOf, with: withKey } = await managedOf(governed.gw);
  const manage = withKey((await keyOf('default')).key);
  const config = { webhook_url: `http://127.0.0.1:${inside.port}/hook` };
  const made = (await manage('POST', 'alerts/channels', { name: 'inside', kind: 'slack', config })).body as Json;
  await manage('POST', 'alerts/subscriptions', { channel_id: made['channel_id'], event: 'risk_alert' });
  await governed.execute({ caller_id: 'mallory' });
  await inbox.until(() => inbox.received.length === 1);
  t.match(inbox.received[0]?.body['text'], /^Unusual behaviour: mallory, risk score /);
  t.match(await historyOf(manage, 1), [{ event: 'risk_alert', outcome: 'delivered' }]);
});

t.test('a channel takes its subscriptions along, so does a limit, and nothing is subscribed to twice', async (t) => {
  const { governed, manage, channel } = await scene(t);
  const id = await limit(governed, { limit_usd: '1' });
  const slack = await channel('slack');
  const subscribe = (body: object) => manage('POST', 'alerts/subscriptions', { channel_id: slack, ...body });
  t.equal((await subscribe({ limit_id: id })).status, 201);
  t.match(await subscribe({ limit_id: id }), { status: 409, body: { error: { code: 'conflict' } } });
  t.match(await subscribe({ limit_id: 'nothing' }), { status: 400, body: { error: { details: [{ path: 'limit_id' }] } } });
  t.match(await subscribe({}), { status: 400 });
  t.match(await subscribe({ limit_id: id, event: 'approval' }), { status: 400 });
  t.equal((await subscribe({ event: 'approval' })).status, 201);
  const list = async (query = '') => ((await manage('GET', `alerts/subscriptions${query}`)).body as { data: readonly Json[] }).data;
  t.equal((await list(`?limit_id=${id}`)).length, 1);
  t.equal((await list(`?channel_id=${slack}`)).length, 2);
  await governed.gw.admin('DELETE', `/v1/admin/budgets/limits/${id}`);
  while ((await list()).length > 1);
  t.match(await list(), [{ event: 'approval' }]);
  t.match(await manage('DELETE', `alerts/channels/${slack}`), { status: 200, body: { channel_id: slack, status: 'deleted' } });
  t.same(await list(), []);
  t.equal(codeIn(await manage('DELETE', `alerts/channels/${slack}`)), 'not_found');
});

t.test('of two people who change a channel the second is told; another org sees nothing of it', async (t) => {
  const { manage, other, channel } = await scene(t);
  const path = `alerts/channels/${await channel('slack')}`;
  const etag = (await manage('GET', path)).headers.get('etag') ?? '';
  t.equal((await manage('PUT', path, { name: 'first' }, { 'if-match': etag })).status, 200);
  t.equal(codeIn(await manage('PUT', path, { name: 'second' }, { 'if-match': etag })), 'precondition_failed');
  t.match((await manage('GET', path)).body, { name: 'first' });
  for (const [method, body] of [['GET'], ['PUT', { name: 'mine' }], ['DELETE']] as const)
    t.equal((await other(method, path, body)).status, 404);
  t.equal((await other('POST', `${path}/test`)).status, 404);
  t.match((await other('GET', 'alerts/channels')).body, { data: [] });
  t.match(await other('POST', 'alerts/subscriptions', { channel_id: path.split('/')[2], event: 'approval' }), { status: 400 });
});

t.test('what channels and destinations are reached by has the new key after `gw secrets rotate`', async (t) => {
  const { governed, inbox, manage, channel } = await scene(t);
  const id = await channel('slack');
  const siem = { name: 'siem', kind: 'webhook', config: { url: `https://${TEAMS}/in`, token: 'token-of-siem' } };
  const destination = String(((await manage('POST', 'export/destinations', siem)).body as Json)['id']);
  await governed.gw.gateway.stop();
  const env = { GW_DATA_DIR: governed.gw.dataDir };
  t.match(await runGw(['secrets', 'rotate'], { env }), { code: 0, out: '2 secret(s) have a new key.\n' });
  const again = await startTestGateway(t, { env: { ...towards(t, governed.upstream, CHATS), ...env } });
  const next = await managedOf(again);
  const asked = next.with((await next.keyOf('default')).key);
  t.match((await asked('POST', `alerts/channels/${id}/test`)).body, { delivered: true });
  t.match((await asked('POST', `export/destinations/${destination}/test`)).body, { delivered: true });
  t.match(inbox.of(TEAMS).at(-1)?.headers['authorization'], 'Bearer token-of-siem');
});

t.test('a draft, which raises no alerts, is not subscribed to', async (t) => {
  const one = await scene(t);
  const channelId = await one.channel('slack');
  const subscribe = (limitId: string) => one.manage('POST', 'alerts/subscriptions', { channel_id: channelId, limit_id: limitId });
  for (const actions of [[]]) {
    const refused = await subscribe(await limit(one.governed, { limit_usd: '1', actions }));
    const details = [{ path: 'limit_id', message: /raises no alerts/ }];
    t.match(refused, { status: 400, body: { error: { code: 'invalid_request', details } } }, `actions ${actions.join()}`);
  }
  for (const actions of [undefined, ['alert'], ['cap'], ['cap', 'alert']]) {
    const made = await subscribe(await limit(one.governed, { limit_usd: '1', ...(actions && { actions }) }));
    t.equal(made.status, 201);
    const { subscription_id: id } = made.body as Json;
    t.equal((await one.manage('PUT', `alerts/subscriptions/${String(id)}`, { enabled: false })).status, 200);
    t.equal((await one.manage('PUT', `alerts/subscriptions/${String(id)}`, { enabled: true })).status, 200);
  }
  t.equal((await subscribe('nobody')).status, 400);
});

t.test('receivers that take the form of Slack and answer in their own words are delivered to', async (t) => {
  const words = ['{"success":true}', 'ok', '', '{"success":false,"error":"no channel"}'];
  const one = await scene(t, ALLOW_ALL, () => ({ status: 200, text: words.shift() ?? '' }));
  const channelId = await one.channel('slack');
  for (let at = 0; at < 3; at++) t.match(await one.manage('POST', `alerts/channels/${channelId}/test`), { status: 200 });
  const tests = await history(one.manage);
  t.same(
    tests.map((entry) => entry['outcome']),
    ['delivered', 'delivered', 'delivered'],
  );
});
