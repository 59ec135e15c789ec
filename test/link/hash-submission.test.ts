import { join } from 'node:path';
import t from 'tap';
import { EventBus } from '../../src/base/events/bus.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import type { ControlPlaneCalls } from '../../src/control-plane/proto/messages.ts';
import { ProtocolError } from '../../src/control-plane/proto/protocol-error.ts';
import type { CutSpan } from '../../src/ledger/ledger-restore.ts';
import { HashSubmission } from '../../src/link/hash-submission.ts';
import type { ComparedLedger } from '../../src/link/ledger-comparison.ts';
import type { Channel } from '../../src/link/link-ports.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';
import { makeRecord } from '../contract/store-under-test.ts';
import { type FakeClock, fakeClock } from '../support/fake-clock.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';
import { testRecord } from '../support/test-record.ts';

type Sent = ControlPlaneCalls['SubmitHashes']['request']['hashes'];

/** A control plane that takes hashes, or does not. */
class Taker {
  readonly batches: number[] = [];
  readonly taken = new Set<string>();
  down = false;
  most = Number.POSITIVE_INFINITY;
  /** Asks to come again after so many milliseconds. */
  patience: number | undefined;
  underWay = 0;
  mostUnderWay = 0;

  readonly channel: Pick<Channel, 'call'> = {
    call: async (_name: string, request: { hashes: Sent }) => {
      this.underWay++;
      this.mostUnderWay = Math.max(this.mostUnderWay, this.underWay);
      await new Promise((resolve) => setImmediate(resolve));
      this.underWay--;
      this.batches.push(request.hashes.length);
      if (this.down) throw new Error('nobody answers');
      if (this.patience !== undefined) throw new ProtocolError('RESOURCE_EXHAUSTED', 'too many', { retryAfterMs: this.patience });
      const acknowledged = Math.min(this.most, request.hashes.length);
      for (const hash of request.hashes.slice(0, acknowledged)) this.taken.add(Buffer.from(hash).toString('hex'));
      return { org: null, acknowledged, at: '' };
    },
  };
}

async function place(t: HasTeardown, ledger?: Compared) {
  const clock = fakeClock();
  const store = await openEmbeddedStore({ dir: join(tempDir(t), 'store'), fsync: 'off', clock, log: silentLogger });
  const events = new EventBus(silentLogger);
  let submission = await HashSubmission.open({ store, clock, log: silentLogger, events, orgId: 'acme', ...(ledger && { ledger }) });
  t.teardown(async () => {
    await submission.close();
    await store.close();
  });
  let number = 0;
  const record = async (count: number): Promise<string[]> => {
    const made = Array.from({ length: count }, () => ({ ...makeRecord(++number), committed_at: clock.now() }));
    await Promise.all(made.map((one) => store.commit(one, [])));
    for (const _ of made) events.emit('execution', { record: testRecord(), durationMs: 1 });
    return made.map(({ record_hash }) => record_hash);
  };
  const again = async (): Promise<HashSubmission> => {
    await submission.close();
    submission = await HashSubmission.open({ store, clock, log: silentLogger, events, orgId: 'acme', ...(ledger && { ledger }) });
    return submission;
  };
  return { clock, store, record, again, submission };
}

/** A ledger that is compared: what it answers, and what it was shown. */
class Compared {
  readonly shown: string[] = [];
  readonly told: CutSpan[] = [];
  down = false;
  answer: ComparedLedger | undefined = { newest: '', restore: undefined };

  async compare(_channel: unknown, seen: string): Promise<ComparedLedger | undefined> {
    this.shown.push(seen);
    if (this.down) throw new Error('it is behind');
    return this.answer;
  }

  tell(cut: CutSpan): void {
    this.told.push(cut);
  }
}

async function until(clock: FakeClock, what: () => boolean): Promise<void> {
  while (!what()) {
    clock.advance(100);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

t.test('connecting later hands in everything from the first record on, in batches, one at a time', async (t) => {
  const { clock, record, submission } = await place(t);
  const hashes = await record(5_000);
  t.equal(submission.pending, 0, 'nothing queues without a control plane');
  t.equal(submission.lastSubmitAt, undefined);
  const taker = new Taker();
  submission.start(taker.channel);
  await until(clock, () => taker.taken.size === 5_000);
  t.same([...taker.taken], hashes, 'the oldest come first');
  t.same(taker.batches.slice(0, 2), [4_096, 904]);
  hashes.push(...(await record(3)));
  await until(clock, () => taker.taken.size === 5_003 && submission.lastSubmitAt !== undefined && submission.counts.acknowledged === 5003);
  t.equal(taker.mostUnderWay, 1);
  t.equal(submission.pending, 0);
  t.type(submission.lastSubmitAt, 'string');
});

t.test('hashes wait while nobody answers, are counted, and go when there is contact', async (t) => {
  const { clock, record, submission, again } = await place(t);
  const taker = new Taker();
  taker.down = true;
  submission.start(taker.channel);
  await record(7);
  await until(clock, () => submission.pending === 7);
  const tries = taker.batches.length;
  await record(2);
  await until(clock, () => submission.pending === 9);
  t.ok(taker.batches.length <= tries + 1, 'records do not hasten the next try');
  const next = await again();
  taker.down = false;
  next.start(taker.channel);
  await until(clock, () => taker.taken.size === 9 && next.counts.acknowledged === 9);
  const at = next.lastSubmitAt;
  t.equal((await again()).lastSubmitAt, at, 'and a start forgets neither place nor time');
});

t.test('what was acknowledged in part goes on behind it', async (t) => {
  const { clock, record, submission } = await place(t);
  const taker = new Taker();
  taker.most = 4;
  const hashes = await record(10);
  submission.start(taker.channel);
  await until(clock, () => taker.taken.size === 10);
  t.same([...taker.taken], hashes);
  t.same(taker.batches.slice(0, 3), [10, 6, 2]);
});

t.test('a ledger that has forgotten gets everything again', async (t) => {
  const { clock, record, submission } = await place(t);
  const taker = new Taker();
  const hashes = await record(10);
  submission.start(taker.channel);
  await until(clock, () => taker.taken.size === 10 && submission.counts.acknowledged === 10);
  t.equal(await submission.acknowledged(makeRecord(3).record_id), true);
  taker.taken.clear();
  await submission.sendAgain();
  await until(clock, () => taker.taken.size === 10);
  t.same([...taker.taken], hashes);
});

t.test('what waits is counted exactly, whatever comes while it is counted', async (t) => {
  const { clock, record, submission, again } = await place(t);
  const taker = new Taker();
  taker.down = true;
  await record(1_234);
  submission.start(taker.channel);
  // Told of and counted at once.
  await Promise.all([record(300), record(300)]);
  await until(clock, () => submission.pending === 1_834);
  for (let turn = 0; turn < 50; turn++) {
    clock.advance(1_000);
    await new Promise((resolve) => setImmediate(resolve));
    t.equal(submission.pending, 1_834);
  }
  const next = await again();
  next.start(taker.channel);
  await record(6);
  await until(clock, () => next.pending === 1_840);
  taker.most = 1_000;
  taker.down = false;
  next.flush();
  await until(clock, () => next.counts.acknowledged === 1_840);
  taker.down = true;
  await record(2);
  await until(clock, () => next.pending === 2);
});

t.test('a run that begins while the place is set back does not store its own over it', async (t) => {
  const { clock, record, submission, store } = await place(t);
  const taker = new Taker();
  const hashes = await record(10);
  submission.start(taker.channel);
  await until(clock, () => submission.counts.acknowledged === 10);
  taker.taken.clear();
  const commit = store.commit.bind(store);
  let isInside = false;
  t.intercept(store, 'commit', {
    value: async (...given: Parameters<typeof commit>) => {
      if (given[0] !== undefined || isInside) return commit(...given);
      // While it commits there are new records, contact, and all the time that a run would need.
      isInside = true;
      hashes.push(...(await record(5)));
      submission.flush();
      for (let turn = 0; turn < 200; turn++) {
        clock.advance(100);
        await new Promise((resolve) => setImmediate(resolve));
      }
      t.equal(taker.taken.size, 0, 'nothing is sent meanwhile');
      return commit(...given);
    },
  });
  await submission.sendAgain();
  await until(clock, () => taker.taken.size === 15 && submission.counts.acknowledged === 25);
  t.same([...taker.taken], hashes);
  t.equal(submission.pending, 0);
});

t.test('a control plane that says when to come again is asked then, not earlier, and gets every hash', async (t) => {
  const { clock, record, submission } = await place(t);
  const hashes = await record(10);
  const taker = new Taker();
  taker.patience = 7_000;
  submission.start(taker.channel);
  await until(clock, () => taker.batches.length === 1);
  const settled = async () => {
    for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
  };
  await settled();
  t.equal(submission.pending, 10, 'they wait, and it is told');
  clock.advance(6_899);
  await settled();
  t.equal(taker.batches.length, 1);
  clock.advance(101);
  await until(clock, () => taker.batches.length === 2);
  taker.patience = 100_000_000;
  clock.advance(7_000);
  await until(clock, () => taker.batches.length === 3);
  await settled();
  taker.patience = undefined;
  clock.advance(60_000);
  await until(clock, () => taker.taken.size === 10);
  t.same([...taker.taken], hashes, 'nobody is patient for ever, and none is lost');
});

t.test('what was shown of the ledger is shown again before hashes go, and a restore has all of them handed in again, once', async (t) => {
  const ledger = new Compared();
  const { clock, record, submission, again } = await place(t, ledger);
  const taker = new Taker();
  ledger.answer = { newest: 'root 1', restore: undefined };
  submission.start(taker.channel);
  await record(3);
  await until(clock, () => submission.counts.acknowledged === 3);
  t.equal(ledger.shown[0], '', 'nothing was shown yet');
  clock.advance(1_000);
  await record(1);
  await until(clock, () => submission.counts.acknowledged === 4);
  t.equal(ledger.shown.at(-1), 'root 1');

  ledger.down = true;
  clock.advance(1_000);
  await record(2);
  await until(clock, () => submission.pending === 2);
  t.equal(taker.taken.size, 4, 'nothing is handed in to a ledger that is behind');
  const next = await again();
  t.equal(ledger.shown.at(-1), 'root 1', 'it is remembered');
  ledger.down = false;

  const cut: CutSpan = { epoch: 1, from_sequence: 1, sequence: 1_001, at: '2026-01-01T00:00:00.000Z', kid: 'ledger-1' };
  ledger.answer = { newest: 'root 1001', restore: cut };
  taker.taken.clear();
  // Killed when the place was set back, and nothing was handed in yet.
  taker.down = true;
  next.start(taker.channel);
  await until(clock, () => next.cuts.length === 1 && next.pending === 6);
  t.same(ledger.told, [cut]);
  taker.down = false;
  const third = await again();
  third.start(taker.channel);
  await until(clock, () => third.counts.acknowledged === 6);
  t.equal(taker.taken.size, 6);
  t.same(third.cuts, [cut]);
  t.equal(ledger.shown.at(-1), 'root 1001');
  const batches = taker.batches.length;
  const fourth = await again();
  fourth.start(taker.channel);
  clock.advance(1_000);
  await record(1);
  await until(clock, () => fourth.counts.acknowledged === 1);
  t.equal(taker.batches.length, batches + 1, 'and not a third time');
  t.same(ledger.told, [cut]);
});

t.test('a control plane that compares no ledgers, or a comparison that fails while nothing waits, keeps nothing from going', async (t) => {
  const ledger = new Compared();
  const { clock, record, submission } = await place(t, ledger);
  const taker = new Taker();
  ledger.down = true;
  submission.start(taker.channel);
  await until(clock, () => ledger.shown.length === 1);
  ledger.down = false;
  ledger.answer = undefined;
  await record(2);
  await until(clock, () => submission.counts.acknowledged === 2);
  t.equal(submission.pending, 0);
});
