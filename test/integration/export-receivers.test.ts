// Exported events at an HTTPS receiver with a certificate of its own: signatures by the verifier of Standard Webhooks,
// OCSF by its schema, and calls beside a receiver that is dead.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { Webhook } from 'standardwebhooks';
import t from 'tap';
import { type Clock, systemClock } from '../../src/base/lib/clock.ts';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { bundleOf, CHAT, startGoverned } from '../support/governed.ts';
import { Inbox, type InboxAnswer, type Received } from '../support/inbox.ts';
import { managedOf } from '../support/managed.ts';
import type { HasTeardown } from '../support/temp-dir.ts';

const SIEM = 'siem.example.com';
const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
const RULES = `  targets:
    - {id: all, effect: {decision: allow}}
  risk:
    - {id: large, when: {field: context.action.params.user, equals: ask}, effect: {decision: require_approval, reason: ask first}}
    - {id: bad, when: {field: context.action.params.user, equals: bad}, effect: {decision: quarantine, reason: it is bad}}
`;
type Json = Record<string, unknown>;

/** `clock`: the receiver's library asks the machine how old a message is. */
async function scene(t: HasTeardown, answer: (message: Received) => InboxAnswer | undefined, clock?: Clock) {
  const inbox = new Inbox(answer);
  const governed = await startGoverned(t, {
    bundle: bundleOf(RULES),
    hosts: [SIEM],
    ...(clock && { clock }),
    env: { GW_RISK_ALERT_THRESHOLD: '0.01', GW_RISK_NEW_TARGET_THRESHOLD: '0.001' },
    handler: inbox.handler(
      [SIEM],
      (_request, response, body) =>
        void body.then(() =>
          response.setHeader('content-type', 'application/json').end('{"usage":{"prompt_tokens":11,"completion_tokens":7}}'),
        ),
    ),
  });
  const { keyOf, with: withKey } = await managedOf(governed.gw);
  const manage = withKey((await keyOf('default')).key);
  const destination = async (format: string): Promise<string> => {
    const config = { url: `https://${SIEM}/${format}`, secret: SECRET, format };
    const made = await manage('POST', 'export/destinations', { name: 'siem', kind: 'webhook', config });
    if (made.status !== 201) throw new Error(JSON.stringify(made.body));
    return String((made.body as Json)['id']);
  };
  const call = (user: string) =>
    governed.execute({ caller_id: 'bob' }, { params: { ...CHAT, messages: [{ role: 'user', content: 'planted prompt' }], user } });
  return { inbox, governed, manage, destination, call };
}

t.test('every event verifies by the library of Standard Webhooks, and OCSF is as its schema wants it', async (t) => {
  const { inbox, manage, destination, call, governed } = await scene(t, () => ({ status: 204 }), systemClock);
  const plain = await destination('json');
  const ocsf = await destination('ocsf');
  t.match((await manage('POST', `export/destinations/${ocsf}/test`)).body, { delivered: true, detail: 'HTTP 204' });
  const { body } = await call('fine');
  await call('ask');
  await call('bad');
  await manage('PUT', `export/destinations/${plain}`, { name: 'the siem' });
  const at = (path: string): readonly Received[] => inbox.received.filter((one) => one.path === path);
  // Three executions, an approval, a quarantine and a change; the form that is tested has a test event before.
  const kinds = (path: string, kind: (body: Json) => unknown): string =>
    at(path)
      .map(({ body: event }) => String(kind(event)))
      .sort()
      .join(' ');
  await inbox.until(
    () =>
      kinds('/json', (event) => event['event_type']).startsWith('approval audit') &&
      /execution execution execution quarantine/.test(kinds('/json', (event) => event['event_type'])) &&
      /^0 2004.*( 3004){2,}( 6003){3}$/.test(kinds('/ocsf', (event) => event['class_uid'])),
  );
  const verifier = new Webhook(SECRET);
  for (const { text, headers } of inbox.received) {
    t.same(verifier.verify(text, headers as Record<string, string>), JSON.parse(text));
    t.throws(() => verifier.verify(`${text} `, headers as Record<string, string>));
  }
  const schema = JSON.parse(readFileSync(join(packageRoot(), 'test', 'vectors', 'ocsf', 'ocsf-1.8.0.json'), 'utf8')) as object;
  const validate = new Ajv2020({ allErrors: true, strict: false }).compile(schema);
  for (const { body: event, headers } of at('/ocsf')) {
    t.ok(validate(event), JSON.stringify(validate.errors));
    t.equal((event['metadata'] as Json)['uid'], headers['webhook-id'], 'repeats are told apart in the event too');
  }
  const classes = new Set(at('/ocsf').map(({ body: event }) => event['class_uid']));
  for (const expected of [0, 6003, 3004, 2004]) t.ok(classes.has(expected), `class ${expected}`);
  const executed = at('/ocsf').find(
    ({ body: event }) => (event['unmapped'] as Json)['record_id'] === body['record_id'] && event['class_uid'] === 6003,
  );
  t.same(executed?.body['unmapped'], await governed.gw.record(String(body['record_id'])), 'the whole record');
  t.notMatch(JSON.stringify(inbox.received), 'planted prompt');
  t.match(await manage('PUT', `export/destinations/${plain}`, { config: { url: `https://${SIEM}/`, format: 'xml' } }), {
    status: 400,
    body: { error: { details: [{ path: 'config.format', message: 'must be one of json, ocsf' }] } },
  });
});

// Holds: dead-receivers-hold-nothing
t.test('beside a receiver that never answers every call is served, and nothing but its eight posts is under way', async (t) => {
  const { inbox, governed, destination, call } = await scene(t, () => undefined);
  const id = await destination('json');
  for (let n = 0; n < 150; n += 1) t.equal((await call('fine')).status, 200);
  await inbox.until(() => inbox.received.length >= 8);
  t.ok(inbox.received.length <= 16, 'eight records, and eight of the other events');
  const { text } = await governed.gw.admin('GET', '/metrics');
  t.match(text, new RegExp(`gw_export_lag_seconds\\{destination="${id}"\\} \\d`));
});
