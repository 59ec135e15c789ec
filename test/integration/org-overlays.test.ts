import t from 'tap';
import { bundleOf, chat, type Governed, startGoverned } from '../support/governed.ts';
import { type Answer, type Manage, managedOf } from '../support/managed.ts';
import { connectThrough, h1Request } from '../support/raw-clients.ts';
import type { HasTeardown } from '../support/temp-dir.ts';

const BASE = bundleOf('  identity: [{id: all, effect: {decision: allow}}]\n');
const overlay = (rules: string): string => `schema: gw.policy_bundle.v1\ninline_rules:\n${rules}`;
const NO_MINI = overlay(
  '  identity: [{id: no.mini, when: {field: context.action.params.model, equals: gpt-4o-mini}, effect: {decision: deny, reason_codes: [no_mini]}}]\n',
);

interface Scene extends Governed {
  readonly acme: Manage;
  readonly other: Manage;
  /** What a chat call of an org is answered, and why. */
  asked(org: string): Promise<string>;
}

async function scene(t: HasTeardown, env: Record<string, string> = {}, bundle = BASE): Promise<Scene> {
  const governed = await startGoverned(t, { bundle, env });
  const { manage, keyOf, with: withKey } = await managedOf(governed.gw);
  return {
    ...governed,
    acme: manage,
    other: withKey((await keyOf('other')).key),
    asked: async (org) => {
      const { status, body } = await governed.execute({ org_id: org });
      return status === 200 ? 'allow' : String((body['reason_codes'] as string[] | undefined)?.[0] ?? status);
    },
  };
}

const put = (manage: Manage, bundle_yaml: string, more: object = {}): Promise<Answer> =>
  manage('PUT', 'policies', { bundle_yaml, ...more });

t.test('an overlay counts for its org alone, from the next request on, and survives reloads and restarts', async (t) => {
  const one = await scene(t);
  t.equal(await one.asked('acme'), 'allow');
  const tunnel = await connectThrough(one.gw.port, 'api.openai.com:443', one.gw.caPem);
  t.teardown(() => tunnel.destroy());
  const inTunnel = async (org: string) =>
    (await h1Request(tunnel, 'api.openai.com', chat(['X-GW-Org-ID', org], '/v1/chat/completions'))).status;
  t.equal(await inTunnel('acme'), 200);
  t.equal((await put(one.acme, NO_MINI)).status, 200);
  t.equal(await one.asked('acme'), 'no_mini');
  t.equal(await inTunnel('acme'), 403);
  t.equal(await inTunnel('other'), 200);
  t.equal(await one.asked('other'), 'allow');
  t.equal((await one.gw.admin('POST', '/v1/admin/policies/reload')).status, 200);
  t.equal(await one.asked('acme'), 'no_mini');
  const base = bundleOf('  identity: [{id: all, effect: {decision: allow}}]\n').replace('bundle_id: test', 'bundle_id: another');
  t.equal((await one.gw.admin('PUT', '/v1/admin/policies', { bundle_yaml: base })).status, 200);
  t.equal(await one.asked('acme'), 'no_mini', 'it lies over a bundle that is put, too');
  const denied = await one.execute({ org_id: 'acme' });
  const record = await one.gw.record(String(denied.headers.get('x-gw-record-id')));
  t.match(JSON.stringify(record), '"another"', 'the record names the bundle that decided');
  await one.gw.gateway.stop();
  const again = await scene(t, { GW_DATA_DIR: one.gw.dataDir });
  t.equal(await again.asked('acme'), 'no_mini');
  t.equal(await again.asked('other'), 'allow');
  t.equal((await put(again.acme, '')).status, 200);
  t.equal(await again.asked('acme'), 'allow', 'an empty text takes it away');
});

t.test('node overlays lie over that of the org, and those of other nodes count there alone', async (t) => {
  const one = await scene(t, { GW_NODE_ID: 'here' });
  await put(one.acme, NO_MINI);
  const without = overlay('  identity: [{id: no.mini, disabled: true}]\n');
  t.equal((await put(one.acme, without, { level: 'node', node_id: 'there' })).status, 200);
  t.equal(await one.asked('acme'), 'no_mini');
  const listed = await put(one.acme, without, { level: 'node' });
  t.equal(await one.asked('acme'), 'allow');
  t.match(listed.body, {
    data: [
      { level: 'base', bundle_id: 'test', source: 'file' },
      { level: 'org' },
      { level: 'node', node_id: 'here' },
      { level: 'node', node_id: 'there' },
    ],
  });
  const whole = await one.acme('GET', 'policies');
  const { change: _change, ...all } = listed.body as { change: unknown };
  t.same(whole.body, { ...all, next_cursor: null, has_more: false });
  t.equal(whole.headers.get('etag'), listed.headers.get('etag'));
  const levels: unknown[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page = await one.acme('GET', `policies?limit=1${cursor === '' ? '' : `&cursor=${cursor}`}`);
    const { data, next_cursor: next, has_more: more } = page.body as Record<'data' | 'next_cursor' | 'has_more', never>;
    levels.push(...(data as { level: string; node_id?: string }[]).map(({ level, node_id: node = '' }) => `${level} ${node}`));
    t.equal(more, next !== null);
    t.equal(page.headers.get('etag'), whole.headers.get('etag'), 'a page has the tag of what it is a page of');
    cursor = next;
  }
  t.same(levels, ['base ', 'org ', 'node here', 'node there']);
  t.equal((await one.acme('GET', 'policies?limit=501')).status, 400);
  t.equal((await one.acme('GET', 'policies?cursor=x')).status, 400);
  t.equal(((await one.other('GET', 'policies')).body as { data: unknown[] }).data.length, 1, 'another org sees none of them');
  t.equal((await put(one.acme, '', { level: 'node', node_id: 'here' })).status, 200);
  t.equal(await one.asked('acme'), 'no_mini');
  t.equal((await put(one.acme, '', { node_id: 'here' })).status, 400);
});

t.test('what does not load, or a tier forbids, is told with its place and changes nothing', async (t) => {
  const one = await scene(t, { GW_PLAN_TIER: 'starter' });
  t.equal((await put(one.acme, NO_MINI)).status, 200);
  const bad: readonly (readonly [string, object])[] = [
    ['schema: gw.policy_bundle.v1\ninline_rules: {identity: [{id: a, effect: {decision: perhaps}}]}\n', { line: 2, column: /./ }],
    ['schema: gw.policy_bundle.v1\ninline_rules: [', { line: /./ }],
    ['nothing', { line: 1 }],
    [overlay('  targets: [{id: a, effect: {decision: deny}}]\n'), { line: 3, column: /./, code: 'tier_not_allowed' }],
    [`${overlay('  identity: []\n')}files: [x.yaml]\n`, { code: 'files_not_allowed' }],
  ];
  for (const [text, detail] of bad) {
    const answer = await put(one.acme, text);
    t.match(answer, { status: 400, body: { error: { code: 'invalid_policy', details: [detail] } } }, text);
    t.equal(await one.asked('acme'), 'no_mini');
  }
  t.match(await put(one.acme, NO_MINI, { level: 'base' }), { status: 400, body: { error: { code: 'invalid_request' } } });
  const etag = String((await one.acme('GET', 'policies')).headers.get('etag'));
  const mine = await one.acme('PUT', 'policies', { bundle_yaml: '' }, { 'if-match': etag });
  t.equal(mine.status, 200);
  const late = await one.acme('PUT', 'policies', { bundle_yaml: NO_MINI }, { 'if-match': etag });
  t.equal(late.status, 412);
  t.equal(await one.asked('acme'), 'allow');
  t.equal((await one.acme('POST', 'policies/reload')).status, 200);
});

// Holds: switched-off-stays-off
t.test('what is stored and no longer loads denies the requests of its org, and of no other', async (t) => {
  const one = await scene(t);
  const targets = overlay('  targets: [{id: extra, when: {field: context.purpose, equals: no}, effect: {decision: deny}}]\n');
  t.equal((await put(one.acme, targets)).status, 200);
  t.equal(await one.asked('acme'), 'allow');
  await one.gw.gateway.stop();
  const lower = await scene(t, { GW_DATA_DIR: one.gw.dataDir, GW_PLAN_TIER: 'starter' });
  t.equal(await lower.asked('acme'), 'overlay_not_loaded');
  t.equal(await lower.asked('other'), 'allow');
  t.equal((await put(lower.acme, NO_MINI)).status, 200);
  t.equal(await lower.asked('acme'), 'no_mini', 'until it is put right');
});

t.test('after a downgrade each piece can be taken away, whatever of the rest does not load, and it is told what that is', async (t) => {
  const one = await scene(t, { GW_NODE_ID: 'here' });
  const refusing = (layer: string, id: string): string =>
    overlay(`  ${layer}: [{id: ${id}, when: {field: context.purpose, equals: no}, effect: {decision: deny}}]\n`);
  t.equal((await put(one.acme, refusing('targets', 'a'))).status, 200);
  t.equal((await put(one.acme, refusing('custom.own', 'b'), { level: 'node' })).status, 200);
  t.equal((await put(one.acme, refusing('risk', 'c'), { level: 'node', node_id: 'there' })).status, 200);
  const presets = ['eu-only', 'no-reasoning-models'];
  const { data } = (await one.acme('GET', 'providers')).body as { data: readonly { addon_id: string; kind: string }[] };
  const known = data.filter(({ kind }) => kind === 'policy_preset').map(({ addon_id: id }) => id);
  for (const id of known) t.equal((await one.acme('POST', `providers/${id}/routing/enable`)).status, 200, id);
  t.ok(known.length >= presets.length);
  await one.gw.gateway.stop();

  const lower = await scene(t, { GW_NODE_ID: 'here', GW_DATA_DIR: one.gw.dataDir, GW_PLAN_TIER: 'starter' });
  t.equal(await lower.asked('acme'), 'overlay_not_loaded');
  const pieces = async (): Promise<readonly string[]> => {
    const { not_loaded: found = [] } = (await lower.acme('GET', 'policies')).body as { not_loaded?: readonly { piece: string }[] };
    return found.map(({ piece }) => piece);
  };
  const told = (await lower.acme('GET', 'policies')).body;
  t.match(told, {
    not_loaded: [
      { piece: 'org overlay', problems: [{ code: 'tier_not_allowed', message: /starter.*targets/, line: 3 }], take_away: /PUT/ },
      { piece: 'node overlay', problems: [{ message: /starter.*custom\.own/ }] },
    ],
  });
  const health = async (): Promise<string> =>
    JSON.stringify(((await lower.gw.admin('GET', '/healthz')).body as { warnings: unknown }).warnings);
  t.match(await health(), /policy_not_loaded.*acme.*org overlay.*starter does not include the layer targets.*node overlay/);
  t.match((await lower.gw.admin('GET', '/v1/admin/policies')).body, { warnings: [{ code: 'not_loaded', path: 'orgs.acme' }] });
  const failing = (await pieces()).filter((piece) => piece.startsWith('preset '));
  t.ok(failing.length > 0, 'some presets are in layers that starter does not include');

  t.match(
    await put(lower.acme, refusing('targets', 'z')),
    { status: 400, body: { error: { code: 'invalid_policy' } } },
    'none is put anew',
  );
  t.equal((await put(lower.acme, NO_MINI)).status, 200, 'one that loads may take its place');
  t.notOk((await pieces()).includes('org overlay'));
  t.equal(await lower.asked('acme'), 'overlay_not_loaded');
  t.equal((await lower.acme('POST', 'providers/openai/routing/disable')).status, 200, 'and a provider be switched');
  t.equal((await lower.acme('POST', 'providers/openai/routing/enable')).status, 200);
  t.equal((await put(lower.acme, '', { level: 'node', node_id: 'there' })).status, 200);
  t.equal((await put(lower.acme, '', { level: 'node' })).status, 200);
  for (const piece of failing) {
    t.equal(await lower.asked('acme'), 'overlay_not_loaded');
    const { status } = await lower.acme('POST', `providers/policy-${piece.slice('preset '.length)}/routing/disable`);
    t.equal(status, 200, piece);
  }
  t.same(await pieces(), []);
  t.equal(await lower.asked('acme'), 'no_mini');
  t.notMatch(await health(), /policy_not_loaded/);
  t.equal((await put(lower.acme, '')).status, 200);
  const again = await lower.acme('POST', `providers/policy-${(failing[0] ?? '').slice('preset '.length)}/routing/enable`);
  t.match(again, { status: 400, body: { error: { code: 'invalid_policy' } } });
});

t.test('a gating layer that loses its last rule denies nothing, and the answer says so', async (t) => {
  const one = await scene(t, {}, `${BASE}  connectors: [{id: block, effect: {decision: deny, reason_codes: [blocked]}}]\n`);
  t.equal(await one.asked('acme'), 'blocked');
  const answer = await put(one.acme, overlay('  connectors: [{id: block, disabled: true}]\n'));
  t.match(answer.body, {
    warnings: [{ code: 'empties_layer', path: 'inline_rules.connectors', files: ['org overlay'], message: /counts as absent/ }],
  });
  t.equal(await one.asked('acme'), 'allow');
  t.equal(await one.asked('other'), 'blocked');
  t.match((await one.acme('GET', 'policies')).body, { warnings: [{ code: 'empties_layer' }] });
  const bundle = `${BASE}  targets: [{id: off, disabled: true, effect: {decision: deny}}]\n`;
  t.match(await one.gw.admin('PUT', '/v1/admin/policies', { bundle_yaml: bundle }), {
    status: 200,
    body: { warnings: [{ code: 'empties_layer', path: 'inline_rules.targets' }] },
  });
  t.equal(await one.asked('other'), 'allow');
});

t.test('while overlays are swapped under load, every request is decided by one of them from beginning to end', async (t) => {
  const one = await scene(t);
  const versions = ['a', 'b'].map((name) =>
    overlay(`  identity: [{id: one.${name}, priority: 5, effect: {decision: deny, reason_codes: [by_${name}, also_${name}]}}]\n`),
  );
  await put(one.acme, versions[0] ?? '');
  const swaps = (async () => {
    for (let i = 0; i < 12; i++) await put(one.acme, versions[i % 2] ?? '');
  })();
  const seen = new Set<string>();
  for (let i = 0; i < 40; i++) {
    const { body } = await one.execute({ org_id: 'acme' });
    seen.add((body['reason_codes'] as string[]).join());
  }
  await swaps;
  t.ok([...seen].every((codes) => codes === 'by_a,also_a' || codes === 'by_b,also_b'));
});
