// Events to systems: what is exported where, how it is signed, what a kill or a dead receiver costs, and who is shown
// what.
import { createHmac } from 'node:crypto';
import t from 'tap';
import { fakeClock } from '../support/fake-clock.ts';
import { bundleOf, CHAT, type Governed, startGoverned } from '../support/governed.ts';
import { Inbox, type InboxAnswer, type Received } from '../support/inbox.ts';
import { codeIn, type Manage, managedOf } from '../support/managed.ts';
import type { HasTeardown } from '../support/temp-dir.ts';

const SIEM = 'siem.example.com';
const OTHER = 'other.example.com';
const HOSTS = [SIEM, OTHER] as const;
const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
const MASK = '••••••••••••';
const RULES = `  targets:
    - {id: all, effect: {decision: allow}}
  risk:
    - {id: large, when: {field: context.action.params.user, equals: ask}, effect: {decision: require_approval, reason: ask first}}
    - {id: bad, when: {field: context.action.params.user, equals: bad}, effect: {decision: quarantine, reason: it is bad}}
`;

type Json = Record<string, unknown>;

interface Scene {
  readonly governed: Governed;
  readonly inbox: Inbox;
  readonly manage: Manage;
  readonly other: Manage;
  /** Of the events that came to a host. */
  events(host?: string): readonly Json[];
  destination(body?: object): Promise<string>;
}

async function scene(
  t: HasTeardown,
  {
    answer = () => ({ status: 204 }),
    ...options
  }: { answer?: (message: Received) => InboxAnswer | undefined } & Parameters<typeof startGoverned>[1] = {},
): Promise<Scene> {
  const inbox = new Inbox(answer);
  const governed = await startGoverned(t, {
    bundle: bundleOf(RULES),
    hosts: HOSTS,
    handler: inbox.handler(HOSTS, answerUsage),
    ...options,
  });
  const { keyOf, with: withKey } = await managedOf(governed.gw);
  const manage = withKey((await keyOf('default')).key);
  return {
    governed,
    inbox,
    manage,
    other: withKey((await keyOf('globex')).key),
    events: (host = SIEM) => inbox.of(host).map(({ body }) => body),
    destination: async (body = {}) => {
      const made = await manage('POST', 'export/destinations', {
        name: 'siem',
        kind: 'webhook',
        config: { url: `https://${SIEM}/events`, token: 'token-of-siem', secret: SECRET },
        ...body,
      });
      if (made.status !== 201) throw new Error(JSON.stringify(made.body));
      return String((made.body as Json)['id']);
    },
  };
}

const answerUsage = (
  _request: unknown,
  response: { setHeader(name: string, value: string): { end(text: string): unknown } },
  body: Promise<Buffer>,
): void =>
  void body.then(() => response.setHeader('content-type', 'application/json').end('{"usage":{"prompt_tokens":11,"completion_tokens":7}}'));

t.test('a webhook gets every kind of event in its envelope, with token and signature, each with its own id', async (t) => {
  const { governed, inbox, manage, events, destination } = await scene(t);
  const id = await destination();
  await manage('PUT', `export/destinations/${id}`, { name: 'the siem' });
  const call = (user: string) => governed.execute({ caller_id: 'bob' }, { params: { ...CHAT, user } });
  const allowed = await call('fine');
  await call('ask');
  await call('bad');
  const types = () => events().map(({ event_type: type }) => type);
  await inbox.until(
    () =>
      ['audit', 'approval', 'quarantine'].every((type) => types().includes(type)) &&
      types().filter((type) => type === 'execution').length === 3,
  );
  const execution = events().find(({ event_type: type }) => type === 'execution');
  t.same(Object.keys(execution ?? {}), ['event_type', 'event_time', 'org_id', 'workload_id', 'payload']);
  t.same(execution?.['payload'], await governed.gw.record(String(allowed.body['record_id'])), 'the payload is the whole record');
  t.match(
    events().find(({ event_type: type }) => type === 'approval'),
    { org_id: 'default', payload: { decision: 'pending', approval_id: String, decided_by: null } },
  );
  t.match(
    events().find(({ event_type: type }) => type === 'quarantine'),
    { payload: { quarantine_id: String, workload_id: 'default', reason: 'it is bad' } },
  );
  t.match(
    events().find(({ event_type: type }) => type === 'audit'),
    { payload: { operation: 'mgmt.exports.update', object: id } },
  );
  t.notMatch(JSON.stringify(events()), 'token-of-siem');
  const ids = new Set(inbox.received.map(({ headers }) => headers['webhook-id']));
  t.equal(ids.size, inbox.received.length);
  for (const { headers, text } of inbox.received) {
    const { 'webhook-id': message, 'webhook-timestamp': at, 'webhook-signature': signature, authorization } = headers;
    const expected = createHmac('sha256', Buffer.alloc(32, 7))
      .update(`${String(message)}.${String(at)}.${text}`)
      .digest('base64');
    t.match([signature, authorization], [`v1,${expected}`, 'Bearer token-of-siem']);
  }
});

/** Many collectors take their secret so. */
const IN_PATH = `https://${SIEM}/services/T0/secret-in-the-path?k=secret-in-the-query`;

// Holds: destinations-secrets-stay-in
t.test('secrets are shown once and never taken back as bullets; PUT changes what is given', async (t) => {
  const { governed, inbox, manage, destination } = await scene(t);
  const made = await manage('POST', 'export/destinations', {
    name: 'x',
    kind: 'webhook',
    config: { url: IN_PATH, token: 'tok', secret: SECRET },
  });
  t.match(made, { status: 201, body: { config: { url: IN_PATH, token: 'tok', secret: SECRET }, enabled: true } });
  const path = `export/destinations/${String((made.body as Json)['id'])}`;
  const list = (await manage('GET', 'export/destinations')).body as { data: readonly Json[] };
  t.match(list.data, [{ config: { url: `https://${SIEM}/${MASK}`, token: MASK, secret: MASK } }]);
  t.match(await manage('PUT', path, { config: { url: `https://${SIEM}/${MASK}` } }), {
    status: 400,
    body: { error: { details: [{ path: 'config.url', message: /mask/ }] } },
  });
  t.match((await manage('PUT', path, { name: 'x' })).body, { config: { url: `https://${SIEM}/${MASK}` } });
  t.match(await manage('PUT', path, { config: { url: `https://${SIEM}/`, token: MASK } }), {
    status: 400,
    body: { error: { details: [{ path: 'config.token', message: /mask/ }] } },
  });
  t.match(await manage('PUT', path, { name: 'renamed', event_types: ['audit'] }), {
    status: 200,
    body: { name: 'renamed', event_types: ['audit'], config: { token: MASK } },
  });
  t.match((await manage('POST', `${path}/test`)).body, { delivered: true, detail: 'HTTP 204' });
  await inbox.until(() => inbox.received.some(({ body }) => body['event_type'] === 'test'));
  t.match(inbox.received.find(({ body }) => body['event_type'] === 'test')?.headers['authorization'], 'Bearer tok');
  for (const place of ['export/destinations', 'audit'])
    t.notMatch(JSON.stringify((await manage('GET', place)).body), 'secret-in-the', place);
  t.notMatch((await governed.gw.admin('GET', '/v1/admin/audit')).text, 'secret-in-the');
  const bad = (kind: string, config: unknown) => manage('POST', 'export/destinations', { name: 'x', kind, config });
  for (const [kind, config, at] of [
    ['webhook', { url: 'http://siem.example.com/' }, 'config.url'],
    ['webhook', { url: `https://${SIEM}/`, secret: 'short' }, 'config.secret'],
    ['webhook', { url: `https://${SIEM}/`, more: 1 }, 'config.more'],
    ['syslog', { address: 'siem.example.com:514' }, 'config.address'],
    ['syslog', { address: 'udp://siem.example.com:514', format: 'leef' }, 'config.format'],
  ] as const) {
    t.match(await bad(kind, config), { status: 400, body: { error: { details: [{ path: at }] } } }, at);
  }
  const inside = await destination({ config: { url: 'https://169.254.169.254/latest' } });
  t.match((await manage('POST', `export/destinations/${inside}/test`)).body, { delivered: false, reason: 'egress_denied' });
  t.notMatch((await governed.gw.admin('GET', '/v1/admin/audit')).text, SECRET);
});

t.test('an org sees and gets its own alone', async (t) => {
  const { governed, inbox, manage, other, events, destination } = await scene(t);
  const id = await destination();
  const theirs = await other('POST', 'export/destinations', { name: 'y', kind: 'webhook', config: { url: `https://${OTHER}/` } });
  t.equal(theirs.status, 201);
  t.equal(codeIn(await other('PUT', `export/destinations/${id}`, { name: 'z' })), 'not_found');
  t.equal(codeIn(await other('DELETE', `export/destinations/${id}`)), 'not_found');
  t.equal(codeIn(await other('POST', `export/destinations/${id}/test`)), 'not_found');
  await governed.execute();
  await governed.execute({ org_id: 'globex' });
  await inbox.until(() => events().some(({ event_type: type }) => type === 'execution') && events(OTHER).length > 0);
  t.same([...new Set(events(OTHER).map(({ org_id: org }) => org))], ['globex']);
  t.same([...new Set(events().map(({ org_id: org }) => org))], ['default']);
  t.match(await manage('DELETE', `export/destinations/${id}`), { status: 200, body: { id, status: 'deleted' } });
  t.match((await manage('GET', 'export/destinations')).body, { data: [] });
});

t.test('a node sends to its own destinations where it has some, and else to those of the org', async (t) => {
  const { governed, inbox, manage, events, destination } = await scene(t, { env: { GW_NODE_ID: 'this-node' } });
  await destination({ event_types: ['execution'] });
  const own = await destination({ event_types: ['execution'], node_id: 'this-node', config: { url: `https://${OTHER}/` } });
  await destination({ event_types: ['execution'], node_id: 'another-node' });
  await governed.execute();
  await inbox.until(() => events(OTHER).length === 1);
  await manage('PUT', `export/destinations/${own}`, { enabled: false });
  const second = await governed.execute();
  await inbox.until(() => events().length > 0);
  t.match(events(), [{ payload: { record_id: second.body['record_id'] } }], 'from then on');
  t.equal(events(OTHER).length, 1);
});

// Holds: receivers-keep-nobody-waiting
t.test('what no try can deliver is kept, and can be sent again; another destination does not wait for it', async (t) => {
  const clock = fakeClock();
  const down = { is: true };
  const tries: Received[] = [];
  const answer = (message: Received): InboxAnswer => {
    if (message.host === SIEM) tries.push(message);
    return { status: message.host === SIEM && down.is ? 503 : 200 };
  };
  const { governed, inbox, events, destination } = await scene(t, { clock, answer });
  const id = await destination({ event_types: ['execution'] });
  await destination({ event_types: ['execution'], config: { url: `https://${OTHER}/` } });
  const { body } = await governed.execute();
  const metric = async (outcome: string): Promise<string | undefined> => {
    const { text } = await governed.gw.admin('GET', '/metrics');
    return new RegExp(`gw_export_events_total\\{destination="${id}",outcome="${outcome}"\\} (\\d+)`).exec(text)?.[1];
  };
  // Beyond the longest wait time stands still, so that no try is ever given up for being slow.
  for (let [moved, seen] = [0, 0]; (await metric('dead')) !== '1'; ) {
    if (seen !== tries.length) [moved, seen] = [0, tries.length];
    if (moved >= 10_000) continue;
    clock.advance(100);
    moved += 100;
  }
  t.equal(tries.length, 4, 'a first try and three more');
  t.equal(new Set(tries.map(({ headers }) => headers['webhook-id'])).size, 1);
  t.equal(await metric('retried'), '3');
  t.equal(events(OTHER).length, 1);
  const letters = (await governed.gw.admin('GET', `/v1/admin/export/dead-letters?destination_id=${id}`)).body as { items: readonly Json[] };
  t.match(letters.items, [{ event_type: 'execution', reason: 'server_error', attempts: 4, detail: 'HTTP 503' }]);
  down.is = false;
  t.match((await governed.gw.admin('POST', '/v1/admin/export/dead-letters/resend', { destination_id: id })).body, {
    delivered: 1,
    left: 0,
  });
  t.match(inbox.of(SIEM).at(-1)?.body, { payload: { record_id: body['record_id'] } });
  t.equal(inbox.of(SIEM).at(-1)?.headers['webhook-id'], tries[0]?.headers['webhook-id']);
  t.same((await governed.gw.admin('GET', '/v1/admin/export/dead-letters')).body, { items: [], next_page_token: null });
  const trail = (await governed.gw.admin('GET', '/v1/admin/audit?operation=dead_letters.resend')).body as { items: readonly Json[] };
  t.match(trail.items, [{ object: id }], 'and is in the audit trail');
});

t.test('the destination of the settings gets the events of every org', async (t) => {
  const env = { GW_EXPORT_WEBHOOK_URL: `https://${SIEM}/from/settings`, GW_EXPORT_WEBHOOK_TOKEN: 'token-of-the-operator' };
  const { governed, inbox, events } = await scene(t, { env });
  await governed.execute();
  await governed.execute({ org_id: 'globex' });
  await inbox.until(() =>
    ['default', 'globex'].every((org) => events().some((event) => event['event_type'] === 'execution' && event['org_id'] === org)),
  );
  t.match(inbox.received[0], { path: '/from/settings', headers: { authorization: 'Bearer token-of-the-operator' } });
});
