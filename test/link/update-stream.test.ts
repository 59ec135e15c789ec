import t, { type Test } from 'tap';
import { EventBus } from '../../src/base/events/bus.ts';
import { timestamp } from '../../src/base/lib/clock.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import type { Stale, Update, UpdatesRequest } from '../../src/control-plane/proto/messages.ts';
import { ProtocolError } from '../../src/control-plane/proto/protocol-error.ts';
import type { RemoteName } from '../../src/link/link-ports.ts';
import { UpdateStream } from '../../src/link/update-stream.ts';
import { fakeClock } from '../support/fake-clock.ts';

const NOTHING: Stale = {
  policy: false,
  workloads: false,
  credentials: false,
  export_config: false,
  addons: false,
  api_keys: false,
  overlays: false,
  keys: false,
};
const ALL = Object.keys(NOTHING);
const VERSIONS = { policy: 'p', workloads: '', credentials: '', export_config: '', addons: '', api_keys: '', keys: '', overlays: '' };

type Said = { readonly update: Update } | { readonly breaks: true };

async function until(what: string, holds: () => boolean): Promise<void> {
  for (let turns = 0; !holds(); turns++) {
    if (turns > 10_000) throw new Error(what);
    await new Promise(setImmediate);
  }
}

function place(t: Test) {
  const clock = fakeClock();
  const events = new EventBus(silentLogger);
  const lags: number[] = [];
  events.subscribe(['configSynced'], (seconds) => lags.push(seconds));
  const requests: UpdatesRequest[] = [];
  const rounds: { readonly names: readonly RemoteName[]; done(missing?: readonly RemoteName[]): void }[] = [];
  let queue: Said[] = [];
  let wake = (): void => undefined;
  const say = (said: Said): void => {
    queue.push(said);
    wake();
  };
  async function* updates(request: UpdatesRequest, signal: AbortSignal): AsyncGenerator<Update, void, undefined> {
    requests.push(request);
    queue = [];
    for (;;) {
      const next = queue.shift();
      if (signal.aborted) return;
      if (next === undefined) {
        await new Promise<void>((resolve) => {
          wake = resolve;
          signal.addEventListener('abort', () => resolve(), { once: true });
        });
      } else if ('breaks' in next) throw new ProtocolError('UNAVAILABLE', 'cut');
      else yield next.update;
    }
  }
  const stream = new UpdateStream({
    channel: { updates },
    clock,
    log: silentLogger,
    events,
    versions: () => VERSIONS,
    bringIn: (names) => new Promise((resolve) => rounds.push({ names, done: (missing = []) => resolve(missing) })),
  });
  t.teardown(async () => {
    for (const round of rounds) round.done();
    await stream.close();
  });
  return {
    clock,
    lags,
    requests,
    rounds,
    stream,
    tell: (sequence: number, names: readonly RemoteName[], more: Partial<Update> = {}) => {
      const stale = { ...NOTHING, ...Object.fromEntries(names.map((name) => [name, true])) };
      const org = {
        status: 'active',
        suspended_reason: '',
        plan_tier: '',
        cp_down_policy: '',
        redis_down_policy: '',
        grace_seconds: 1,
        gateway_writes: '',
        monthly_request_limit: '',
        overage_enabled: false,
        stale,
      };
      say({ update: { sequence: String(sequence), at: timestamp(clock.now()), kind: 'changed', resync: false, org, ...more } });
    },
    cut: () => say({ breaks: true }),
    opened: (count: number) => until(`stream ${count}`, () => requests.length === count),
    fetching: (count: number) => until(`round ${count}`, () => rounds.length === count),
  };
}

t.test('what an update names is fetched at once, and its lag ends when that is in force', async (t) => {
  const one = place(t);
  one.stream.start();
  await one.opened(1);
  t.same(one.requests[0], { after: '0', versions: VERSIONS });
  one.tell(1, ['policy', 'addons']);
  await one.fetching(1);
  t.same(one.rounds[0]?.names, ['policy', 'addons']);
  one.clock.advance(250);
  t.equal(one.stream.taken, 0);
  one.rounds[0]?.done();
  await until('the lag', () => one.lags.length === 1);
  t.same(one.lags, [0.25]);
  t.equal(one.stream.taken, 1);
});

t.test('what comes while something is fetched waits for the next round, in one', async (t) => {
  const one = place(t);
  one.stream.start();
  await one.opened(1);
  one.tell(1, ['policy']);
  await one.fetching(1);
  one.tell(2, ['policy']);
  one.tell(3, ['policy', 'workloads']);
  one.tell(4, []);
  await until('the update without a name', () => one.lags.length === 1);
  one.rounds[0]?.done();
  await one.fetching(2);
  t.equal(one.stream.taken, 1);
  t.same(one.rounds[1]?.names, ['policy', 'workloads'], 'what was being fetched may have been older');
  one.rounds[1]?.done();
  await until('all lags', () => one.lags.length === 4);
  t.equal(one.stream.taken, 4);
});

t.test('a stream that breaks goes on behind the last update that is wholly in force', async (t) => {
  const one = place(t);
  one.stream.start();
  await one.opened(1);
  one.tell(7, ['policy']);
  await one.fetching(1);
  one.rounds[0]?.done();
  await until('update 7', () => one.stream.taken === 7);
  one.tell(8, ['workloads']);
  await one.fetching(2);
  one.cut();
  await until('a pause', () => one.clock.pending === 1);
  t.equal(one.requests.length, 1, 'not at once');
  one.clock.advance(1_000);
  await one.opened(2);
  t.equal(one.requests[1]?.after, '7');
  one.tell(8, ['workloads']);
  one.rounds[1]?.done();
  await one.fetching(3);
  one.rounds[2]?.done();
  await until('update 8', () => one.stream.taken === 8);
  one.cut();
  await until('a pause', () => one.clock.pending === 1);
  one.clock.advance(1_000);
  await one.opened(3);
  t.equal(one.requests[2]?.after, '8');
});

t.test('pauses between tries grow, and an update that comes makes them short again', async (t) => {
  const one = place(t);
  one.stream.start();
  for (const [count, ms] of [
    [1, 1_000],
    [2, 2_000],
    [3, 4_000],
    [4, 8_000],
    [5, 16_000],
    [6, 16_000],
  ] as const) {
    await one.opened(count);
    one.cut();
    await until(`pause ${count}`, () => one.clock.pending === 1);
    one.clock.advance(ms * 0.75);
    t.equal(one.clock.pending, 1, `${count}: never before three quarters`);
    one.clock.advance(ms * 0.25);
  }
  await one.opened(7);
  one.tell(1, []);
  await until('the update', () => one.stream.taken === 1);
  one.cut();
  await until('a pause', () => one.clock.pending === 1);
  one.clock.advance(1_000);
  await one.opened(8);
});

t.test('what cannot be brought in is tried again, and holds nothing else up', async (t) => {
  const one = place(t);
  one.stream.start();
  await one.opened(1);
  one.tell(1, ['policy', 'addons']);
  await one.fetching(1);
  one.rounds[0]?.done(['policy']);
  await until('a pause', () => one.clock.pending === 1);
  one.tell(2, ['addons']);
  await one.fetching(2);
  t.same(one.rounds[1]?.names, ['policy', 'addons']);
  one.rounds[1]?.done(['policy']);
  await until('the lag of the second', () => one.lags.length === 1);
  t.equal(one.stream.taken, 0);
  await until('a pause', () => one.clock.pending === 1);
  one.clock.advance(2_000);
  await one.fetching(3);
  t.same(one.rounds[2]?.names, ['policy']);
  one.rounds[2]?.done();
  await until('the lag of the first', () => one.lags.length === 2);
  t.equal(one.stream.taken, 2);
});

t.test('resync fetches everything, and numbers may begin anew', async (t) => {
  const one = place(t);
  one.stream.start();
  await one.opened(1);
  one.tell(900, ['policy']);
  await one.fetching(1);
  one.tell(3, [], { resync: true, kind: 'snapshot' });
  await until('the resync', () => one.stream.taken === 2);
  one.rounds[0]?.done();
  await one.fetching(2);
  t.same([...(one.rounds[1]?.names ?? [])].sort(), [...ALL].sort());
  one.rounds[1]?.done();
  await until('all of it', () => one.stream.taken === 3);
});

t.test('a clock that is behind that of the control plane makes no negative lag, and one that says nothing none', async (t) => {
  const one = place(t);
  one.stream.start();
  await one.opened(1);
  one.tell(1, [], { at: timestamp(one.clock.now() + 5_000) });
  one.tell(2, [], { at: 'noon' });
  one.tell(3, [], { kind: 'alive' });
  await until('three updates', () => one.stream.taken === 3);
  t.same(one.lags, [0]);
});

t.test('more updates than can wait lose nothing of what they name', async (t) => {
  const one = place(t);
  one.stream.start();
  await one.opened(1);
  one.tell(1, ['policy']);
  await one.fetching(1);
  for (let n = 2; n <= 1_100; n++) one.tell(n, [n === 1_100 ? 'workloads' : 'addons']);
  one.rounds[0]?.done();
  await one.fetching(2);
  one.rounds[1]?.done();
  if (one.stream.taken < 1_100) await until('more rounds', () => one.rounds.length > 2 || one.stream.taken === 1_100);
  for (const round of one.rounds) round.done();
  await until('all of them', () => one.stream.taken === 1_100);
  t.ok(one.rounds.some(({ names }) => names.includes('workloads')));
});
