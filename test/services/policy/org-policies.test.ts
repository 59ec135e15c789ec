import t from 'tap';
import { LazyRegex } from '../../../src/base/lib/regex.ts';
import { POLICY_BOUNDS } from '../../../src/base/model/work-bounds.ts';
import type { ActivePolicy } from '../../../src/services/policy/active-policy.ts';
import { loadPolicy } from '../../../src/services/policy/load-policy.ts';
import { OrgPolicies } from '../../../src/services/policy/org-policies.ts';
import type { PolicyService } from '../../../src/services/policy/policies.ts';
import { type Place, refusal, somePlace } from '../../support/policies-place.ts';

/** One of which nothing but the size counts. */
const sized = (patternSteps: number, ruleCount = 0) => ({ policy: { patternSteps, ruleCount } }) as ActivePolicy;
const BUNDLE = 'schema: gw.policy_bundle.v1\nbundle_id: base\ninline_rules: {risk: [{id: ok, effect: {decision: allow}}]}\n';
const nobody = () => undefined;

/** An overlay whose patterns have about 9,000 instructions each; those of another number are others. */
function overlay(patterns: number, number: number): string {
  const rules = Array.from(
    { length: patterns },
    (_, i) =>
      `{id: p${i}, when: {field: context.purpose, matches: "a{0,900}b{0,900}c{0,900}d{0,900}e{0,${880 - i}}x${number}"}, effect: {decision: deny}}`,
  );
  return `schema: gw.policy_bundle.v1\ninline_rules: {identity: [${rules.join(', ')}]}\n`;
}

const put = (service: PolicyService, org: string, text: string) => service.putOverlay({ org_id: org, level: 'org' }, text, nobody);

async function opened(t: Parameters<typeof somePlace>[0]): Promise<{ place: Place; service: PolicyService }> {
  const place = await somePlace(t);
  place.write('bundle.yaml', BUNDLE);
  return { place, service: await place.open() };
}

t.test('the org that has most is let go of, never the one that was just asked for, and never for one that has little', async (t) => {
  const base = sized(100);
  let orgs = new OrgPolicies(base, new Map(), new Set());
  const most = 1_000;
  orgs = orgs.with('small', sized(150), most).with('large', sized(700), most).with('other', sized(400), most);
  t.equal(orgs.own('small')?.policy.patternSteps, 150, 'what the bundle has counts for none of them');
  t.same([orgs.isLetGo('small'), orgs.isLetGo('large'), orgs.isLetGo('other')], [false, false, false]);
  orgs = orgs.with('third', sized(300), most);
  t.same([orgs.isLetGo('small'), orgs.isLetGo('large'), orgs.isLetGo('other')], [false, true, false]);
  t.equal(orgs.own('large'), undefined, 'it has to be compiled first');
  t.same([orgs.own('nobody'), orgs.isLetGo('nobody')], [undefined, false]);
  orgs = orgs.with('large', sized(700), most);
  t.same([orgs.isLetGo('large'), orgs.isLetGo('other')], [false, true], 'the next one in size');
  orgs = orgs.with('large', undefined, most).with('other', undefined, most);
  t.same(
    [orgs.own('large'), orgs.isLetGo('large'), orgs.isLetGo('other')],
    [undefined, false, false],
    'they lay nothing over the bundle any more',
  );
});

t.test('rules count for each org, those of the bundle too, as they are compiled for each', async (t) => {
  const base = sized(100, 50);
  let orgs = new OrgPolicies(base, new Map(), new Set());
  for (let i = 0; i < 6; i++) orgs = orgs.with(`org${i}`, sized(110, 51), 1_000);
  t.equal(orgs.compiled.size, 4);
  t.equal(orgs.letGo.size, 2);
});

t.test('many orgs lay something over one bundle: it is read once, and its patterns are looked at once', async (t) => {
  const bundle = { text: BUNDLE, file: 'bundle.yaml' };
  const other = { text: BUNDLE.replace('base', 'other'), file: 'bundle.yaml' };
  const overlays = { org: { text: overlay(1, 7), file: 'org overlay' } };
  const bundleTrees = new Map();
  const language = { tier: 'enterprise', bundleTrees } as const;
  t.equal((await loadPolicy({ bundle, overlays }, language, '')).ruleCount, 2);
  t.same([...bundleTrees.keys()], [bundle.text], 'what orgs lay over it is not kept');
  bundleTrees.set(other.text, bundleTrees.get(bundle.text));
  t.equal((await loadPolicy({ bundle: other, overlays }, language, '')).bundle_id, 'base', 'taken as it was read before');
  const regex = new LazyRegex('looked[0-9]at[0-9]{3}once');
  regex.compile();
  const again = new LazyRegex(regex.pattern);
  t.equal(again.building(), regex.building(), 'the same, also of another policy');
});

t.test('one overlay that is too large is refused, with its sum, and changes nothing', async (t) => {
  const { service } = await opened(t);
  const error = await refusal(put(service, 'acme', overlay(6, 0)));
  t.match(error, { code: 'invalid_policy', details: [{ code: 'patterns_too_large', file: 'org overlay' }] });
  t.match(error.message, /the 6 patterns that overlays and add-ons have .* 5\d{4} steps together, more than 50000/);
  t.same(service.overlays('acme'), []);
  t.match(await refusal(service.tryOverlay({ org_id: 'acme', level: 'node' }, overlay(6, 0))), { code: 'invalid_policy' });
});

t.test(
  'orgs that lay down all that they may keep no other org from loading, and their own rules hold when they are asked for',
  async (t) => {
    const { place, service } = await opened(t);
    const large = Math.floor(POLICY_BOUNDS.compiled.all / 45_000) + 2;
    await put(service, 'first', overlay(1, 1_000));
    for (let i = 0; i < large; i++) await put(service, `large${i}`, overlay(5, i));
    await put(service, 'last', overlay(1, 2_000));
    const rules = async (of: PolicyService, org: string) => (await of.ready(org)).policy.ruleCount;
    t.equal(service.current('first').policy.ruleCount, 2, 'still there');
    t.equal(service.current('last').policy.ruleCount, 2);
    const names = Array.from({ length: large }, (_, i) => `large${i}`);
    t.ok(names.filter((org) => service.current(org).policy.ruleCount === 1).length >= 2, 'some of the large ones were let go of');
    for (const org of names) t.equal(await rules(service, org), 6, org);
    t.equal(service.current('first').policy.ruleCount, 2);
    t.equal(service.ready('nobody'), service.current(), 'who lays down nothing waits for nothing');

    // After a start the small ones are there, and the others when they are asked for.
    const again = await place.open();
    t.equal(again.current('first').policy.ruleCount, 2);
    t.equal(again.current('last').policy.ruleCount, 2);
    t.ok(names.some((org) => again.current(org).policy.ruleCount === 1));
    t.same(
      await Promise.all(names.map((org) => rules(again, org))),
      names.map(() => 6),
      'also when all of them are asked for together',
    );
    t.equal(await rules(again, 'first'), 2);

    // What another one takes away while it is let go of does not come back.
    const gone = names.find((org) => again.current(org).policy.ruleCount === 1) ?? '';
    t.not(gone, '');
    await put(again, gone, '');
    t.equal(await rules(again, gone), 1);
  },
);
