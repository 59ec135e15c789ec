// Whom entries hold, when they are stored and released, on a real store; with another writer, and a bound that never
// lets anybody through.
import t from 'tap';
import { EventBus } from '../../../src/base/events/bus.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import type { ExecutionRecord } from '../../../src/base/model/execution-record.ts';
import type { QuarantineEntry } from '../../../src/base/model/quarantine-entry.ts';
import { type MadeEntry, type QuarantineCaller, QuarantineService } from '../../../src/services/review/quarantines.ts';
import { RunningCalls } from '../../../src/services/review/running-calls.ts';
import { Outbox } from '../../../src/services/sending/outbox.ts';
import type { Store } from '../../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { type HasTeardown, tempDir } from '../../support/temp-dir.ts';

const TOLD = { reason: 'suspicious', reason_codes: ['odd'] };
const by = (name: string) => ({ kind: 'management_key', id: name, name, scopes: ['decide'] }) as const;
const ALICE: QuarantineCaller = { orgId: 'acme', workloadId: 'ci', callerId: 'alice', callerIp: '192.0.2.1' };
const NOBODY = { ...ALICE, callerId: undefined };

async function open(t: HasTeardown) {
  const clock = fakeClock();
  const store = await openEmbeddedStore({ dir: tempDir(t), fsync: 'off', clock, log: silentLogger });
  t.teardown(() => store.close());
  const events = new EventBus(silentLogger);
  const told: QuarantineEntry[] = [];
  events.subscribe(['quarantine'], (entry) => void told.push(entry));
  const outbox = await Outbox.open({
    store,
    clock,
    log: silentLogger,
    writer: 'node',
    destinations: [{ id: 'siem', deliver: () => Promise.resolve() }],
  });
  const known = { org: (id: string) => id === 'acme', workload: (_org: string, id: string) => id === 'ci' };
  const options = { store, clock, log: silentLogger, events, outbox, known };
  return { ...options, told, options, quarantines: await QuarantineService.open(options) };
}

function recordOf({ orgId, workloadId, callerId, callerIp }: QuarantineCaller): ExecutionRecord {
  return {
    record_id: 'r-1',
    org_id: orgId,
    workload_id: workloadId,
    ...(callerId === undefined ? {} : { caller_id: callerId }),
    caller_ip: callerIp,
    action_type: 'ai.infer',
  } as ExecutionRecord;
}

async function keep(store: Store, made: MadeEntry | undefined, caller: QuarantineCaller): Promise<void> {
  await store.commit(undefined, made?.effects(recordOf(caller)) ?? []);
  made?.stored();
}

// Holds: quarantine-holds-at-once
t.test('whom policy puts aside is held at once, by his name where he has one, else by his address, and nobody else is', async (t) => {
  const { quarantines, store, told } = await open(t);
  t.equal(quarantines.active, 0);
  const made = quarantines.hold(ALICE, TOLD);
  t.match(quarantines.holding(ALICE), TOLD, 'before anything is stored');
  t.equal(quarantines.hold(ALICE, TOLD), undefined, 'one entry, not fifty');
  t.match(quarantines.holding({ ...ALICE, callerIp: '192.0.2.9' }), TOLD, 'wherever he calls from');
  for (const other of [{ callerId: 'bob' }, { callerId: undefined }, { callerId: 'ip 192.0.2.1' }, { orgId: 'b' }, { workloadId: 'b' }])
    t.equal(quarantines.holding({ ...ALICE, ...other }), undefined, JSON.stringify(other));
  await keep(store, made, ALICE);
  await keep(store, quarantines.hold(NOBODY, TOLD), NOBODY);
  t.ok(quarantines.holding(NOBODY));
  t.equal(quarantines.holding({ ...NOBODY, callerIp: '192.0.2.2' }), undefined);
  t.match(told, [
    {
      caller_id: 'alice',
      caller_ip: '192.0.2.1',
      org_id: 'acme',
      reason: 'suspicious',
      record_id: 'r-1',
      risk_score: 0,
      released_at: null,
      released_by: null,
    },
    { caller_id: undefined, caller_ip: '192.0.2.1' },
  ]);
});

t.test('an entry whose record was not stored, or that has none, holds nobody', async (t) => {
  const { quarantines, outbox } = await open(t);
  for (const end of ['failed', 'abandoned'] as const) {
    const made = quarantines.hold(ALICE, TOLD);
    if (end === 'failed') made?.effects(recordOf(ALICE));
    made?.[end]();
    t.equal(quarantines.holding(ALICE), undefined, end);
    t.equal(outbox.waiting, 0, 'and nothing is told');
  }
  t.same((await quarantines.page({}, { after: undefined, limit: 5 })).items, []);
});

t.test(
  'what is stored holds after a restart and at every writer, until one of them releases it; the second is told who was first',
  async (t) => {
    const { quarantines, store, options, outbox, clock } = await open(t);
    const other = await QuarantineService.open(options);
    await keep(store, quarantines.hold(ALICE, TOLD), ALICE);
    t.match([other.holding(ALICE), (await QuarantineService.open(options)).holding(ALICE)], [TOLD, TOLD]);
    t.equal(outbox.waiting, 1);
    const [entry] = (await other.page({}, { after: undefined, limit: 5 })).items;
    const id = entry?.quarantine_id ?? '';
    t.equal(await other.release(id, { principal: { ...by('olga'), orgId: 'another org' } }), undefined);
    clock.advance(1_000);
    t.match(await other.release(id, { principal: by('olga') }), { released_by: 'olga', released_at: new Date(clock.now()).toISOString() });
    t.same([quarantines.active, other.active], [0, 0]);
    await t.rejects(quarantines.release(id, { principal: by('otto') }), {
      code: 'conflict',
      message: /released by olga \(management key \w+\) at 2026-/,
    });
    t.equal(await quarantines.release('01a2085a-6136-77c0-b595-5e9e88edb0d8', { principal: by('otto') }), undefined);
    t.equal(outbox.waiting, 2);
    t.equal((await QuarantineService.open(options)).active, 0);
    t.ok(quarantines.hold(ALICE, TOLD), 'and policy may put him aside again');
  },
);

t.test('of two who release at the same moment one is told of a conflict', async (t) => {
  const { quarantines, store, options } = await open(t);
  const other = await QuarantineService.open(options);
  await keep(store, quarantines.hold(ALICE, TOLD), ALICE);
  const [entry] = (await other.page({}, { after: undefined, limit: 5 })).items;
  const id = entry?.quarantine_id ?? '';
  const both = await Promise.allSettled([quarantines.release(id, { principal: by('olga') }), other.release(id, { principal: by('otto') })]);
  t.same(both.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
  t.match(
    both.find(({ status }) => status === 'rejected'),
    { reason: { code: 'conflict' } },
  );
});

t.test('pages hold what their filters ask for, the newest first; released entries go after their time, active ones never', async (t) => {
  const { quarantines, store, clock } = await open(t);
  for (let at = 0; at < 30; at += 1) {
    const caller = { ...ALICE, callerId: `c${at}`, orgId: at % 2 === 0 ? 'acme' : 'b' };
    await keep(store, quarantines.hold(caller, TOLD), caller);
    clock.advance(1);
  }
  const first = await quarantines.page({ orgId: 'b' }, { after: undefined, limit: 10 });
  t.same(first.items.map(({ caller_id: name }) => name).slice(0, 3), ['c29', 'c27', 'c25']);
  const second = await quarantines.page({ orgId: 'b' }, { after: first.next, limit: 10 });
  t.same([second.items.length, second.next], [5, undefined]);
  const released = first.items[0]?.quarantine_id ?? '';
  await quarantines.release(released, { principal: by('olga') });
  t.same(
    (await quarantines.page({ active: false }, { after: undefined, limit: 10 })).items.map(({ quarantine_id: id }) => id),
    [released],
  );
  t.equal((await quarantines.page({ active: true, workloadId: 'ci' }, { after: undefined, limit: 500 })).items.length, 29);
  t.equal(await quarantines.removeBefore(clock.now()), 0);
  clock.advance(1_000);
  t.equal(await quarantines.removeBefore(clock.now()), 1);
  t.equal((await quarantines.page({}, { after: undefined, limit: 500 })).items.length, 29);
});

// Holds: quarantine-holds-at-once
t.test(
  'when too many callers of a workload are held one by one, the workload is held as a whole, until that one is released',
  async (t) => {
    const { quarantines, store } = await open(t);
    for (let at = 0; at < 1_000; at += 1) {
      const caller = { ...ALICE, callerId: `c${at}` };
      const made = quarantines.hold(caller, TOLD);
      if (at < 3) await keep(store, made, caller);
    }
    t.equal(quarantines.holding(ALICE), undefined);
    const last = { ...ALICE, callerId: 'one more' };
    await keep(store, quarantines.hold(last, TOLD), last);
    t.ok(quarantines.holding(ALICE));
    t.equal(quarantines.hold(ALICE, TOLD), undefined, 'and nothing more is kept');
    t.equal(quarantines.holding({ ...ALICE, workloadId: 'other' }), undefined);
    const [all] = (await quarantines.page({}, { after: undefined, limit: 1 })).items;
    t.notOk(all?.caller_id);
    t.notOk(all?.caller_ip);
    await quarantines.release(all?.quarantine_id ?? '', { principal: by('olga') });
    t.equal(quarantines.holding(ALICE), undefined);
  },
);

t.test('calls under way are ended when their caller is held, once, and only where that is wanted', async (t) => {
  const { quarantines, events } = await open(t);
  const ended: string[] = [];
  const options = { quarantines, stops: { any: false, holding: () => undefined }, events };
  const running = new RunningCalls({ ...options, endsHeld: true });
  const call = { ...ALICE, place: undefined };
  running.watch(call, (why) => ended.push(`alice 1: ${why.code}`));
  running.watch(call, () => ended.push('alice 2'))();
  running.watch({ ...call, callerId: 'bob' }, () => ended.push('bob'));
  running.watch({ ...call, callerIp: undefined }, () => ended.push('what passes undecided'));
  new RunningCalls({ ...options, endsHeld: false }).watch(call, () => ended.push('left alone'));
  quarantines.hold(ALICE, TOLD);
  t.same(ended, ['alice 1: quarantined_while_running']);
  running.watch(call, () => ended.push('too late'));
  t.same(ended, ['alice 1: quarantined_while_running', 'too late'], 'what began to be sent meanwhile is ended at once');
  quarantines.hold({ ...ALICE, callerId: 'eve' }, TOLD);
  t.equal(ended.length, 2);
});
