import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import { CatalogueInForce } from '../../../src/base/catalogue/catalogue-in-force.ts';
import { EventBus } from '../../../src/base/events/bus.ts';
import { parseEgressAllow } from '../../../src/base/lib/host.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { decide } from '../../../src/decide/policy/evaluate.ts';
import { CustomConnectorService } from '../../../src/services/policy/custom-connectors.ts';
import { PolicyService } from '../../../src/services/policy/policies.ts';
import { someFacts } from '../../decide/policy/policy-facts.ts';
import { type Place, refusal, somePlace } from '../../support/policies-place.ts';

const BASE = '{schema: gw.policy_bundle.v1, bundle_id: base, inline_rules: {identity: [{id: all, effect: {decision: allow}}]}}';
const overlay = (code: string): string =>
  `{schema: gw.policy_bundle.v1, inline_rules: {identity: [{id: no, priority: 1, effect: {decision: deny, reason_codes: [${code}]}}]}}`;
const FREE = (): void => undefined;
const at = { org_id: 'acme', level: 'org' } as const;

/** Another node on the same store; `loaded` resolves when it has taken the next change of another writer. */
async function node(place: Place, nodeId: string): Promise<{ policies: PolicyService; loaded(): Promise<void> }> {
  const events = new EventBus(silentLogger);
  let told: () => void = FREE;
  events.attach({ policyLoad: ({ trigger }) => (trigger === 'watch' ? told() : undefined) });
  return {
    policies: await PolicyService.open({ ...place.options, nodeId, events }),
    loaded: () => new Promise((resolve) => (told = resolve)),
  };
}

const codesOf = (policies: PolicyService, orgId = 'acme') => decide(policies.current(orgId).policy, someFacts()).reason_codes;

t.test('what one node lays over the bundle counts at every other one, and over a restart', async (t) => {
  const place = await somePlace(t);
  place.write('bundle.yaml', BASE);
  const one = await node(place, 'one');
  const two = await node(place, 'two');
  t.equal(one.policies.current('acme'), one.policies.current(), 'who lays nothing over it shares the snapshot of all');
  let there = two.loaded();
  await one.policies.putOverlay(at, overlay('by_one'), FREE);
  await there;
  t.same(codesOf(two.policies), ['by_one']);
  t.equal(two.policies.current('other'), two.policies.current());
  there = two.loaded();
  await one.policies.switchAddons('acme', 'x', (addons) => ({
    ...addons,
    providers: { openai: { byok: { enabled: false, at: '2026-11-24T00:00:00.000Z' } } },
  }));
  await there;
  t.ok(two.policies.current('acme').switches.byokOff.has('openai'));
  t.same(codesOf(two.policies), ['by_one'], 'with what was there');

  await one.policies.putOverlay({ org_id: 'acme', level: 'node', node_id: 'two' }, overlay('on_two').replace('id: no', 'id: a'), FREE);
  const again = await node(place, 'two');
  t.same(codesOf(again.policies), ['on_two']);
  t.same(codesOf(one.policies), ['by_one']);
});

t.test('of switches that two nodes change at the same moment none is lost', async (t) => {
  const place = await somePlace(t);
  place.write('bundle.yaml', BASE);
  const one = await node(place, 'one');
  const two = await node(place, 'two');
  const ids = ['openai', 'mistral', 'cohere', 'groq'];
  await Promise.all(
    ids.map((id, i) =>
      (i % 2 === 0 ? one : two).policies.switchAddons('acme', id, (addons) => ({
        ...addons,
        providers: { ...addons.providers, [id]: { routing: { enabled: false, at: '2026-11-24T00:00:00.000Z' } } },
      })),
    ),
  );
  const fresh = await node(place, 'three');
  t.same(Object.keys(fresh.policies.addons('acme').providers).sort(), [...ids].sort());
});

t.test('a change that cannot be stored, or does not load, leaves what runs', async (t) => {
  const place = await somePlace(t);
  place.write('bundle.yaml', BASE);
  const { policies } = await node(place, 'one');
  await policies.putOverlay(at, overlay('first'), FREE);
  const before = policies.current('acme');
  const full = (): Promise<void> => Promise.reject(new Error('disk full'));
  await t.rejects(policies.putOverlay(at, overlay('second'), FREE, full), /disk full/);
  await t.rejects(
    policies.switchAddons('acme', 'x', (addons) => addons, full),
    /disk full/,
  );
  t.match(await refusal(policies.putOverlay(at, '{', FREE)), { code: 'invalid_policy' });
  t.equal(policies.current('acme'), before);
});

t.test('a preset that this version does not bring lets nothing through', async (t) => {
  const place = await somePlace(t);
  place.write('bundle.yaml', BASE);
  const value = { org_id: 'acme', providers: {}, presets: { 'of-tomorrow': { enabled: true, at: '2026-11-24T00:00:00.000Z' } } };
  await place.store.commit(undefined, [{ op: 'put', space: 'org_addons', key: 'acme', value }]);
  const { policies } = await node(place, 'one');
  t.same(codesOf(policies), ['overlay_not_loaded']);
  t.same(codesOf(policies, 'other'), []);
});

// Holds: connectors-of-their-org
t.test('a custom connector is in the catalogue of every node as soon as one makes, changes or removes it', async (t) => {
  const { store, clock } = await somePlace(t);
  const open = async () => {
    const catalogues = new CatalogueInForce(loadCatalogue());
    const egressAllow = parseEgressAllow([]);
    const service = await CustomConnectorService.open({
      store,
      clock,
      log: silentLogger,
      catalogues,
      egressAllow,
      isDenied: () => false,
      hasCredential: () => false,
    });
    return { catalogues, service };
  };
  const [one, two] = [await open(), await open()];
  const shipped = two.catalogues.current();
  const made = await one.service.create('acme', { name: 'n', base_url: 'https://LLM.Corp.Example:8443/v1/', auth_mode: 'bearer' });
  t.equal(made.base_url, 'https://llm.corp.example:8443/v1');
  const seen = () => two.catalogues.current().forOrg('acme').providerForHost('llm.corp.example');
  t.match(seen(), { id: `custom:${made.id}`, custom: { port: 8443, tls: true, basePath: '/v1' } });
  t.equal(two.catalogues.current().forOrg('other'), shipped, 'no other org has anything else than what is shipped');
  const before = two.catalogues.current();
  await one.service.change('acme', made.id, { default_model: 'm' }, FREE);
  t.match(seen(), { custom: { defaultModel: 'm' } });
  t.match(
    before.forOrg('acme').providerForHost('llm.corp.example')?.custom,
    { defaultModel: undefined },
    'who has begun keeps what it took',
  );
  two.catalogues.replace(loadCatalogue());
  t.ok(seen(), 'other prices do not take it away');
  await one.service.remove('acme', made.id, FREE);
  t.equal(seen(), undefined);
  t.equal(one.catalogues.current(), one.catalogues.shipped());
});
