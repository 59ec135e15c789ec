// Approvals on a real store: of two who do the same at once one has done it, whatever the writer; what was kept goes
// with the decision; bounds.
import { randomBytes } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import { EventBus } from '../../../src/base/events/bus.ts';
import { newestFirst } from '../../../src/base/lib/ids.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { SecretBox } from '../../../src/base/lib/secret-box.ts';
import type { Approval } from '../../../src/base/model/approval.ts';
import type { Principal } from '../../../src/base/model/principal.ts';
import { coverOf } from '../../../src/decide/policy/approval-standing.ts';
import { type ApprovalRequest, ApprovalService } from '../../../src/services/review/approvals.ts';
import { Outbox } from '../../../src/services/sending/outbox.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { type HasTeardown, tempDir } from '../../support/temp-dir.ts';

const HOUR_MS = 3_600_000;
const RULE = { id: 'risk/ask', hash: 'h1', reason: undefined };
const OTHER_RULE = { id: 'risk/other', hash: 'h2', reason: undefined };
const ADMIN: Principal = { kind: 'admin', id: 'admin', scopes: ['admin'] };
const OLGA: Principal = { kind: 'management_key', id: 'one', name: 'olga', scopes: ['decide'] };
const OTTO: Principal = { kind: 'management_key', id: 'two', name: 'otto', scopes: ['decide'] };

async function open(t: HasTeardown, keepContent = false) {
  const clock = fakeClock();
  const store = await openEmbeddedStore({ dir: tempDir(t), fsync: 'off', clock, log: silentLogger });
  t.teardown(() => store.close());
  const events = new EventBus(silentLogger);
  const told: string[] = [];
  events.subscribe(['approval'], ({ status }) => void told.push(status));
  const outbox = await Outbox.open({
    store,
    clock,
    log: silentLogger,
    writer: 'n',
    destinations: [{ id: 'siem', deliver: () => Promise.resolve() }],
  });
  const box = new SecretBox([randomBytes(32)]);
  const known = { org: (id: string) => !id.startsWith('made-up'), workload: (_org: string, id: string) => id === 'ci' };
  const options = {
    store,
    clock,
    log: silentLogger,
    events,
    outbox,
    box,
    ttlMs: HOUR_MS,
    rejectForMs: HOUR_MS,
    keepContent,
    known,
    writer: 'w',
  };
  const another = async () => {
    const service = await ApprovalService.open(options);
    t.teardown(() => service.close());
    return service;
  };
  return { clock, store, told, outbox, another, approvals: await another() };
}

function asked(hash: string, more: Partial<ApprovalRequest> = {}): ApprovalRequest {
  return {
    org_id: 'acme',
    workload_id: 'ci',
    reason: 'ask first',
    reason_codes: [],
    rules: [RULE],
    connection_type: 'direct_api',
    attribution: {},
    action: { type: 'ai.infer', method: 'POST', target_host: 'h', target_path: '/', stream: false, param_sizes: {} },
    action_hash: hash,
    record_id: 'r',
    content: () => '{"secret":"text"}',
    ...more,
  };
}

async function opened(service: ApprovalService, hash: string, more?: Partial<ApprovalRequest>): Promise<Approval> {
  const answer = await service.ask(asked(hash, more));
  if (answer.kind !== 'opened') throw new Error(answer.kind);
  return answer.approval;
}

const give = (service: ApprovalService, id: string, principal = OLGA) =>
  service.decide(id, { status: 'approved', reason: undefined, principal });

// Holds: approved-once
t.test('two writers that ask for the same at once share one, and of two deciders and of two users one is first', async (t) => {
  const { approvals, another } = await open(t);
  const other = await another();
  const both = await Promise.all([approvals, other].map((service) => service.ask(asked('a'))));
  t.same(both.map(({ kind }) => kind).sort(), ['opened', 'waiting']);
  t.same([approvals.pending, other.pending], [1, 1]);
  const [id = ''] = (await other.page({}, { after: undefined, limit: 5 })).items.map(({ approval_id }) => approval_id);
  const decided = await Promise.allSettled([
    give(approvals, id),
    other.decide(id, { status: 'denied', reason: undefined, principal: OTTO }),
  ]);
  t.same(decided.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
  t.match(
    decided.find(({ status }) => status === 'rejected'),
    { reason: { code: 'conflict', message: /This approval was (approved by olga|denied by otto) \(management key \w+\) at/ } },
  );
  t.same([approvals.pending, other.pending], [0, 0]);

  const second = await opened(approvals, 'b');
  const given = await give(other, second.approval_id);
  if (given === undefined) throw new Error('it is not there');
  t.same((await Promise.all([approvals.claim([given], 'r1'), other.claim([given], 'r2')])).sort(), [false, true]);
  t.same(await approvals.usable('acme', 'b'), [], 'spent');
});

t.test('when the time of one is over at two nodes, one of them says so', async (t) => {
  const { approvals, another, clock, told, outbox, store } = await open(t);
  const other = await another();
  await opened(approvals, 'a');
  clock.advance(HOUR_MS);
  while (approvals.pending + other.pending > 0) await turn();
  // Commits are made in their order: what both have begun is visible behind these.
  for (let at = 0; at < 3; at += 1) await store.commit(undefined, [{ op: 'put', space: 'turn', key: 'turn', value: at }]);
  t.same(told, ['pending', 'expired']);
  t.equal(outbox.waiting, 2);
  t.same(await store.list('approval_pending'), []);
});

t.test('one is good for its org and its action alone', async (t) => {
  const { approvals } = await open(t);
  const { approval_id: id } = await opened(approvals, 'a');
  t.equal(await give(approvals, id, { ...ADMIN, orgId: 'other' }), undefined);
  t.equal(await approvals.show(id, 'other'), undefined);
  t.same(await approvals.usable('acme', 'a'), [], 'it waits');
  await give(approvals, id);
  t.match(await approvals.usable('acme', 'a'), [{ approval_id: id, decided_by: 'olga' }]);
  t.same([await approvals.usable('other', 'a'), await approvals.usable('acme', 'b')], [[], []]);
  t.match(await approvals.ask(asked('a')), { kind: 'approved' }, 'given since it was looked up');
});

t.test('nobody decides what his own key has asked for', async (t) => {
  const { approvals } = await open(t);
  const { approval_id: id } = await opened(approvals, 'a', { api_key_id: 'k' });
  const key: Principal = { kind: 'api_key', id: 'k', orgId: 'acme', scopes: [] };
  await t.rejects(give(approvals, id, key), { code: 'own_request' });
  t.match(await give(approvals, id, { ...key, id: 'other' }), { status: 'approved' });
});

t.test('what was given is given back, and can be used again', async (t) => {
  const { approvals, store } = await open(t);
  const { approval_id: id } = await opened(approvals, 'a');
  const given = await give(approvals, id);
  if (given === undefined) throw new Error('it is not there');
  t.equal(await approvals.claim([given], 'r1'), true);
  const anew = await opened(approvals, 'a');
  await store.commit(undefined, approvals.giveBack([given]));
  t.match(
    await approvals.usable('acme', 'a'),
    [{ approval_id: id, executed_at: undefined }],
    'also where somebody has asked anew meanwhile',
  );
  t.match(await approvals.ask(asked('a')), { kind: 'approved', approval: { approval_id: id } });
  await give(approvals, anew.approval_id);
  t.equal((await approvals.usable('acme', 'a')).length, 2, 'and what was asked anew is not lost');
});

t.test('one is for the rules that ask for it, by id and content; for others it waits beside', async (t) => {
  const { approvals } = await open(t);
  const first = await opened(approvals, 'a');
  t.match(await approvals.ask(asked('a')), { kind: 'waiting', approval: { approval_id: first.approval_id } });
  const second = await opened(approvals, 'a', { rules: [RULE, OTHER_RULE] });
  t.same([second.rule_ids, second.rule_hashes], [['risk/other'], ['h2']], 'what waits for one rule is not asked about twice');
  t.match(await approvals.ask(asked('a', { rules: [OTHER_RULE, RULE] })), { kind: 'waiting' });
  const changed = await opened(approvals, 'a', { rules: [{ ...RULE, hash: 'h3' }] });
  t.same([changed.rule_ids, changed.rule_hashes], [['risk/ask'], ['h3']]);
  await give(approvals, first.approval_id);
  await give(approvals, second.approval_id);
  const both = await approvals.usable('acme', 'a');
  t.same(
    both.map(({ approval_id: id }) => id),
    [second.approval_id, first.approval_id],
  );
  t.equal(await approvals.claim(both, 'r1'), true);
  t.equal(await approvals.claim([first], 'r2'), false, 'one call spends all that it needs');
});

t.test('another project, delegation or place is another request; a denial stands before what was given', async (t) => {
  const { approvals } = await open(t);
  const first = await opened(approvals, 'a');
  const others: readonly Partial<ApprovalRequest>[] = [
    { attribution: { project_id: 'p' } },
    { delegation_id: 'd' },
    { delegation_id: 'd', principal_id: 'olga' },
    { action_hash: 'elsewhere', request_hash: 'a' },
  ];
  for (const other of others) t.not((await opened(approvals, 'a', other)).approval_id, first.approval_id);
  t.match(await approvals.ask(asked('a', others[3])), { kind: 'waiting', approval: { action_hash: 'elsewhere' } });
  await give(approvals, first.approval_id);
  t.equal((await approvals.usable('acme', 'a')).length, 1);
  const beside = await opened(approvals, 'a', { rules: [OTHER_RULE] });
  await approvals.decide(beside.approval_id, { status: 'denied', reason: undefined, principal: OTTO });
  t.same(await approvals.usable('acme', 'a'), []);
  t.match(await approvals.ask(asked('a')), { kind: 'rejected', approval: { decided_by: 'otto' } });
});

t.test('entries from before rules and places were bound load, are shown and decided, and let nothing pass', async (t) => {
  const { approvals, store } = await open(t);
  const { rule_hashes: _, ...old } = await opened(approvals, 'a');
  const { approval_id: id } = old;
  await store.commit(undefined, [
    { op: 'put', space: 'approval', key: newestFirst(id), value: { ...old, status: 'approved' } },
    { op: 'put', space: 'approval_of', key: 'acme|a', value: id },
  ]);
  t.match(await approvals.show(id, 'acme'), { approval_id: id, on_approval: /^allows one identical request until / });
  t.match(await approvals.usable('acme', 'a'), [{ approval_id: id }]);
  t.same(coverOf([RULE], await approvals.usable('acme', 'a')), { by: [], open: [RULE] });
  t.match(await approvals.ask(asked('a')), { kind: 'opened' });
});

t.test('content is sealed at rest, and goes with the decision or the time', async (t) => {
  const { approvals, store, clock, told } = await open(t, true);
  const first = await opened(approvals, 'a');
  const second = await opened(approvals, 'b');
  t.match(await approvals.show(first.approval_id, 'acme'), { params: { secret: 'text' } });
  const kept = async () => JSON.stringify(await store.list('approval_content'));
  t.notMatch(await kept(), 'secret');
  await give(approvals, first.approval_id);
  t.equal((await store.list('approval_content')).length, 1);
  clock.advance(HOUR_MS);
  while (told.at(-1) !== 'expired') await turn();
  t.match(await approvals.show(second.approval_id, 'acme'), { status: 'expired', params: undefined });
  t.same(await store.list('approval_content'), []);
  t.same(told, ['pending', 'pending', 'approved', 'expired']);
});

t.test('each change waits for its destinations; what is old and decided is removed, what waits is not', async (t) => {
  const { approvals, clock, outbox, store } = await open(t);
  const first = await opened(approvals, 'a');
  await give(approvals, first.approval_id);
  t.equal(outbox.waiting, 2);
  clock.advance(10);
  const second = await opened(approvals, 'b');
  clock.advance(10);
  t.equal(await approvals.removeBefore(clock.now()), 1);
  t.match(await approvals.show(second.approval_id, undefined), { status: 'pending' });
  t.same(
    (await store.list('approval_of')).map(({ value }) => value),
    [[second.approval_id]],
    'nothing is left of it',
  );
  t.match(await approvals.ask(asked('a')), { kind: 'opened' }, 'anew');
});
