// Who is charged: caller, workload, rules, org, in this order (decision 6.11).
import t from 'tap';
import type { Attribution } from '../../../src/base/model/action-request.ts';
import { mergeAttribution, restrictOverrides, settleAttribution } from '../../../src/decide/attribution/settle-attribution.ts';

const GIVERS = ['caller', 'workload', 'rules', 'org'] as const;
type Giver = (typeof GIVERS)[number];

/** What comes of it when these, and only these, give a value of this shape. */
function settled(givers: readonly Giver[], shape: (value: string) => Attribution, overrides?: readonly string[]) {
  const of = (giver: Giver): Attribution => (givers.includes(giver) ? shape(giver) : {});
  const given = { caller: of('caller'), workload: of('workload'), org: of('org') };
  const effects = { require_attribution: [], default_attribution: of('rules'), ...(overrides ? { allow_overrides: overrides } : {}) };
  return settleAttribution({ ...given, effects }).attribution;
}

const SHAPES: readonly (readonly [name: string, shape: (value: string) => Attribution])[] = [
  ['customer_id', (value) => ({ customer_id: value })],
  ['account_id', (value) => ({ account_id: value })],
  ['project_id', (value) => ({ project_id: value })],
  ['labels.team', (value) => ({ labels: { team: value } })],
];

t.test('of all who give a value the first in order counts, for every name and whoever is left out', (t) => {
  for (let chosen = 1; chosen < 2 ** GIVERS.length; chosen += 1) {
    const givers = GIVERS.filter((_, at) => chosen & (2 ** at));
    for (const [name, shape] of SHAPES) {
      t.strictSame(settled(givers, shape), shape(givers[0] ?? ''), `${name} from ${givers.join(', ')}`);
      const others = givers.filter((giver) => giver !== 'caller');
      const expected = others[0] === undefined ? {} : shape(others[0]);
      t.strictSame(settled(givers, shape, []), expected, `${name} from ${givers.join(', ')}, none of it the caller's to give`);
      t.strictSame(settled(givers, shape, [name]), shape(givers[0] ?? ''), `${name} from ${givers.join(', ')}, which the caller may give`);
    }
  }
  t.end();
});

t.test('an empty text is no value: who sends one does not keep out what others give', (t) => {
  const empty = { project_id: '', labels: { team: '', env: 'prod' } };
  const second = { project_id: 'p', labels: { team: 'blue', env: 'test' } };
  t.strictSame(mergeAttribution(empty, second), { project_id: 'p', labels: { team: 'blue', env: 'prod' } });
  t.end();
});

t.test('labels are completed and restricted one by one, and __proto__ is a name like any other', (t) => {
  const odd = JSON.parse('{"labels": {"__proto__": "mine", "team": "blue"}}') as Attribution;
  const merged = mergeAttribution(odd, { labels: { constructor: 'c' } });
  t.same(JSON.parse(JSON.stringify(merged)), JSON.parse('{"labels": {"constructor": "c", "__proto__": "mine", "team": "blue"}}'));
  t.strictSame(restrictOverrides({ project_id: 'p', ...odd }, ['labels.team']), { labels: { team: 'blue' } });
  t.strictSame(restrictOverrides(odd, ['labels.env']), {});
  t.end();
});

t.test('what is required and given by nobody is named, whatever the caller may not give included', (t) => {
  const effects = {
    require_attribution: ['project_id', 'labels.team', 'account_id'],
    allow_overrides: ['account_id'],
    default_attribution: {},
  };
  const caller = { project_id: 'p', account_id: 'a', labels: { team: 'blue' } };
  const none = { workload: undefined, org: undefined };
  t.strictSame(settleAttribution({ caller, ...none, effects }).missing, ['project_id', 'labels.team']);
  t.strictSame(settleAttribution({ caller, workload: undefined, org: { project_id: 'of the org' }, effects }).missing, ['labels.team']);
  t.end();
});
