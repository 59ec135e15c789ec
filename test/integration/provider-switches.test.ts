import t from 'tap';
import type { Addon } from '../../src/base/model/org.ts';
import { bundleOf, CHAT, chat, type Governed, startGoverned } from '../support/governed.ts';
import { codeIn, type Manage, managedOf } from '../support/managed.ts';
import { ConnectRefused, connectThrough, h1Request, openTunnel } from '../support/raw-clients.ts';
import type { HasTeardown } from '../support/temp-dir.ts';

const BASE = bundleOf('  identity: [{id: all, effect: {decision: allow}}]\n');
const STORED = 'sk-stored-of-the-org-1234';

interface Scene extends Governed {
  readonly acme: Manage;
  readonly other: Manage;
}

async function scene(t: HasTeardown, options: { env?: Record<string, string>; bundle?: string } = {}): Promise<Scene> {
  const governed = await startGoverned(t, { bundle: BASE, ...options });
  const { manage, keyOf, with: withKey } = await managedOf(governed.gw);
  return { ...governed, acme: manage, other: withKey((await keyOf('other')).key) };
}

const set = async (manage: Manage, path: string): Promise<number> => (await manage('POST', `providers/${path}`)).status;

async function entry(manage: Manage, id: string): Promise<Addon | undefined> {
  const { data } = (await manage('GET', 'providers')).body as { data: Addon[] };
  return data.find(({ addon_id }) => addon_id === id);
}

const of = (org: string) => ({ org_id: org });
const reasons = ({ body }: Awaited<ReturnType<Governed['execute']>>) => body['reason_codes'];

t.test('the catalogue is flat: routing, byok, oauth where people sign in, and presets; as it is at first', async (t) => {
  const { acme } = await scene(t);
  const { data } = (await acme('GET', 'providers')).body as { data: Addon[] };
  t.match(await entry(acme, 'provider-openai'), {
    kind: 'provider_integration',
    enabled: true,
    display_name: 'OpenAI',
    docs_url: /^https:/,
  });
  t.match(await entry(acme, 'credential-byok-anthropic'), { kind: 'credential_mode', enabled: true });
  t.match(await entry(acme, 'credential-oauth-anthropic'), { kind: 'credential_mode', enabled: false });
  t.equal(await entry(acme, 'credential-oauth-openai'), undefined, 'a provider without OAuth has no such entry');
  t.match(await entry(acme, 'policy-office-hours'), { kind: 'policy_preset', enabled: false, category: 'access' });
  t.ok(data.filter(({ kind }) => kind === 'policy_preset').length >= 8);
  t.equal(new Set(data.map(({ addon_id }) => addon_id)).size, data.length);
  for (const addon of data) t.match(addon, { display_name: /./, description: /\.$/, category: /^[a-z_]+$/, logo_url: null });
});

t.test(
  'routing that is off denies the calls of its org alone, on every way to the provider, from the next call of an open tunnel on',
  async (t) => {
    const one = await scene(t);
    const tunnel = await connectThrough(one.gw.port, 'api.openai.com:443', one.gw.caPem);
    t.teardown(() => tunnel.destroy());
    const ask = (org: string) => h1Request(tunnel, 'api.openai.com', chat(['X-GW-Org-ID', org], '/v1/chat/completions'));
    t.equal((await ask('acme')).status, 200);
    t.equal(await set(one.acme, 'provider_a/routing/disable'), 200);
    t.match(await entry(one.acme, 'provider-openai'), { enabled: false });
    t.match(await entry(one.other, 'provider-openai'), { enabled: true });
    const denied = await ask('acme');
    t.equal(denied.status, 403);
    t.match(await one.recordOf(denied), {
      decision: 'deny',
      policy_trace: { matched_rule_ids: ['all', 'switch.routing.openai'] },
    });
    t.equal((await ask('other')).status, 200);
    const before = one.upstream.requests.length;
    t.same(reasons(await one.execute(of('acme'))), ['provider_disabled']);
    t.same(reasons(await one.execute({ ...of('acme'), connector_hint: 'openai' }, { target_host: 'api.mistral.ai' })), [
      'provider_disabled',
    ]);
    t.match(
      reasons(await one.execute({ ...of('acme'), connector_hint: 'generic_http' })),
      ['provider_disabled'],
      'no other name reaches it',
    );
    t.equal(one.upstream.requests.length, before);
    t.equal((await one.execute(of('acme'), { target_host: 'api.mistral.ai' })).status, 200, 'other providers are as before');
    await one.gw.gateway.stop();
    const again = await scene(t, { env: { GW_DATA_DIR: one.gw.dataDir } });
    t.same(reasons(await again.execute(of('acme'))), ['provider_disabled'], 'a restart ends nothing');
    t.equal(await set(again.acme, 'openai/routing/enable'), 200);
    t.equal((await again.execute(of('acme'))).status, 200);
  },
);

// Holds: switched-off-stays-off
t.test('no rule of a bundle or an overlay lets through what is switched off, and none that is closed is opened by it', async (t) => {
  const allowing = `  connectors: [{id: all, priority: 999999999999999, effect: {decision: allow, select_connector: openai}}]\n`;
  const one = await scene(t, { bundle: bundleOf(`  identity: [{id: all, effect: {decision: allow}}]\n${allowing}`) });
  await set(one.acme, 'openai/routing/disable');
  t.same(reasons(await one.execute(of('acme'))), ['provider_disabled']);
  t.same(reasons(await one.execute(of('acme'), { target_host: 'api.mistral.ai' })), ['provider_disabled'], 'nor what policy selects');
  const overlay = 'schema: gw.policy_bundle.v1\ninline_rules: {connectors: [{id: switch.routing.openai, disabled: true}]}\n';
  t.equal((await one.acme('PUT', 'policies', { bundle_yaml: overlay })).status, 200);
  t.same(reasons(await one.execute(of('acme'))), ['provider_disabled']);

  const closed = await scene(t, {
    bundle: bundleOf('  identity: [{id: all, effect: {decision: allow}}]\n  connectors: []\n  targets: []\n'),
  });
  t.same(reasons(await closed.execute(of('acme'))), ['connector_not_allowed']);
  await set(closed.acme, 'mistral/routing/disable');
  await set(closed.acme, 'policy-block-providers/routing/enable');
  await set(closed.acme, 'policy-approved-models/routing/enable');
  t.same(reasons(await closed.execute(of('acme'))), ['connector_not_allowed'], 'a layer that is empty stays closed');
});

t.test('byok that is off takes no key of a caller on any door: the stored one is used, or none', async (t) => {
  const one = await scene(t);
  t.equal(await set(one.acme, 'openai/byok/disable'), 200);
  const bare = { ...of('acme'), credential_hint: undefined };
  const own = { headers: { authorization: 'Bearer sk-mine' } };
  t.same(reasons(await one.execute(of('acme'))), ['byok_disabled'], 'a hint that is a key');
  t.same(reasons(await one.execute(bare, own)), ['byok_disabled']);
  for (const generic of [bare, of('acme')])
    t.same(reasons(await one.execute({ ...generic, connector_hint: 'generic_http' }, own)), ['byok_disabled'], 'no other name takes it');
  const proxied = await one.send(chat(['X-GW-Org-ID', 'acme']));
  t.equal(proxied.status, 403);
  t.match(await one.recordOf(proxied), { decision: 'deny' });
  t.equal(one.upstream.requests.length, 0);
  t.equal((await one.send(chat(['X-GW-Org-ID', 'other']))).status, 200);
  t.equal((await one.execute(of('acme'), { target_host: 'api.mistral.ai' })).status, 200);
  const credential = { credential_id: 'cred-org', connector_id: 'openai', mode: 'alias', secret_ref: STORED };
  t.equal((await one.gw.admin('PUT', '/v1/admin/credentials', credential)).status, 200);
  const sent = () => one.upstream.requests.at(-1)?.headers['authorization'];
  await one.send(chat(['X-GW-Org-ID', 'acme']));
  t.equal(sent(), `Bearer ${STORED}`, 'in the place of what the caller brought');
  await one.execute(bare, own);
  t.equal(sent(), `Bearer ${STORED}`);
  await set(one.acme, 'openai/byok/enable');
  await one.send(chat(['X-GW-Org-ID', 'acme']));
  t.equal(sent(), 'Bearer sk-client');
});

t.test('where tunnels are not opened, what is off is denied by host, as whose key is in them is not seen', async (t) => {
  const one = await scene(t, { env: { GW_PROXY_MITM_ENABLED: 'false' } });
  const open = async (org: string, host: string) => {
    const headers = { 'X-GW-Org-ID': org };
    try {
      const socket = await openTunnel(one.gw.port, `${host}:443`, { headers });
      socket.destroy();
      return 200;
    } catch (error) {
      if (error instanceof ConnectRefused) return error.status;
      throw error;
    }
  };
  t.equal(await open('acme', 'api.openai.com'), 200);
  await set(one.acme, 'openai/byok/disable');
  await set(one.acme, 'mistral/routing/disable');
  t.equal(await open('acme', 'api.openai.com'), 403);
  t.equal(await open('acme', 'api.mistral.ai'), 403);
  t.equal(await open('acme', 'api.cohere.com'), 200);
  t.equal(await open('other', 'api.openai.com'), 200);
});

t.test('oauth lets the Authorization of its org pass ahead of a stored credential, whatever the setting says', async (t) => {
  const one = await scene(t, { env: { GW_OAUTH_PASSTHROUGH: 'gemini' } });
  for (const connector_id of ['anthropic', 'gemini'])
    await one.gw.admin('PUT', '/v1/admin/credentials', {
      credential_id: `c-${connector_id}`,
      connector_id,
      mode: 'alias',
      secret_ref: STORED,
    });
  const select =
    'schema: gw.policy_bundle.v1\ninline_rules: {credentials: [{id: ours, effect: {decision: allow, select_credential: {mode: alias}}}]}\n';
  for (const manage of [one.acme, one.other]) t.equal((await manage('PUT', 'policies', { bundle_yaml: select })).status, 200);
  const ask = async (org: string, provider: 'anthropic' | 'gemini') => {
    const path = provider === 'anthropic' ? '/proxy/anthropic/v1/messages' : '/proxy/gemini/v1beta/models/gemini-2.5-flash:generateContent';
    await one.send(chat(['X-GW-Org-ID', org], path, provider === 'anthropic' ? { ...CHAT, max_tokens: 3 } : { contents: [] }));
    const { authorization, 'x-api-key': key, 'x-goog-api-key': google } = one.upstream.requests.at(-1)?.headers ?? {};
    return authorization ?? key ?? google;
  };
  t.equal(await ask('acme', 'anthropic'), STORED);
  t.equal(await set(one.acme, 'claude/oauth/enable'), 200);
  t.equal(await ask('acme', 'anthropic'), 'Bearer sk-client');
  t.equal(await ask('other', 'anthropic'), STORED);
  t.match(await entry(one.acme, 'credential-oauth-gemini'), { enabled: true }, 'the setting counts for who has said nothing');
  t.equal(await ask('acme', 'gemini'), 'Bearer sk-client');
  await set(one.acme, 'gemini/oauth/disable');
  t.equal(await ask('acme', 'gemini'), STORED);
  t.equal(await ask('other', 'gemini'), 'Bearer sk-client');
});

t.test('a preset that is on decides, and an overlay of the org may say its rules in other words', async (t) => {
  const one = await scene(t, { env: { GW_APPROVAL_ENABLED: 'true' } });
  t.equal(await set(one.acme, 'policy-approved-models/routing/enable'), 200);
  t.equal((await one.execute(of('acme'))).status, 200);
  const large = { params: { ...CHAT, model: 'gpt-5' } };
  t.same(reasons(await one.execute(of('acme'), large)), ['model_not_approved']);
  t.equal((await one.execute(of('other'), large)).status, 200);
  const own =
    'schema: gw.policy_bundle.v1\ninline_rules: {targets: [{id: preset.approved_models, when: {field: context.action.params.model, equals: gpt-4o-mini}, effect: {decision: deny, reason_codes: [ours]}}]}\n';
  await one.acme('PUT', 'policies', { bundle_yaml: own });
  t.equal((await one.execute(of('acme'), large)).status, 200);
  t.same(reasons(await one.execute(of('acme'))), ['ours']);
  await one.acme('PUT', 'policies', { bundle_yaml: '' });
  await set(one.acme, 'policy-approved-models/routing/disable');
  t.equal((await one.execute(of('acme'), large)).status, 200);

  await set(one.acme, 'policy-require-attribution/routing/enable');
  t.same(reasons(await one.execute(of('acme'))), ['missing:project_id', 'missing:labels.cost_center']);
  await set(one.acme, 'policy-require-attribution/routing/disable');
  await set(one.acme, 'policy-approve-expensive-calls/routing/enable');
  const costly = { params: { model: 'gpt-4', max_tokens: 32_000, messages: [{ role: 'user', content: 'x'.repeat(40_000) }] } };
  t.match(await one.execute(of('acme'), costly), { status: 202 }, 'a person is asked');
  t.equal((await one.execute(of('acme'))).status, 200);
  await set(one.acme, 'policy-rate-limit-workloads/routing/enable');
  let last = 200;
  for (let i = 0; i < 62 && last === 200; i++) last = (await one.execute(of('acme'))).status;
  t.equal(last, 429, 'sixty a minute and no more');
});

t.test('what cannot be switched is told, and the tier holds', async (t) => {
  const one = await scene(t, { env: { GW_PLAN_TIER: 'starter' } });
  const answer = async (path: string) => {
    const { status, ...rest } = await one.acme('POST', `providers/${path}`);
    return `${status} ${codeIn({ status, ...rest })}`;
  };
  t.equal(await answer('openai/oauth/enable'), '400 mode_not_supported');
  t.equal(await answer('openai/pricing/enable'), '400 mode_not_supported');
  t.equal(await answer('policy-office-hours/byok/enable'), '400 mode_not_supported');
  t.equal(await answer('nobody/routing/enable'), '404 not_found');
  t.equal(await answer('policy-nobody/routing/enable'), '404 not_found');
  t.equal(await answer('generic_http/routing/disable'), '404 not_found');
  t.equal(await answer('openai/routing/perhaps'), '404 not_found');
  t.equal(await answer('policy-office-hours/routing/enable'), '400 invalid_policy');
  t.match(await entry(one.acme, 'policy-office-hours'), { enabled: false });
  t.equal(await set(one.acme, 'policy-networks-only/routing/enable'), 200, 'identity is in every tier');
  t.equal(await set(one.acme, 'openai/routing/disable'), 200, 'a switch is no overlay of theirs');
  t.same(reasons(await one.execute(of('acme'))), ['provider_disabled']);
  const audit = await one.gw.admin('GET', '/v1/admin/audit');
  t.match(audit.text, /"object":"provider-openai"/);
  const all = await Promise.all(['mistral', 'cohere', 'groq', 'xai'].map((id) => set(one.acme, `${id}/routing/disable`)));
  t.same(all, [200, 200, 200, 200]);
  for (const id of ['mistral', 'cohere', 'groq', 'xai']) t.match(await entry(one.acme, `provider-${id}`), { enabled: false });
});
