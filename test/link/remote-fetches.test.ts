// What is stale is fetched: each for itself, one round after the other, with pauses where it fails, and never against
// what was said later.
import t from 'tap';
import type { RemoteName, RemoteResource } from '../../src/link/link-ports.ts';
import { RemoteFetches } from '../../src/link/remote-fetches.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { heardLog } from '../support/heard-log.ts';
import { comes, staleOf } from '../support/org-said.ts';

const CHANNEL = {
  call: () => Promise.reject(new Error('resources of these tests do not call')),
  // biome-ignore lint/correctness/useYield: nothing comes
  async *updates() {
    throw new Error('nor do they listen');
  },
};

/** Something that is fetched when the test says how that ends. */
class Held implements RemoteResource {
  readonly name: RemoteName;
  readonly steps: string[] = [];
  eraseFails = false;
  #version = '';
  #end: ((error?: Error) => void) | undefined;

  constructor(name: RemoteName) {
    this.name = name;
  }

  version(): string {
    return this.#version;
  }

  fetch(): Promise<void> {
    this.steps.push('fetch');
    return new Promise((resolve, reject) => {
      this.#end = (error) => {
        this.#end = undefined;
        if (error === undefined) resolve();
        else reject(error);
      };
    });
  }

  erase(): Promise<void> {
    this.steps.push('erase');
    if (this.eraseFails) return Promise.reject(new Error('the disk is full'));
    this.#version = '';
    return Promise.resolve();
  }

  get isFetching(): boolean {
    return this.#end !== undefined;
  }

  get fetches(): number {
    return this.steps.filter((step) => step === 'fetch').length;
  }

  brings(version: string): void {
    this.#version = version;
    this.steps.push('taken');
    this.#end?.();
  }

  fails(why = 'it is wrong'): void {
    this.#end?.(new Error(why));
  }
}

function place() {
  const clock = fakeClock();
  const { log, lines } = heardLog();
  const policy = new Held('policy');
  const workloads = new Held('workloads');
  const credentials = new Held('credentials');
  return { clock, lines, policy, workloads, credentials, fetches: new RemoteFetches([policy, workloads, credentials], clock, log) };
}

t.test('what was said to be stale is fetched at once, all together, and what fails is in the way of nothing else', async (t) => {
  const { fetches, policy, workloads, credentials, lines } = place();
  t.notOk(fetches.heed(null, 1), 'an answer that says nothing');
  t.notOk(fetches.heed(staleOf('keys'), 1), 'of what nobody fetches here');
  t.equal(fetches.dueIn, undefined);
  t.notOk(await fetches.round(CHANNEL), 'nothing was tried');
  t.ok(fetches.heed(staleOf('policy', 'workloads'), 1));
  t.equal(fetches.dueIn, 0);
  const round = fetches.round(CHANNEL);
  await comes('both', () => policy.isFetching && workloads.isFetching);
  policy.fails();
  workloads.brings('w1');
  t.ok(await round);
  t.match(fetches.versions(), { policy: '', workloads: 'w1', credentials: '', keys: '' });
  t.same(fetches.faults, [{ resource: 'policy', message: 'it is wrong' }]);
  t.match(fetches.counts().slice(0, 4), [
    ['policy', 'fetched', 0],
    ['policy', 'failed', 1],
    ['workloads', 'fetched', 1],
    ['workloads', 'failed', 0],
  ]);
  t.same(lines, ['error: what the control plane has could not be taken: the one before stays in force']);
  t.equal(credentials.fetches, 0);
});

t.test('an answer to what was asked before the fetching says nothing of what was fetched', async (t) => {
  const { fetches, policy } = place();
  fetches.heed(staleOf('policy'), 1);
  const round = fetches.round(CHANNEL);
  await comes('the policy', () => policy.isFetching);
  t.notOk(fetches.heed(staleOf('policy'), 2), 'while it is fetched');
  policy.brings('p1');
  await round;
  t.notOk(fetches.heed(staleOf('policy'), 3), 'before the control plane was told');
  fetches.toldFrom(5);
  t.notOk(fetches.heed(staleOf('policy'), 4), 'an answer that was overtaken');
  t.ok(fetches.heed(staleOf('policy'), 5), 'what is said after that counts');
  t.notOk(fetches.heed(staleOf(), 6), 'and can be taken back');
  t.equal(fetches.dueIn, undefined);
});

t.test('of one thing there is one fetch at a time, whoever asks for it', async (t) => {
  const { fetches, policy } = place();
  fetches.heed(staleOf('policy'), 1);
  const round = fetches.round(CHANNEL);
  await comes('the policy', () => policy.isFetching);
  const asked = fetches.now(new Set(['policy']), CHANNEL);
  await new Promise(setImmediate);
  t.equal(policy.fetches, 1);
  policy.brings('p1');
  await round;
  await comes('the next', () => policy.isFetching);
  t.equal(policy.fetches, 2);
  policy.fails();
  t.same(await asked, ['policy'], 'it says what could not be had');
});

t.test('what fails is tried again after a second, then twice as long, a minute at most', async (t) => {
  const { fetches, policy, clock, lines } = place();
  const waits: (number | undefined)[] = [];
  for (let turn = 1; turn <= 8; turn++) {
    fetches.toldFrom(turn);
    fetches.heed(staleOf('policy'), turn);
    const round = fetches.round(CHANNEL);
    await comes('the policy', () => policy.isFetching);
    policy.fails();
    await round;
    fetches.toldFrom(turn + 1);
    fetches.heed(staleOf('policy'), turn + 1);
    waits.push(fetches.dueIn);
    clock.advance((fetches.dueIn ?? 0) - 1);
    t.notOk(await fetches.round(CHANNEL), 'not a millisecond before');
    clock.advance(1);
  }
  t.same(waits, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
  t.equal(lines.length, 1, 'the same fault is told once');
  const round = fetches.round(CHANNEL);
  await comes('the policy', () => policy.isFetching);
  policy.brings('p1');
  await round;
  t.same(fetches.faults, []);
  t.match(lines[1], /fetched from the control plane again/);
  fetches.toldFrom(20);
  fetches.heed(staleOf('policy'), 20);
  t.equal(fetches.dueIn, 0, 'it is all forgotten');
});

t.test('what is stale again though it was fetched is not fetched without a pause, and a set clock shortens none', async (t) => {
  const { fetches, policy, clock } = place();
  for (const turn of [1, 2]) {
    fetches.toldFrom(turn);
    fetches.heed(staleOf('policy'), turn);
    const round = fetches.round(CHANNEL);
    await comes('the policy', () => policy.isFetching);
    policy.brings('same');
    await round;
  }
  fetches.toldFrom(3);
  fetches.heed(staleOf('policy'), 3);
  clock.set(clock.now() + 86_400_000);
  t.equal(fetches.dueIn, 1_000);
  const asked = fetches.now(new Set(['policy']), CHANNEL);
  await comes('the policy', () => policy.isFetching);
  policy.brings('same');
  t.same(await asked, [], 'who knows that there is news waits for nothing');
});

t.test('everything is erased behind what is being fetched, and what cannot be erased is in the way of nothing', async (t) => {
  const { fetches, policy, workloads, credentials, lines } = place();
  fetches.heed(staleOf('credentials'), 1);
  const round = fetches.round(CHANNEL);
  await comes('the credentials', () => credentials.isFetching);
  policy.eraseFails = true;
  const erased = fetches.erase();
  await new Promise(setImmediate);
  credentials.brings('c1');
  await erased;
  await round;
  t.same(credentials.steps, ['fetch', 'taken', 'erase'], 'the answer that was on its way has brought nothing back');
  t.equal(fetches.versions().credentials, '');
  t.same([policy.steps, workloads.steps], [['erase'], ['erase']]);
  t.same(lines, ['error: what this node was given could not be erased; it is tried again']);
});
