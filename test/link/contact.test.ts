// How it stands with the control plane: what is noted of it, how long a loss of contact has lasted whatever is done to
// clocks and processes, and when the next check-in is due.
import { join } from 'node:path';
import t from 'tap';
import type { OrgState } from '../../src/control-plane/proto/messages.ts';
import { ProtocolError } from '../../src/control-plane/proto/protocol-error.ts';
import { CheckIns } from '../../src/link/check-ins.ts';
import { ContactBook } from '../../src/link/contact-book.ts';
import type { Channel, RemoteResource } from '../../src/link/link-ports.ts';
import { RemoteFetches } from '../../src/link/remote-fetches.ts';
import { OrgService } from '../../src/services/people/orgs.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';
import { type FakeClock, fakeClock } from '../support/fake-clock.ts';
import { heardLog } from '../support/heard-log.ts';
import { comes, orgSaid, staleOf } from '../support/org-said.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** A store on which contact books are opened one after the other, as processes are. */
async function place(t: HasTeardown) {
  const dir = join(tempDir(t), 'store');
  const clock = fakeClock();
  const { log, lines } = heardLog();
  const store = await openEmbeddedStore({ dir, fsync: 'off', clock, log });
  const orgs = await OrgService.open(store, true);
  t.teardown(() => store.close());
  let believed = true;
  const open = async () => await ContactBook.open({ store, clock, log, orgs, orgId: 'acme', mayBelieveClock: () => believed });
  return {
    clock,
    log,
    lines,
    orgs,
    open,
    disbelieve: () => {
      believed = false;
    },
  };
}

t.test('past the grace period an org is as its policy says, to the millisecond, and one that is not known is permissive', async (t) => {
  for (const [policy, posture] of [
    ['permissive', 'permissive'],
    ['strict', 'strict'],
    ['of-a-later-version', 'permissive'],
  ] as const) {
    const { clock, open } = await place(t);
    const book = await open();
    await book.heard(orgSaid({ cp_down_policy: policy, grace_seconds: 600 }));
    t.match([book.status, book.posture, book.offlineMs, book.offlineSince], ['connected', 'normal', 0, undefined]);
    clock.advance(HOUR_MS);
    await book.failed('nobody answers', false);
    const since = clock.now();
    clock.advance(599_999);
    await book.failed('nobody answers', false);
    t.match([book.status, book.posture, book.offlineSince], ['offline', 'normal', since], policy);
    clock.advance(1);
    t.equal(book.posture, posture);
    await book.heard(null);
    t.match([book.status, book.posture, book.offlineMs], ['connected', 'normal', 0], 'any answer ends it');
    await book.close();
  }
});

t.test('who was never told of an org goes on, however long nobody answers', async (t) => {
  const { clock, open, orgs } = await place(t);
  const book = await open();
  await book.failed('nobody answers', false);
  clock.advance(1_000 * HOUR_MS);
  t.match([book.status, book.posture], ['offline', 'normal']);
  t.ok(orgs.isActive('acme'));
  await book.close();
});

t.test('a time of day that is set changes nothing of how long it has lasted', async (t) => {
  const { clock, open } = await place(t);
  const book = await open();
  await book.heard(orgSaid({ cp_down_policy: 'strict', grace_seconds: 600 }));
  await book.failed('nobody answers', false);
  clock.set(clock.now() + 100 * HOUR_MS);
  t.equal(book.posture, 'normal');
  clock.set(clock.now() - 1_000 * HOUR_MS);
  clock.advance(599_999);
  t.equal(book.posture, 'normal');
  clock.advance(1);
  t.equal(book.posture, 'strict');
  await book.close();
});

t.test('a restart within grace goes on counting, with the time in which nothing ran where the clock is to be believed', async (t) => {
  const { clock, open, disbelieve } = await place(t);
  const first = await open();
  await first.heard(orgSaid({ cp_down_policy: 'strict', grace_seconds: 600, stale: staleOf('policy') }));
  await first.failed('nobody answers', false);
  const since = clock.now();
  clock.advance(200_000);
  await first.close();
  clock.advance(100_000);
  const second = await open();
  t.match([second.offlineMs, second.offlineSince, second.posture], [300_000, since, 'normal']);
  t.match(second.org, { status: 'active', cp_down_policy: 'strict', stale: null }, 'what was said of the org is still known');
  clock.advance(100_000);
  await second.close();
  clock.set(clock.now() - 5 * HOUR_MS);
  const third = await open();
  t.equal(third.offlineMs, 400_000, 'a clock that went back takes nothing away');
  await third.close();
  disbelieve();
  clock.set(clock.now() + 500 * HOUR_MS);
  const fourth = await open();
  t.equal(fourth.offlineMs, 400_000, 'one that is not to be believed adds nothing');
  clock.advance(200_000);
  t.equal(fourth.posture, 'strict');
  await fourth.close();
});

t.test('a process that is killed has lost a minute of it at most', async (t) => {
  const { clock, open } = await place(t);
  const killed = await open();
  await killed.heard(orgSaid());
  await killed.failed('nobody answers', false);
  const timers = clock.pending;
  clock.advance(MINUTE_MS);
  await comes('the note', () => clock.pending === timers);
  clock.advance(30_000);
  const next = await open();
  t.equal(next.offlineMs, MINUTE_MS + 30_000);
  await next.close();
  await killed.close();
});

t.test('an org state that this version does not know is a suspension, and counts over a restart', async (t) => {
  const { open, orgs } = await place(t);
  const book = await open();
  for (const [said, active] of [
    ['active', true],
    ['frozen', false],
    ['active', true],
    ['', false],
    ['suspended', false],
    ['terminated', false],
  ] as const) {
    await book.heard(orgSaid({ status: said, suspended_reason: 'unpaid' }));
    t.equal(orgs.isActive('acme'), active, JSON.stringify(said));
  }
  t.match(orgs.status('acme'), { status: 'terminated' });
  await book.close();
  const again = await open();
  t.equal(again.org?.status, 'terminated');
  await again.close();
});

t.test('a revocation is told and noted once, and ends with the next answer', async (t) => {
  const { open, lines } = await place(t);
  const book = await open();
  await book.failed('nobody answers', false);
  await book.failed('revoked', true);
  await book.failed('revoked', true);
  t.match(lines, [
    'warn: no contact with the control plane: going on from what was last fetched | nobody answers',
    /^error: the control plane has revoked the certificate of this node: .* Enrol it anew \| revoked$/,
  ]);
  await book.close();
  const again = await open();
  t.match([again.revoked, again.status], [true, 'offline']);
  await again.heard(orgSaid());
  t.match([again.revoked, again.status], [false, 'connected']);
  await again.close();
  const third = await open();
  t.match([third.revoked, third.status], [false, 'connected']);
  await third.close();
});

/** Check-ins on a channel that answers when the test says. */
function checking(t: HasTeardown, { idleMs = 60_000, start = fakeClock() }: { readonly idleMs?: number; readonly start?: FakeClock } = {}) {
  const clock = start;
  const { log } = heardLog();
  const steps: string[] = [];
  const asked: { answer(org?: OrgState): void; fail(error: Error): void }[] = [];
  let turn = 0;
  let carriedAt = clock.monotonic();
  const policy: RemoteResource & { wrong: boolean } = {
    name: 'policy',
    wrong: false,
    version: () => '',
    fetch: () => {
      steps.push('fetch');
      return policy.wrong ? Promise.reject(new Error('it is wrong')) : Promise.resolve();
    },
    erase: () => {
      steps.push('erase');
      return Promise.resolve();
    },
  };
  const fetches = new RemoteFetches([policy], clock, log);
  const call = (name: string): Promise<unknown> => {
    turn += 1;
    const mine = turn;
    carriedAt = clock.monotonic();
    steps.push(name);
    return new Promise((resolve, reject) => {
      asked.push({
        answer: (org = orgSaid()) => {
          carriedAt = clock.monotonic();
          fetches.heed(org.stale, mine);
          resolve({ org, node_id: 'node-1', at: '' });
        },
        fail: reject,
      });
    });
  };
  const channel = {
    // One that answers whatever is asked the same way is none of each call's own type.
    call: call as Channel['call'],
    // biome-ignore lint/correctness/useYield: nobody listens
    async *updates() {
      throw new Error('nobody listens');
    },
    get nextTurn() {
      return turn + 1;
    },
    get carriedAt() {
      return carriedAt;
    },
  };
  const failures: string[] = [];
  const contact = {
    failed: (reason: string, revoked: boolean) => {
      failures.push(`${reason}${revoked ? ' (revoked)' : ''}`);
      return Promise.resolve();
    },
  };
  const checkIns = new CheckIns({ channel, contact, fetches, clock, log, idleMs });
  t.teardown(async () => {
    const closed = checkIns.close();
    for (const one of asked) one.fail(new ProtocolError('UNAVAILABLE', 'the test is over'));
    await closed;
  });
  return {
    clock,
    steps,
    asked,
    policy,
    failures,
    checkIns,
    carries: () => {
      carriedAt = clock.monotonic();
    },
    nth: async (count: number) => {
      await comes(`check-in ${count}`, () => asked.length >= count);
      const one = asked[count - 1];
      if (one === undefined) throw new Error('there is none');
      return one;
    },
    /** When what follows an answer is over: the next one is planned. */
    planned: () => comes('a plan', () => clock.pending > 0),
  };
}

t.test('a channel that was silent for the threshold is used; below 30 seconds it counts as 30', async (t) => {
  for (const [idleMs, counted] of [
    [1_000, 30_000],
    [29_999, 30_000],
    [45_000, 45_000],
  ] as const) {
    const one = checking(t, { idleMs });
    void one.checkIns.start();
    (await one.nth(1)).answer();
    await one.planned();
    one.clock.advance(counted - 1);
    t.equal(one.asked.length, 1, `${idleMs} ms`);
    one.carries();
    one.clock.advance(counted - 1);
    t.equal(one.asked.length, 1, 'what else it carries counts');
    one.clock.advance(1);
    await one.nth(2);
  }
});

t.test('check-ins come one at a time, and callers give rise to one a second', async (t) => {
  const one = checking(t);
  void one.checkIns.start();
  const first = await one.nth(1);
  for (let i = 0; i < 10; i++) one.checkIns.soon();
  t.equal(one.asked.length, 1);
  first.answer();
  await one.planned();
  for (let i = 0; i < 10; i++) one.checkIns.soon();
  one.clock.advance(999);
  t.equal(one.asked.length, 1);
  one.clock.advance(1);
  (await one.nth(2)).answer();
  await one.planned();
  one.clock.advance(1_000);
  one.checkIns.soon();
  await one.nth(3);
  t.same(one.checkIns.counts, { ok: 2, failed: 0, refused: 0 });
});

t.test('after each round of fetching there is another check-in, and what fails is tried again before the channel is idle', async (t) => {
  const one = checking(t);
  void one.checkIns.start();
  (await one.nth(1)).answer(orgSaid({ stale: staleOf('policy') }));
  one.policy.wrong = true;
  (await one.nth(2)).answer(orgSaid({ stale: staleOf('policy') }));
  await one.planned();
  t.same(one.steps, ['CheckIn', 'fetch', 'CheckIn']);
  one.policy.wrong = false;
  one.clock.advance(1_000);
  (await one.nth(3)).answer();
  await one.planned();
  t.same(one.steps, ['CheckIn', 'fetch', 'CheckIn', 'fetch', 'CheckIn'], 'a second later');
});

t.test('while nobody answers the pauses grow to 15 seconds, up to a fifth less, and nothing is erased', async (t) => {
  const one = checking(t);
  void one.checkIns.start();
  let count = 1;
  for (const most of [1_000, 2_000, 4_000, 8_000, 15_000, 15_000]) {
    (await one.nth(count)).fail(new ProtocolError('UNAVAILABLE', 'nobody answers'));
    await one.planned();
    one.clock.advance(most * 0.8 - 1);
    t.equal(one.asked.length, count, `${most}: not before`);
    one.clock.advance(most * 0.2 + 1);
    count += 1;
  }
  (await one.nth(count)).answer();
  await one.planned();
  t.notOk(one.steps.includes('erase'));
  one.clock.advance(15_000);
  t.equal(one.asked.length, count, 'an answer ends it');
  t.same(one.checkIns.counts, { ok: 1, failed: 6, refused: 0 });
  t.same(new Set(one.failures), new Set(['nobody answers']));
});

t.test('a node that is told that it was revoked erases what it was given, and goes on asking', async (t) => {
  const one = checking(t);
  void one.checkIns.start();
  (await one.nth(1)).fail(new ProtocolError('PERMISSION_DENIED', 'revoked'));
  await one.planned();
  t.same(one.steps, ['CheckIn', 'erase']);
  t.same(one.failures, ['revoked (revoked)']);
  one.clock.advance(1_000);
  (await one.nth(2)).answer(orgSaid({ stale: staleOf('policy') }));
  (await one.nth(3)).answer();
  await one.planned();
  t.same(one.steps, ['CheckIn', 'erase', 'CheckIn', 'fetch', 'CheckIn'], 'what it may have again it fetches');
  t.same(one.checkIns.counts, { ok: 2, failed: 0, refused: 1 });
});

t.test('after the end nothing is asked any more', async (t) => {
  const one = checking(t);
  void one.checkIns.start();
  (await one.nth(1)).answer();
  await one.planned();
  one.checkIns.soon();
  await one.checkIns.close();
  one.checkIns.soon();
  t.equal(one.clock.pending, 0);
  one.clock.advance(HOUR_MS);
  t.equal(one.asked.length, 1);
});
