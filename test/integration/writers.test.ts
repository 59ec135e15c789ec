// A writer is a process with a data folder of its own: it is no node, and there may be several of one store.
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { Destination, DurableEvent } from '../../src/base/events/destination.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import type { BudgetAlert } from '../../src/base/model/budget-limit.ts';
import { nodeThatWrote } from '../../src/services/keeper/node-register.ts';
import { Outbox } from '../../src/services/sending/outbox.ts';
import type { Store } from '../../src/storage/contract/store.ts';
import { openStore } from '../../src/storage/drivers/open-store.ts';
import { backgroundUpstream } from '../support/background-upstream.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { ALLOW_ALL, startGoverned } from '../support/governed.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

const HOUR_MS = 3_600_000;
const ALERT: BudgetAlert = {
  limit: { limit_id: 'l', org_id: 'o', scope: 'org', limit_usd: '1', period: 'monthly' },
  level: 'warning',
  periodStart: '2026-11-01',
  spentUsd: '0.5',
};

function writerOf({ dataDir }: { readonly dataDir: string }): string {
  return readFileSync(join(dataDir, 'writer-id'), 'utf8').trim();
}

/** Takes everything, or nothing; `next` resolves with the batch that comes after it was called. */
function place(takes: boolean): Destination & { next(): Promise<readonly DurableEvent[]> } {
  let tell: (batch: readonly DurableEvent[]) => void = () => undefined;
  return {
    id: 'place',
    deliver(batch) {
      tell(batch);
      return takes ? Promise.resolve() : Promise.reject(new Error('nothing is taken'));
    },
    next: () =>
      new Promise((resolve) => {
        tell = resolve;
      }),
  };
}

/** A store that several gateways have, which each believe to have opened it, and how often each removed old records. */
class SharedStore {
  readonly store: Store;
  readonly #removals = new Map<string, number>();
  #wake: () => void = () => undefined;

  constructor(store: Store) {
    this.store = store;
  }

  /** The store as the gateway of this name has it. */
  as(name: string): Store {
    return new Proxy(this.store, {
      get: (target, member) => {
        const value: unknown = Reflect.get(target, member, target);
        if (typeof value !== 'function') return value;
        if (member === 'removeRecordsBefore') {
          this.#removals.set(name, this.removalsOf(name) + 1);
          this.#wake();
        }
        return value.bind(target) as unknown;
      },
    });
  }

  removalsOf(name: string): number {
    return this.#removals.get(name) ?? 0;
  }

  /** Resolves when a gateway has begun to remove so many times. */
  async until(name: string, count: number): Promise<void> {
    while (this.removalsOf(name) < count)
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
  }

  /** Lets what a timer began come to its end: everything that it waits for is committed before this is. */
  async settled(): Promise<void> {
    for (let turn = 0; turn < 6; turn += 1) {
      await this.store.list('lease');
      await this.store.commit(undefined, [{ op: 'put', space: 'turn', key: 'turn', value: turn }]);
    }
  }
}

async function sharedStore(t: HasTeardown): Promise<SharedStore> {
  const { store } = await openStore(tempDir(t), { fsync: 'off', clock: fakeClock(), log: silentLogger });
  t.teardown(() => store.close());
  return new SharedStore(store);
}

t.test('of two gateways of one store one removes what is old, and the other when that one has ended', async (t) => {
  const shared = await sharedStore(t);
  const clock = fakeClock();
  // Two writers of one node: nothing that a writer has is told by the name of the node.
  const start = (name: string): Promise<TestGateway> =>
    startTestGateway(t, { clock, isShared: true, store: () => shared.as(name), env: { GW_NODE_ID: 'node' } });
  const first = await start('first');
  await shared.until('first', 1);
  const second = await start('second');
  await shared.settled();
  const present = (await shared.store.list('lease', { prefix: 'writer/' })).map(({ key }) => key);
  t.same(present, [`writer/${writerOf(first)}`, `writer/${writerOf(second)}`].sort());
  t.match(await shared.store.get('lease', 'retention'), { holder: writerOf(first) });
  t.equal(shared.removalsOf('second'), 0, 'each looks for what is old when it starts');
  await first.gateway.stop();
  clock.advance(HOUR_MS);
  await shared.until('second', 1);
  t.match(await shared.store.get('lease', 'retention'), { holder: writerOf(second) });
  t.equal(shared.removalsOf('first'), 1);
});

t.test('what a gateway has under way on a shared store is of the writer that says it is there', async (t) => {
  const shared = await sharedStore(t);
  const { handler } = backgroundUpstream();
  const { gw, send } = await startGoverned(t, { bundle: ALLOW_ALL, handler, isShared: true, store: () => shared.as('one') });
  const body = JSON.stringify({ model: 'gpt-4o', input: 'hello', max_output_tokens: 10, background: true });
  const headers = ['Authorization', 'Bearer k', 'Content-Type', 'application/json'];
  t.equal((await send({ method: 'POST', path: '/proxy/openai/v1/responses', headers, body })).status, 200);
  const [waiting] = await shared.store.list('deferred_usage');
  t.match(waiting?.value, { owner: writerOf(gw) });
  t.same(
    (await shared.store.list('lease', { prefix: 'writer/' })).map(({ key }) => key),
    [`writer/${writerOf(gw)}`],
  );
});

t.test('what waits for a destination goes out although the node has another name at the next start', async (t) => {
  const dataDir = tempDir(t);
  const start = (GW_NODE_ID: string, destination: Destination): Promise<TestGateway> =>
    startTestGateway(t, { destinations: [destination], env: { GW_DATA_DIR: dataDir, GW_NODE_ID } });
  const closed = place(false);
  const first = await start('pod-1', closed);
  const tried = closed.next();
  const made = await first.admin('POST', '/v1/admin/budgets/limits', { scope: 'org', limit_usd: '1', period: 'daily', actions: ['cap'] });
  t.equal(made.status, 201);
  const [event] = await tried;
  const writer = writerOf({ dataDir });
  t.not(writer, 'pod-1');
  t.ok(event?.id.startsWith(`${writer}|`));
  await first.gateway.stop();
  const open = place(true);
  const taken = open.next();
  await start('pod-2', open);
  t.same((await taken)[0], event);
  t.equal(writerOf({ dataDir }), writer);
});

t.test('a folder of a version whose writers had the name of their node is taken over', async (t) => {
  const dataDir = tempDir(t);
  const clock = fakeClock();
  const opened = await openStore(join(dataDir, 'store'), { fsync: 'off', clock, log: silentLogger });
  const nodes = { 'pod-2': '2026-11-20T12:00:00.000Z', 'pod-1': '2026-11-21T12:00:00.000Z' };
  t.equal(await nodeThatWrote(opened.store, 'pod-1'), undefined);
  for (const [node_id, registered_at] of Object.entries(nodes))
    await opened.store.commit(undefined, [{ op: 'put', space: 'node', key: node_id, value: { node_id, registered_at, mode: 'embedded' } }]);
  t.equal(await nodeThatWrote(opened.store, 'pod-2'), 'pod-2');
  const outbox = await Outbox.open({ store: opened.store, clock, log: silentLogger, writer: 'pod-1', destinations: [place(false)] });
  await opened.store.commit(undefined, outbox.post('budgetAlert', ALERT).effects);
  await outbox.close();
  await opened.store.close();
  const destination = place(true);
  const taken = destination.next();
  const gw = await startTestGateway(t, { clock, destinations: [destination], env: { GW_DATA_DIR: dataDir, GW_NODE_ID: 'pod-3' } });
  t.match(await taken, [{ name: 'budgetAlert', event: ALERT }]);
  t.equal(writerOf({ dataDir }), 'pod-1', 'the last that wrote there');
  await gw.gateway.stop();
  rmSync(join(dataDir, 'writer-id'));
  await startTestGateway(t, { clock, env: { GW_DATA_DIR: dataDir, GW_NODE_ID: 'pod-2' } });
  t.equal(writerOf({ dataDir }), 'pod-2', 'that of now where it has written there before');
});
