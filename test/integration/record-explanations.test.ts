// Why a call was denied (decision 10.13): what the gateway's own policy and the overlays of the org say of its record,
// and what would let it through.
import t from 'tap';
import { fakeClock } from '../support/fake-clock.ts';
import { bundleOf, CHAT, startGoverned } from '../support/governed.ts';
import { managedAs } from '../support/managed.ts';

const BUNDLE = bundleOf(`  targets:
    - {id: ours, when: {field: context.action.params.model, in: [gpt-4o, gpt-4o-mini, o3]}, effect: {decision: allow}}
    - {id: no-o3, when: {field: context.action.params.model, equals: o3}, effect: {decision: deny, reason: o3 is too dear}}
  risk:
    - {id: lock, when: {field: context.action.params.user, equals: bad}, effect: {decision: quarantine}}
`);
const OVERLAY = `schema: gw.policy_bundle.v1
bundle_id: org-overlay
version: "1"
inline_rules:
  budgets:
    - id: small
      when: {field: context.action.params.user, equals: big}
      effect: {decision: deny, reason: not for big}
`;

interface Explained {
  readonly because?: string;
  readonly would_let_it_through: readonly string[];
  readonly rules: readonly {
    readonly rule: string;
    readonly outcome: string;
    readonly level: string;
    readonly file: string;
    readonly line: number;
    readonly tests: readonly string[];
  }[];
}

async function place(t: Parameters<typeof startGoverned>[0]) {
  const governed = await startGoverned(t, { clock: fakeClock(), bundle: BUNDLE });
  const { manage } = await managedAs(governed.gw, 'default');
  const call = async (params: object, extra: object = {}) => {
    const { status, body } = await governed.execute(extra, { params: { ...CHAT, ...params } });
    return { status, id: String(body['record_id']) };
  };
  const explain = async (id: string) => {
    const { status, body } = await manage('GET', `records/${id}/explain`);
    return { status, body: body as Explained };
  };
  return { ...governed, manage, call, explain };
}

t.test('a rule that refused is named with file, line and what the call had', async (t) => {
  const { call, explain, manage, gw } = await place(t);
  const { status, id } = await call({ model: 'o3', messages: [{ role: 'user', content: 'a planted secret' }] });
  t.equal(status, 403);
  const { body } = await explain(id);
  t.match(body, {
    record_id: id,
    decision: 'deny',
    reason: 'o3 is too dear',
    reason_codes: [{ code: 'target_not_allowed', meaning: /allow-list/ }],
    judged_by: { bundle_id: 'test', version: '7', same: true },
    decides_now: { decision: 'deny' },
    would_let_it_through: [
      /Rule targets\/no-o3 \(bundle\.yaml:7\) decides deny, because context\.action\.params\.model equals o3 \(it was "o3"\)/,
    ],
  });
  t.notOk('because' in body);
  t.match(
    body.rules.find(({ rule }) => rule === 'targets/no-o3'),
    { outcome: 'matched', level: 'base', file: 'bundle.yaml', line: 7, tests: [/equals o3: holds/] },
  );
  t.notMatch(JSON.stringify(body), /planted/, 'no content is shown');
  const { record_hash: hash } = await gw.record(id);
  t.strictSame((await explain(String(hash))).body, body, 'by its hash, too');
  t.match(await manage('GET', 'records/00000000-0000-7000-8000-000000000000/explain'), { status: 404 });
});

t.test('an allow-list that no rule matched names the rules that came nearest', async (t) => {
  const { call, explain } = await place(t);
  const { id } = await call({ model: 'gpt-4' });
  const { would_let_it_through: ways } = (await explain(id)).body;
  t.match(ways[0], /The layer targets is an allow-list and no rule of it matched/);
  t.match(
    ways[1],
    /Rule targets\/ours \(bundle\.yaml:6\) would allow it if context\.action\.params\.model in \[gpt-4o, gpt-4o-mini, o3\] \(it was "gpt-4"\)/,
  );
});

t.test('the overlay of the org counts, as it is now', async (t) => {
  const { call, explain, manage } = await place(t);
  t.equal((await manage('PUT', 'policies', { bundle_yaml: OVERLAY })).status, 200);
  const { status, id } = await call({ user: 'big' });
  t.equal(status, 403);
  const denied = (await explain(id)).body;
  t.match(denied.rules[0] === undefined ? {} : denied.rules.find(({ rule }) => rule === 'budgets/small'), {
    outcome: 'unknown',
    took_part: true,
    level: 'org',
    line: 6,
  });
  t.match(denied, { decides_now: { decision: 'allow', certain: false } }, 'what records do not keep nobody can judge again');
  t.match(denied.would_let_it_through, [
    /Rule budgets\/small of the org overlay \(.*:6\) decided deny then; records do not keep what it reads \(context\.action\.params\.user\)/,
  ]);
  await manage('PUT', 'policies', { bundle_yaml: '' });
  t.match((await explain(id)).body, {
    decides_now: { decision: 'allow' },
    because: 'other_rules',
    would_let_it_through: [/now let it run: send it again/],
  });
});

t.test('what a later check refused, and what no rule was asked about, says what to do', async (t) => {
  const { call, explain, manage } = await place(t);
  await manage('POST', 'budgets/limits', { scope: 'project', scope_id: 'apollo', limit_usd: '0.000001', actions: ['cap'] });
  const capped = await call({}, { attribution: { project_id: 'apollo' } });
  t.equal(capped.status, 403);
  t.match((await explain(capped.id)).body, {
    because: 'after_the_rules',
    decides_now: { decision: 'allow' },
    would_let_it_through: [/^It was refused for money: the monthly limit of project apollo /, /set_budget_override/],
  });
  const strange = await call({}, { workload_id: 'nobody' });
  t.match((await explain(strange.id)).body, { because: 'not_asked', rules: [], would_let_it_through: [/create_workload/] });
  await call({ user: 'bad' }, { caller_id: 'bad' });
  const held = await call({}, { caller_id: 'bad' });
  t.match((await explain(held.id)).body, { decision: 'quarantine', would_let_it_through: [/release_quarantine/] });
  const allowed = await call({});
  t.match((await explain(allowed.id)).body, { decision: 'allow', would_let_it_through: [] });
});

t.test('an org explains its own calls alone', async (t) => {
  const { call, gw } = await place(t);
  const { id } = await call({ model: 'o3' });
  const { manage } = await managedAs(gw, 'acme');
  t.match(await manage('GET', `records/${id}/explain`), { status: 404, body: { error: { code: 'not_found' } } });
});
