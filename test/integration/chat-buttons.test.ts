// Approvals decided by buttons in a chat: who may press them, what a press does, and that each message says in the end
// what became of its request.
import t, { type Test } from 'tap';
import { type FakeClock, fakeClock } from '../support/fake-clock.ts';
import { bundleOf, CHAT, type Governed, startGoverned } from '../support/governed.ts';
import type { Inbox, Received } from '../support/inbox.ts';
import { type Manage, type Managed, managedOf } from '../support/managed.ts';
import { connectPlain } from '../support/raw-clients.ts';
import * as chats from '../support/slack.ts';

const HOUR_MS = 3_600_000;
const asking = (approval: string) =>
  bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
  risk:
    - id: large
      when: {field: context.action.params.user, equals: ask}
      effect: {decision: require_approval, reason: ask first, approval: ${approval}}
`);
const ONE = asking('{hold: 0s}');
const ASK = { ...CHAT, user: 'ask' };

type Json = Record<string, unknown>;

interface Scene {
  readonly clock: FakeClock;
  readonly governed: Governed;
  readonly inbox: Inbox;
  readonly managed: Managed;
  readonly manage: Manage;
  readonly url: string;
  channel(kind: keyof typeof chats.CONFIGS): Promise<string>;
  /** Asks for something that is to wait. @returns the approval's id */
  ask(params?: object): Promise<string>;
  key(name: string, more?: object): Promise<{ readonly id: string; readonly key: string }>;
  /** Binds a user of the chat to a key, as the page does. */
  bind(button: Button, key: string, user?: string): Promise<void>;
  click(button: Button, options?: Partial<chats.PressOptions>): Promise<Response>;
  /** The next message to a host, once it is there. */
  next(host: string): Promise<Received>;
}
type Button = chats.SlackSeen['buttons'][number];

async function scene(t: Test, bundle = ONE, options: Parameters<typeof startGoverned>[1] = {}): Promise<Scene> {
  const clock = fakeClock();
  const inbox = chats.chatInbox();
  const others = (_request: unknown, response: { end(text: string): unknown }) =>
    response.end('{"usage":{"prompt_tokens":1,"completion_tokens":1}}');
  const governed = await startGoverned(t, {
    bundle,
    clock,
    hosts: chats.CHAT_HOSTS,
    handler: inbox.handler(chats.CHAT_HOSTS, others),
    ...options,
    env: { GW_SLACK_SIGNING_SECRET: chats.SIGNING_SECRET, GW_PUBLIC_URL: 'https://gateway.example', ...options.env },
  });
  const managed = await managedOf(governed.gw);
  const manage = managed.with((await managed.keyOf('default')).key);
  const taken = new Map<string, number>();
  const next = async (host: string): Promise<Received> => {
    const at = taken.get(host) ?? 0;
    taken.set(host, at + 1);
    await inbox.until(() => inbox.of(host).length > at);
    return inbox.of(host)[at] as Received;
  };
  const made: Scene = {
    clock,
    governed,
    inbox,
    managed,
    manage,
    url: governed.gw.url,
    next,
    channel: async (kind) => {
      const config = chats.CONFIGS[kind];
      const channel = await manage('POST', 'alerts/channels', { name: kind, kind: kind === 'bot' ? 'slack' : kind, config });
      const { channel_id: id } = channel.body as Json;
      await manage('POST', 'alerts/subscriptions', { channel_id: id, event: 'approval' });
      return String(id);
    },
    ask: async (params = ASK) => {
      const asked = await governed.execute({}, { params });
      if (asked.status !== 202) throw new Error(asked.text);
      return String(asked.body['approval_id']);
    },
    key: async (name, more = {}) => {
      const body = { org_id: 'default', name, kind: 'management', scopes: ['approve'], ...more };
      return (await governed.gw.admin('POST', '/v1/admin/mgmt-keys', body)).body as { id: string; key: string };
    },
    bind: async (button, key, user = 'U0OLGA') => {
      await made.click(button, { user });
      const { id, code } = linkIn(await next(chats.HOOKS));
      const bound = await managed.with(key)('POST', `chat-users/${id}/bind`, { code, confirm: true });
      if (bound.status !== 200) throw new Error(JSON.stringify(bound.body));
    },
    click: (button, more = {}) => chats.press(governed.gw.url, button, { at: clock.now(), ...more }),
  };
  return made;
}

/** What the answer to somebody unknown leads to. */
function linkIn({ text }: Received): { readonly id: string; readonly code: string } {
  const [, id = '', code = ''] = /https:\/\/gateway\.example\/chat-users\/([^#"|]+)#([\w-]+)\|/.exec(text) ?? [];
  return { id, code };
}

const pressable = ({ buttons }: chats.SlackSeen, action: string): Button => buttons.find(({ action_id: id }) => id === action) ?? {};
const approve = (seen: chats.SlackSeen): Button => pressable(seen, 'gw_approve');
const deny = (seen: chats.SlackSeen): Button => pressable(seen, 'gw_deny');
const actionsOf = ({ buttons }: chats.SlackSeen) => buttons.map(({ action_id: id, url }) => id ?? url);
const show = async ({ gw }: Governed, id: string) => (await gw.admin('GET', `/v1/admin/approvals/${id}`)).body as Json;
const metrics = async ({ gw }: Governed) => (await gw.admin('GET', '/metrics')).text;

/** Once so many are there: each is written right behind the answer of a receiver. */
async function historyOf(manage: Manage, count: number): Promise<readonly Json[]> {
  for (;;) {
    const { data } = (await manage('GET', 'alerts/history')).body as { data: readonly Json[] };
    if (data.length >= count) return data;
  }
}

t.test('without the secret a message has the link alone, and nothing is taken from Slack', async (t) => {
  const { channel, ask, next, click, manage } = await scene(t, ONE, { env: { GW_SLACK_SIGNING_SECRET: '' } });
  await channel('slack');
  const id = await ask();
  t.same(actionsOf(chats.seenIn(await next(chats.HOOKS))), [`https://gateway.example/approvals/${id}`]);
  const answer = await click({ action_id: 'gw_approve', value: id });
  t.match([answer.status, await answer.text()], [404, /GW_SLACK_SIGNING_SECRET is not set/]);
  t.match((await manage('GET', 'chat-users')).body, { data: [] });
});

t.test('what Slack has not signed, now and so, is refused and counted, and decides nothing', async (t) => {
  const { governed, clock, channel, ask, next, click, inbox, url } = await scene(t);
  await channel('slack');
  const id = await ask();
  const button = approve(chats.seenIn(await next(chats.HOOKS)));
  const refused = async (options: Partial<chats.PressOptions>) => {
    const answer = await click(button, options);
    t.equal(answer.status, 401);
    return answer.text();
  };
  t.match(await refused({ secret: 'another' }), /not signed with GW_SLACK_SIGNING_SECRET/);
  t.match(await refused({ tamper: (body) => body.replace('U0OLGA', 'U0EVIL') }), /not signed/);
  t.match(await refused({ at: clock.now() - 301_000 }), /within 5 minutes/);
  t.match(await refused({ at: clock.now() + 302_000 }), /within 5 minutes/);
  const bare = await fetch(`${url}/v1/chat/slack/interactions`, {
    method: 'POST',
    headers: { 'content-type': 'text/plain' },
    body: 'payload={}',
  });
  t.match([bare.status, await bare.text()], [401, /has no X-Slack-Request-Timestamp/]);
  const long = await click(button, { name: 'x'.repeat(300_000) });
  t.equal(long.status, 413);
  t.match(await metrics(governed), /gw_chat_clicks_total\{platform="slack",outcome="unsigned"\} 5\n/);
  t.match(await show(governed, id), { status: 'pending' });
  t.equal(inbox.of(chats.HOOKS).length, 1, 'nobody was answered');
  const link = await click({ url: 'https://gateway.example/approvals/x' });
  t.equal(link.status, 200, 'Slack tells of links as well');
  t.match(await metrics(governed), /outcome="ignored"\} 1\n/);
});

t.test('whoever is unknown says once who he is; then a press sends the call that waits', async (t) => {
  const { governed, managed, channel, next, click, key, inbox, manage } = await scene(t, asking('{hold: 2m}'));
  await channel('slack');
  const call = governed.execute({}, { params: ASK });
  const seen = chats.seenIn(await next(chats.HOOKS));
  t.match(
    seen.buttons.map(({ confirm }) => confirm?.text.text),
    [/^A yes sends the waiting request now, and after \S+ allows one identical request until \S+\.$/, /refused/, undefined],
  );
  const olga = await key('olga');

  t.match(await (await click(approve(seen))).text(), '', 'it is answered at once');
  const told = await next(chats.HOOKS);
  t.match(told, {
    path: '/actions/T0/1/x',
    body: { response_type: 'ephemeral', replace_original: false, text: /not know yet who you are/ },
  });
  t.match(told.text, /https:\/\/gateway\.example\/approvals\/[0-9a-f-]{36}\|/, 'or he decides on the page');
  const { id, code } = linkIn(told);
  t.equal(id, 'slack:T0ACME:U0OLGA');
  const asOlga = managed.with(olga.key);
  t.match(await asOlga('POST', `chat-users/${id}/bind`, { code }), {
    status: 200,
    body: { bound: false, key_name: 'olga', chat_user: { team_name: 'acme', team_id: 'T0ACME', user_id: 'U0OLGA', name: 'olga' } },
  });
  t.match((await manage('GET', 'chat-users')).body, { data: [] }, 'it was only asked');
  t.equal((await asOlga('POST', `chat-users/${id}/bind`, { code: `${code}x`, confirm: true })).status, 404);
  t.equal((await asOlga('POST', 'chat-users/slack:T0ACME:U0EVIL/bind', { code, confirm: true })).status, 404, 'for nobody else');
  t.equal((await managed.with((await key('reader', { scopes: ['read'] })).key)('POST', `chat-users/${id}/bind`, { code })).status, 403);
  t.match(await asOlga('POST', `chat-users/${id}/bind`, { code, confirm: true }), { status: 200, body: { bound: true } });
  t.equal((await asOlga('POST', `chat-users/${id}/bind`, { code, confirm: true })).status, 404, 'once');

  t.equal((await click(approve(seen))).status, 200);
  t.match(await call, { status: 200 }, 'the call was sent');
  const replaced = await next(chats.HOOKS);
  t.match(replaced.body, { replace_original: true });
  const after = chats.seenIn(replaced);
  t.match(after, { title: /^Approved: ai\.infer to api\.openai\.com$/, text: /was approved by olga \(management key .*\(U0OLGA of acme/ });
  t.match(actionsOf(after), [/^https:\/\/gateway\.example\/approvals\//], 'nothing is left to press');
  const [approval] = ((await governed.gw.admin('GET', '/v1/admin/approvals')).body as { items: Json[] }).items;
  t.match(approval, {
    status: 'approved',
    decided_by: 'olga',
    decided_by_principal: { kind: 'management_key', id: olga.id },
    decided_by_note: 'the Slack user olga (U0OLGA of acme)',
  });
  const trail = (await governed.gw.admin('GET', '/v1/admin/audit?org_id=default')).body as { items: Json[] };
  t.match(trail.items.slice(0, 2), [
    { operation: 'approvals.approve', principal: { id: olga.id, name: 'olga' } },
    { operation: 'chat_users.bind', object: id, principal: { id: olga.id }, changes: [{ entity: 'chat_user' }] },
  ]);
  t.notMatch(JSON.stringify(trail), code);

  // Slack sends it again, or he presses twice.
  t.equal((await click(deny(seen))).status, 200);
  t.match(chats.seenIn(await next(chats.HOOKS)), { title: /^Approved/ }, 'it stays what it is');
  t.match(await metrics(governed), /outcome="decided"\} 1\n/);
  t.equal(inbox.of(chats.HOOKS).length, 4);
});

t.test('a link is good for ten minutes, and a new one takes its place', async (t) => {
  const { managed, clock, channel, ask, next, click, key } = await scene(t);
  await channel('slack');
  await ask();
  const seen = chats.seenIn(await next(chats.HOOKS));
  const asOlga = managed.with((await key('olga')).key);
  const bind = async ({ id, code }: ReturnType<typeof linkIn>) =>
    (await asOlga('POST', `chat-users/${id}/bind`, { code, confirm: true })).status;
  await click(approve(seen));
  const first = linkIn(await next(chats.HOOKS));
  await click(approve(seen));
  const second = linkIn(await next(chats.HOOKS));
  t.equal(await bind(first), 404);
  clock.advance(600_000);
  t.equal(await bind(second), 404);
  await click(approve(seen));
  t.equal(await bind(linkIn(await next(chats.HOOKS))), 200);
});

t.test('an app changes its message with each yes, and one person is not two', async (t) => {
  const { governed, channel, ask, next, click, key, bind, manage } = await scene(t, asking('{required: 2, group: finance}'));
  await channel('bot');
  const id = await ask();
  const posted = await next(chats.API);
  t.match(posted, {
    path: '/api/chat.postMessage',
    body: { channel: '#approvals' },
    headers: { authorization: 'Bearer xoxb-secret-of-bot' },
  });
  const seen = chats.seenIn(posted);
  t.match(approve(seen).confirm?.text.text, /counts as 1 of 2/);
  const groups = ['finance'];
  await bind(approve(seen), (await key('olga', { groups })).key, 'U0OLGA');
  await bind(approve(seen), (await key('igor')).key, 'U0IGOR');
  await bind(approve(seen), (await key('ben', { groups })).key, 'U0BEN');

  await click(approve(seen), { user: 'U0IGOR' });
  t.match((await next(chats.HOOKS)).body, { response_type: 'ephemeral', text: /decided by the group "finance"/ });
  await click(approve(seen), { user: 'U0OLGA' });
  t.match((await next(chats.HOOKS)).body, { replace_original: true });
  const changed = await next(chats.API);
  t.match(changed, { path: '/api/chat.update', body: { channel: 'C0APPROVALS', ts: /^1700000000/ } });
  const half = chats.seenIn(changed);
  t.match(half, { title: /^Approval needed \(1 of 2\)/, text: /approved by olga/ });
  t.same(approve(half).value, approve(seen).value, 'another one can say yes there');
  await click(approve(half), { user: 'U0OLGA' });
  t.match((await next(chats.HOOKS)).body, { response_type: 'ephemeral', text: /has approved this approval already/ });
  t.match(await show(governed, id), { status: 'pending' });
  await click(approve(half), { user: 'U0BEN' });
  const done = chats.seenIn(await next(chats.API));
  t.match(done, { title: /^Approved/, text: /by ben/ });
  t.match(actionsOf(done), [/^https:/]);
  t.match(await show(governed, id), { status: 'approved', decisions: [{ decided_by: 'olga' }, { decided_by: 'ben' }] });
  t.match((await manage('GET', 'chat-users')).body, { data: [{ key_name: 'ben' }, { key_name: 'igor' }, { key_name: 'olga' }] });
});

t.test('a key that is revoked or expired, or another org, decides nothing in the chat either', async (t) => {
  const { governed, managed, clock, channel, ask, next, click, key, bind } = await scene(t);
  await channel('slack');
  const id = await ask();
  const seen = chats.seenIn(await next(chats.HOOKS));
  const olga = await key('olga');
  await bind(approve(seen), olga.key);
  await bind(approve(seen), (await key('ben', { expires_at: new Date(clock.now() + HOUR_MS).toISOString() })).key, 'U0BEN');
  const theirs = managed.with((await managed.keyOf('globex')).key);
  await click(approve(seen), { user: 'U0GLO' });
  const { id: user, code } = linkIn(await next(chats.HOOKS));
  t.equal((await theirs('POST', `chat-users/${user}/bind`, { code, confirm: true })).status, 200);
  t.match((await theirs('GET', 'chat-users')).body, { data: [{ org_id: 'globex', user_id: 'U0GLO' }] }, 'of an org are its own');

  await click(approve(seen), { user: 'U0GLO' });
  t.match((await next(chats.HOOKS)).body, { text: /is of another org/ });
  await governed.gw.admin('DELETE', `/v1/admin/mgmt-keys/${olga.id}`);
  await click(approve(seen));
  t.match((await next(chats.HOOKS)).body, { text: /revoked or expired.*Say who you are/ });
  clock.advance(HOUR_MS);
  await click(approve(seen), { user: 'U0BEN' });
  t.match((await next(chats.HOOKS)).body, { text: /revoked or expired/ });
  t.match(await show(governed, id), { status: 'pending' });

  t.equal((await theirs('DELETE', 'chat-users/slack:T0ACME:U0OLGA')).status, 404, 'not one of another org');
  t.match(await theirs('DELETE', `chat-users/${user}`), { status: 200, body: { status: 'deleted' } });
  t.match((await governed.gw.admin('GET', '/v1/admin/chat-users?org_id=globex')).body, { chat_users: [] });
  t.equal((await governed.gw.admin('DELETE', '/v1/admin/chat-users/slack:T0ACME:U0OLGA')).status, 200);
  await click(approve(seen));
  t.match((await next(chats.HOOKS)).body, { text: /does not know yet who you are/ });
});

t.test('a button that somebody else has made is of no request, and answers go to Slack alone', async (t) => {
  const { governed, channel, ask, next, click, key, bind, inbox } = await scene(t);
  await channel('slack');
  const id = await ask();
  const seen = chats.seenIn(await next(chats.HOOKS));
  await bind(approve(seen), (await key('olga')).key);
  for (const value of [id, `${id}.00000000000000000000000000000000`, '']) {
    await click({ action_id: 'gw_approve', value });
    t.match((await next(chats.HOOKS)).body, { text: /of no request/ }, value);
  }
  t.match(await show(governed, id), { status: 'pending' });
  const before = inbox.received.length;
  for (const responseUrl of [
    `https://${chats.DISCORD}/x`,
    `http://${chats.HOOKS}/x`,
    `https://${chats.HOOKS}:8443/x`,
    `https://u:p@${chats.HOOKS}/x`,
    'x',
  ])
    t.equal((await click({ ...approve(seen), value: '' }, { responseUrl })).status, 200, responseUrl);
  await click(approve(seen));
  t.match(chats.seenIn(await next(chats.HOOKS)), { title: /^Approved/ });
  t.equal(inbox.received.length, before + 1, 'nothing went elsewhere');
});

t.test('Discord changes its message, Google Chat and Teams send one behind it, when it is decided, expires or is withdrawn', async (t) => {
  const { governed, clock, channel, ask, next, manage } = await scene(t, ONE, { env: { GW_APPROVAL_TTL: '1h' } });
  for (const kind of ['discord', 'google_chat', 'teams'] as const) await channel(kind);
  const hosts = [chats.DISCORD, chats.GOOGLE, chats.TEAMS] as const;
  // One after the other: the inbox wakes one who waits.
  const all = async () => {
    const found: Received[] = [];
    for (const host of hosts) found.push(await next(host));
    return found;
  };
  const id = await ask();
  const [discord, google, teams] = await all();
  t.match(discord?.path, /^\/api\/webhooks\/1\/secret-of-discord\?thread_id=7&wait=true$/);
  t.match(google?.path, /messageReplyOption=REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD/);
  t.match(google?.body, { thread: { threadKey: id } });
  t.notMatch(teams?.text, 'messageReplyOption');
  await governed.gw.admin('POST', `/v1/admin/approvals/${id}/deny`, { decided_by: 'olga', reason: 'not *today*' });
  const [edited, behind, after] = await all();
  t.match(edited, {
    method: 'PATCH',
    path: /^\/api\/webhooks\/1\/secret-of-discord\/messages\/7\d\?thread_id=7$/,
    body: { embeds: [{ title: /^Denied/, description: /was denied by olga .*: not \\\*today\\\*/ }] },
  });
  t.match(behind?.body, { thread: { threadKey: id }, cardsV2: [{ card: { header: { title: /^Denied: / } } }] });
  t.match(after?.text, /Denied: .*was denied by olga/);
  const data = await historyOf(manage, 6);
  t.match(
    data.filter(({ title }) => /^Denied/.test(String(title))).map(({ outcome }) => outcome),
    ['delivered', 'delivered', 'delivered'],
  );

  await ask({ ...ASK, seed: 2 });
  await all();
  // What is under way would take all of that time.
  await historyOf(manage, 9);
  clock.advance(HOUR_MS);
  for (const message of await all()) t.match(message.text, /Expired.*has expired at/);
});

t.test('what a caller withdraws is said too', async (t) => {
  const { governed, channel, next } = await scene(t, asking('{hold: 2m}'));
  await channel('bot');
  const socket = await connectPlain(governed.gw.port);
  const json = JSON.stringify(ASK);
  const head = `POST /proxy/openai/v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:${governed.gw.port}\r\nContent-Type: application/json`;
  socket.write(`${head}\r\nContent-Length: ${json.length}\r\n\r\n${json}`);
  t.match(chats.seenIn(await next(chats.API)), { title: /^Approval needed/ });
  for (;;) {
    const { items } = (await governed.gw.admin('GET', '/v1/admin/approvals?status=pending')).body as { items: Json[] };
    if (items[0]?.['held'] !== undefined) break;
  }
  socket.destroy();
  t.match(chats.seenIn(await next(chats.API)), { title: /^Withdrawn/, text: /because its caller left/ });
});

t.test('what was sent before a restart is changed after it', async (t) => {
  const first = await scene(t);
  await first.channel('bot');
  const id = await first.ask();
  const seen = chats.seenIn(await first.next(chats.API));
  await first.bind(approve(seen), (await first.key('olga')).key);
  await historyOf(first.manage, 1);
  await first.governed.gw.gateway.stop();
  const again = await scene(t, ONE, { env: { GW_DATA_DIR: first.governed.gw.dataDir } });
  t.equal((await again.click(approve(seen))).status, 200, 'he is known still');
  const changed = await again.next(chats.API);
  t.match(changed, { path: '/api/chat.update', body: { channel: 'C0APPROVALS' } });
  t.match(chats.seenIn(changed), { title: /^Approved/ });
  t.match(await show(again.governed, id), { status: 'approved' });
});

t.test('what Slack says of an app that may not post is told, and no token is', async (t) => {
  const answers = ['channel_not_found', 'invalid_auth', 'internal_error'];
  const inbox = chats.chatInbox(() => ({ status: 200, text: JSON.stringify({ ok: false, error: answers.shift() }) }));
  const { manage, channel } = await scene(t, ONE, { handler: inbox.handler(chats.CHAT_HOSTS) });
  const id = await channel('bot');
  const tested = async () => (await manage('POST', `alerts/channels/${id}/test`)).body;
  t.match(await tested(), { delivered: false, reason: 'gone', detail: 'chat.postMessage: channel_not_found' });
  t.match(await tested(), { delivered: false, reason: 'auth_error' });
  t.match(await tested(), { delivered: false, detail: /internal_error/ });
  t.match((await manage('GET', `alerts/channels/${id}`)).body, { config: { bot_token: /^•+$/, channel: '#approvals' } });
  const bad = async (config: object) => (await manage('POST', 'alerts/channels', { name: 'x', kind: 'slack', config })).body;
  t.match(await bad({ bot_token: 'xoxb-1' }), { error: { details: [{ path: 'config.channel' }] } });
  t.match(await bad({ bot_token: '••••••••••••', channel: 'C0' }), { error: { details: [{ path: 'config.bot_token', message: /mask/ }] } });
  t.match(await bad({ bot_token: 'x', channel: 'C0', api_url: 'http://slack.com/api' }), {
    error: { details: [{ path: 'config.api_url', message: /https/ }] },
  });
  t.match(await bad({ bot_token: 'x', channel: 'C0', webhook_url: 'https://x' }), { error: { details: [{ path: 'config.webhook_url' }] } });
  t.match(await bad({ channel: 'C0' }), { error: { details: [{ path: 'config.channel', message: /bot_token and channel of an app/ }] } });
});
