// What a budget says and lets through, asked of the service itself: alerts around commits and crashes, many limits at
// once, streams that grow.
import t from 'tap';
import { EventBus } from '../../../src/base/events/bus.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { picoFromUsd } from '../../../src/base/lib/money.ts';
import type { BudgetAlert, BudgetLimit } from '../../../src/base/model/budget-limit.ts';
import { hourOf } from '../../../src/decide/limits/windows.ts';
import type { CapExceeded } from '../../../src/services/money/allowance.ts';
import { BudgetService, type Counted } from '../../../src/services/money/budgets.ts';
import { isExceeded, type Reservation } from '../../../src/services/money/reservation.ts';
import { SpendBook } from '../../../src/services/money/spend-book.ts';
import { rollUpKey, USAGE_DAY } from '../../../src/storage/contract/counter-spaces.ts';
import type { Store } from '../../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { exactly } from '../../support/exactly.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { type HasTeardown, tempDir } from '../../support/temp-dir.ts';

const SPENDER = { orgId: 'o', workloadId: 'w', projectId: 'p', connectorId: 'openai', providerId: 'openai' };
const usd = picoFromUsd;
let limits = 0;

function limit(limit_usd: string, more: Partial<BudgetLimit> = {}): BudgetLimit {
  const thresholds = { warning_threshold_pct: 50, critical_threshold_pct: 80 };
  const id = `limit-${++limits}`;
  return {
    limit_id: id,
    org_id: 'o',
    scope: 'org',
    limit_usd,
    period: 'monthly',
    ...thresholds,
    actions: ['cap'],
    created_at: '',
    ...more,
  };
}

async function openStore(t: HasTeardown): Promise<Store> {
  const store = await openEmbeddedStore({ dir: tempDir(t), fsync: 'off', clock: fakeClock(), log: silentLogger });
  t.teardown(() => store.close());
  return store;
}

async function open(store: Store) {
  const clock = fakeClock(Date.UTC(2026, 10, 18));
  const alerts: BudgetAlert[] = [];
  const events = new EventBus(silentLogger);
  events.subscribe(['budgetAlert'], (alert) => alerts.push(alert));
  const budgets = await BudgetService.open({ store, clock, events });
  return { budgets, clock, said: () => alerts.splice(0).map(({ level, spentUsd }) => `${level} ${spentUsd}`) };
}

type Answer = Reservation | CapExceeded;

function reserved(answer: Answer): Reservation {
  if (isExceeded(answer)) throw new Error('refused');
  return answer;
}

t.test('an alert is raised by the records that are stored, whatever others fail', async (t) => {
  const { budgets, clock, said } = await open(await openStore(t));
  await budgets.create(limit('1', { actions: ['alert'] }));
  const count = (amount: string) => budgets.count(SPENDER, usd(amount), clock.now()) as Counted;
  const [first, second] = [count('0.4'), count('0.3')];
  t.same(said(), [], 'nothing is said before a record is stored');
  budgets.uncount(first);
  budgets.stored(second);
  t.same(said(), [], 'what could not be stored reaches no threshold');
  const third = count('0.2');
  const fourth = count('0.9');
  budgets.stored(third);
  t.same(said(), ['warning 0.5'], 'nor does what is not stored yet');
  budgets.uncount(fourth);
  budgets.stored(count('0.1'));
  t.same(said(), [], 'once per level');
  budgets.stored(count('0.4'));
  t.same(said(), ['exceeded 1'], 'a level that is passed over is not said');
});

t.test('what a process did not come to say is said by the next, once', async (t) => {
  const store = await openStore(t);
  const before = await open(store);
  await before.budgets.create(limit('1', { actions: ['alert'] }));
  const key = rollUpKey({ day: '2026-11-18', org: 'o', workload: 'w', connector: 'openai', model: '', decision: 'allow' });
  await store.commit(undefined, [{ op: 'add', space: USAGE_DAY, key, amounts: { cost_pico: usd('0.6') } }]);
  const after = await open(store);
  after.budgets.raiseMissed();
  t.same(after.said(), ['warning 0.6']);
  const again = await open(store);
  again.budgets.raiseMissed();
  t.same(again.said(), []);
  again.clock.advance(31 * 86_400_000);
  again.budgets.stored(again.budgets.count(SPENDER, usd('0.8'), again.clock.now()) as Counted);
  t.same(again.said(), ['critical 0.8'], 'a new month begins anew');
});

t.test('of many limits the one that is reached first holds, in each period and scope, also when it is removed', async (t) => {
  const { budgets } = await open(await openStore(t));
  for (let at = 0; at < 30; at++) await budgets.create(limit(String(100 + at), { scope: 'project', scope_id: 'p' }));
  const small = limit('5', { scope: 'project', scope_id: 'p' });
  const daily = limit('7', { scope: 'workload', scope_id: 'w', period: 'daily' });
  for (const one of [small, limit('1', { actions: ['alert'] }), limit('1', { actions: [] }), daily]) await budgets.create(one);
  const ask = (amount: string) => {
    const answer = budgets.reserve(SPENDER, usd(amount), undefined);
    if (isExceeded(answer)) return answer.kind === 'limit' ? answer.limit : answer;
    budgets.release(answer);
    return undefined;
  };
  t.equal(ask('5'), undefined);
  t.same(ask('5.01'), small);
  await budgets.remove(small.limit_id);
  t.equal(ask('7'), undefined);
  t.same(ask('7.01'), daily);
  await budgets.remove(daily.limit_id);
  t.equal(ask('100'), undefined);
  t.match(ask('101'), { limit_usd: exactly('100') });
});

t.test('a stream that costs more than was estimated sets more aside, and stops where a cap would be passed', async (t) => {
  const { budgets, clock } = await open(await openStore(t));
  await budgets.create(limit('1'));
  const [first, second] = [budgets.reserve(SPENDER, usd('0.2'), usd('0.9')), budgets.reserve(SPENDER, usd('0.2'), undefined)].map(reserved);
  if (!first || !second) throw new Error('refused');
  t.equal(budgets.grow(second, usd('0.1')), undefined);
  t.match(budgets.list(), [{ reservedUsd: exactly('0.4') }], 'what costs less than was set aside changes nothing');
  t.equal(budgets.grow(second, usd('0.6')), undefined);
  t.match(budgets.list(), [{ reservedUsd: exactly('0.8') }]);
  t.equal(budgets.grow(first, usd('0.3')), undefined, 'the cap of the month: 0.3 beside 0.6');
  t.match(budgets.grow(first, usd('0.31')), { limit: undefined, capUsd: exactly('0.9'), reservedUsd: exactly('0.6') });
  t.match(budgets.list(), [{ reservedUsd: exactly('0.9') }], 'a stream that is stopped keeps what it had');
  t.match(budgets.grow(second, usd('0.71')), { limit: { limit_usd: exactly('1') }, spentUsd: exactly('0'), reservedUsd: exactly('0.3') });
  budgets.release(second);
  budgets.stored(budgets.count(SPENDER, usd('0.9'), clock.now()) as Counted);
  t.ok(budgets.grow(first, usd('0.11')), 'what others have spent counts, also within the reservation');
  budgets.release(first);
  t.match(budgets.list(), [{ spentUsd: exactly('0.9'), reservedUsd: exactly('0') }]);
});

t.test('a clock that is set ahead and back again loses nothing that was spent', async (t) => {
  const { budgets, clock } = await open(await openStore(t));
  await budgets.create(limit('1'));
  const today = clock.now();
  const spend = (text: string) => budgets.stored(budgets.count(SPENDER, usd(text), clock.now()) as Counted);
  spend('0.4');
  clock.set(Date.UTC(2027, 5, 1));
  spend('0.2');
  t.match(budgets.list(), [{ spentUsd: exactly('0.2'), periodStart: '2027-06-01' }]);
  clock.set(today);
  t.match(budgets.list(), [{ spentUsd: exactly('0.4'), periodStart: '2026-11-01' }]);
  for (let day = 1; day <= 400; day++) {
    clock.set(today + day * 86_400_000);
    spend('0.001');
  }
  t.match(budgets.list(), [{ spentUsd: exactly('0.023'), periodStart: '2027-12-01' }], '23 December, after more days than are remembered');
});

t.test('projects that callers merely name are forgotten, those of money, of an open call or of a limit are not', async (t) => {
  const now = Date.UTC(2026, 10, 18);
  const book = await SpendBook.open(await openStore(t), now);
  const project = (id: string) => book.scope('o', 'project', id);
  const ids = ['spent', 'unstored', 'called', 'limited', 'named'];
  const before = ids.map(project);
  for (const scope of book.of({ ...SPENDER, projectId: 'spent' })) scope.add(hourOf(now), 1n);
  project('unstored').unstored = 1n;
  project('called').open = 1;
  project('limited').limits.hold({ limit: limit('1'), capPico: usd('1'), alerted: undefined });
  for (let at = 0; at < 10_000; at++) project(`made up ${at}`);
  t.same(
    ids.map((id, at) => project(id) === before[at]),
    [true, true, true, true, false],
  );
  const org = (id: string) => book.scope(id, 'org', '');
  book.scope('limited', 'project', 'p').limits.hold({ limit: limit('1'), capPico: usd('1'), alerted: undefined });
  const orgs = ['o', 'limited', 'named'];
  const made = orgs.map(org);
  for (let at = 0; at < 10_000; at++) org(`made up ${at}`);
  t.same(
    orgs.map((id, at) => org(id) === made[at]),
    [true, true, false],
    'and so it is with orgs',
  );
  const { budgets } = await open(await openStore(t));
  const call = reserved(budgets.reserve(SPENDER, 0n, undefined));
  t.equal(call.project.open, 1, 'also a call that costs nothing');
  budgets.release(call);
  t.equal(call.project.open, 0);
  budgets.restore(call);
  t.equal(call.project.open, 1);
});

// Holds: overrides-end
t.test('an override takes the place of a limit until its end, which no timer has to be in time for, and over a restart', async (t) => {
  const store = await openStore(t);
  const { budgets, clock } = await open(store);
  const one = limit('1');
  await budgets.create(one);
  const ask = (service: BudgetService, amount: string) => !isExceeded(service.reserve(SPENDER, usd(amount), undefined));
  const until = clock.now() + 60_000;
  t.notOk(ask(budgets, '1.5'));
  t.match(await budgets.override(one.limit_id, 'o', { limitUsd: '2', until, reason: 'launch' }), {
    limit: { limit_usd: exactly('1') },
    effectiveUsd: exactly('2'),
    override: { limit_usd: exactly('2'), until: new Date(until).toISOString(), reason: 'launch' },
  });
  t.ok(ask(budgets, '1.5'), 'raised');
  const again = await open(store);
  t.ok(ask(again.budgets, '1.5'), 'also after a restart');
  await budgets.override(one.limit_id, 'o', { limitUsd: '0.5', until }, undefined);
  t.notOk(ask(again.budgets, '0.6'), 'lowered, at the other node, too');
  again.clock.advance(60_000 - 1);
  t.notOk(ask(again.budgets, '0.6'), 'to the last millisecond');
  again.clock.advance(1);
  t.match(again.budgets.list('o'), [{ effectiveUsd: '1', override: undefined }], 'then it is as before');
  const late = await open(store);
  late.clock.advance(60_000);
  t.match(late.budgets.list(), [{ effectiveUsd: '1', override: undefined }], 'and for one who starts later');
  t.notOk(await late.budgets.endOverride(one.limit_id, 'o'), 'what has ended cannot be ended');
  await budgets.override(one.limit_id, 'o', { limitUsd: '3', until });
  t.equal(await budgets.override(one.limit_id, 'other', { limitUsd: '9', until }), undefined, 'of another org');
  t.notOk(await budgets.endOverride(one.limit_id, 'other'));
  t.ok(await budgets.endOverride(one.limit_id, 'o'));
  t.match(budgets.get(one.limit_id), { effectiveUsd: '1', override: undefined });
  await budgets.override(one.limit_id, undefined, { limitUsd: '3', until });
  t.notOk(await budgets.remove(one.limit_id, undefined, 'other'));
  t.ok(await budgets.remove(one.limit_id, undefined, 'o'));
  t.equal(await store.get('budget_override', one.limit_id), undefined, 'it goes with its limit');
});

t.test('thresholds follow an override: each is said once of each amount', async (t) => {
  const store = await openStore(t);
  const { budgets, clock, said } = await open(store);
  const one = limit('1', { actions: ['alert'] });
  await budgets.create(one);
  const spend = (service: BudgetService, amount: string) => service.stored(service.count(SPENDER, usd(amount), clock.now()) as Counted);
  spend(budgets, '0.9');
  t.same(said(), ['critical 0.9']);
  await budgets.override(one.limit_id, 'o', { limitUsd: '4', until: clock.now() + 60_000 });
  spend(budgets, '0.2');
  t.same(said(), [], 'far from the raised limit');
  spend(budgets, '0.9');
  t.same(said(), ['warning 2']);
  spend(budgets, '0.1');
  t.same(said(), [], 'once');
  clock.advance(60_000);
  spend(budgets, '0.1');
  t.same(said(), ['exceeded 2.2'], 'the limit itself is passed when it holds again');
  spend(budgets, '0.1');
  t.same(said(), []);
});

t.test('the budget of a delegation, and the cap that a rule sets, say that they refuse once, as no limit of the org does', async (t) => {
  const { budgets, clock, said } = await open(await openStore(t));
  const delegated = { ...SPENDER, delegations: [{ delegationId: 'd', capUsd: '2' }] };
  await budgets.load(delegated);
  for (let at = 0; at < 2; at += 1) t.match(budgets.reserve(delegated, usd('3'), undefined), { kind: 'delegation' });
  t.same(said(), ['exceeded 0']);
  for (let at = 0; at < 2; at += 1) t.match(budgets.look(SPENDER, usd('3'), usd('1')), { kind: 'month' });
  t.same(said(), ['exceeded 0'], 'also where it is only looked at, since that refuses the call');
  t.match(budgets.reserve({ ...SPENDER, projectId: 'q' }, usd('3'), usd('1')), { kind: 'month' });
  t.same(said(), ['exceeded 0'], 'of another project');
  clock.advance(31 * 86_400_000);
  t.match(budgets.reserve(SPENDER, usd('3'), usd('1')), { kind: 'month' });
  t.match(budgets.reserve(delegated, usd('3'), undefined), { kind: 'delegation' });
  t.same(said(), ['exceeded 0'], 'a delegation has one period, its life');
});

t.test('that a limit refuses is said once, also where two nodes find it at the same moment', async (t) => {
  const store = await openStore(t);
  const nodes = [await open(store), await open(store)];
  const one = limit('1');
  await nodes[0]?.budgets.create(one);
  const refused = () => nodes.map(({ budgets }) => budgets.look(SPENDER, usd('2'), undefined));
  const said = async (): Promise<number> => {
    // Commits are made in their order: what the nodes have begun is visible behind these.
    for (let at = 0; at < 3; at += 1) await store.commit(undefined, [{ op: 'put', space: 'turn', key: 'turn', value: at }]);
    return nodes.flatMap((node) => node.said()).length;
  };
  t.match(refused(), [{ kind: 'limit' }, { kind: 'limit' }]);
  t.equal(await said(), 1);
  refused();
  t.equal(await said(), 0, 'nor again by the one that was second');
  for (const { clock } of nodes) clock.advance(31 * 86_400_000);
  refused();
  t.equal(await said(), 1, 'in the next month it is news');
  t.match(await store.get('budget_refused', one.limit_id), { level: 'exceeded' });
});
