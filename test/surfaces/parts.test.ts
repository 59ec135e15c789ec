// Answers that are sent while they are made: the event loop turns between two parts, a full client is waited for, and
// one that left ends the making.
import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import { EventBus } from '../../src/base/events/bus.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import type { Arrival } from '../../src/base/model/arrival.ts';
import { inParts, jsonParts } from '../../src/operations/json-parts.ts';
import { UsageReports } from '../../src/services/reports/usage-reports.ts';
import { monthKey } from '../../src/storage/contract/counter-spaces.ts';
import type { CounterRow, Store } from '../../src/storage/contract/store.ts';
import type { Route } from '../../src/surfaces/http/route.ts';
import { Router } from '../../src/surfaces/http/router.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { billingRoutes } from '../support/operation-routes.ts';

/** A client whose window is full whenever it is told to be. */
class Sink {
  readonly written: string[] = [];
  headSent = false;
  gone = false;
  ended = false;
  wasReset = false;
  full = false;
  status = 0;
  #drain: () => void = () => undefined;
  #leave: () => void = () => undefined;

  head(status: number): void {
    this.headSent = true;
    this.status = status;
  }

  sendWhole(status: number): void {
    this.head(status);
    this.end();
  }

  write(chunk: Uint8Array): boolean {
    this.written.push(Buffer.from(chunk).toString());
    return !this.full;
  }

  onDrain(listener: () => void): void {
    this.#drain = listener;
  }

  onGone(listener: () => void): void {
    this.#leave = listener;
  }

  end(): void {
    this.ended = true;
  }

  reset(): void {
    this.wasReset = true;
  }

  drain(): void {
    this.full = false;
    this.#drain();
  }

  leave(): void {
    this.gone = true;
    this.#leave();
  }
}

function ask(sink: Sink, routes: readonly Route[], target: string): Promise<void> {
  const events = new EventBus(silentLogger);
  const authenticator = { principal: () => ({ kind: 'admin', id: 'admin', scopes: ['admin'] }) as const };
  const router = new Router({ routes, authenticator, log: silentLogger, events, callerIp: () => '' });
  const head = { method: 'GET', rawTarget: target, rawHeaders: [], headers: { 'gw-admin-token': 'a' }, trafficClass: 'developer' };
  return router.handle({ head, reply: sink, body: {} } as unknown as Arrival);
}

/** A route with five parts and what became of making them. */
function fiveParts(failAt = Number.POSITIVE_INFINITY) {
  const made = { parts: 0, ended: false };
  async function* parts(): AsyncGenerator<string, void> {
    try {
      for (; made.parts < 5; made.parts += 1) {
        if (made.parts === failAt) throw new Error('cannot be made');
        yield `${made.parts}`;
      }
    } finally {
      made.ended = true;
    }
  }
  const route: Route = { method: 'GET', path: '/p', auth: 'admin', summary: '', handle: () => ({ status: 200, parts: parts() }) };
  return { made, routes: [route] };
}

async function turns(count = 20): Promise<void> {
  for (let n = 0; n < count; n += 1) await turn();
}

// Holds: reports-add-up-counters
t.test('the event loop turns between two parts', async (t) => {
  const { routes } = fiveParts();
  const sink = new Sink();
  let writtenBefore = 0;
  const steps: number[] = [];
  let done = false;
  const answered = ask(sink, routes, '/p').then(() => {
    done = true;
  });
  while (!done) {
    await turn();
    steps.push(sink.written.length - writtenBefore);
    writtenBefore = sink.written.length;
  }
  await answered;
  t.ok(Math.max(...steps) <= 1, `parts by turn: ${steps.join(' ')}`);
  t.strictSame([sink.written.join(''), sink.status, sink.ended], ['01234', 200, true]);
});

t.test('nothing is made for a client whose window is full, until it drains or leaves', async (t) => {
  for (const leaves of [false, true]) {
    const { made, routes } = fiveParts();
    const sink = new Sink();
    sink.full = true;
    const answered = ask(sink, routes, '/p');
    await turns();
    t.strictSame([made.parts, sink.written], [0, ['0']]);
    if (leaves) sink.leave();
    else sink.drain();
    await answered;
    t.strictSame([made.ended, sink.ended, sink.written.length], [true, !leaves, leaves ? 1 : 5]);
  }
});

t.test('what fails before the first part is an error, what fails later breaks the answer off', async (t) => {
  for (const [failAt, status, wasReset] of [
    [0, 500, false],
    [2, 200, true],
  ] as const) {
    const { routes } = fiveParts(failAt);
    const sink = new Sink();
    await ask(sink, routes, '/p');
    t.strictSame([sink.status, sink.wasReset, sink.ended], [status, wasReset, !wasReset]);
  }
});

t.test('the breakdown of a bill is turned to text in parts', async (t) => {
  const rows: CounterRow[] = Array.from({ length: 1_300 }, (_, n) => {
    const key = { month: '2026-11', org: 'o', workload: `w${10_000 + n}`, connector: 'openai', decision: 'allow' };
    return { key: monthKey(key), amounts: { requests: 1n } };
  });
  const counters: Store['counters'] = async (_space, { after = '', limit }) => rows.filter(({ key }) => key > after).slice(0, limit);
  const reports = new UsageReports({ counters } as Store);
  const sink = new Sink();
  await ask(sink, billingRoutes({ reports, clock: fakeClock(), defaultOrg: 'o' }), '/v1/admin/billing/summary');
  const workloads = sink.written.map((part) => part.match(/"w\d+":/g)?.length ?? 0);
  t.ok(Math.max(...workloads) <= 500 && workloads.length > 2, `workloads by part: ${workloads.join(' ')}`);
  const { breakdown, ...head } = JSON.parse(sink.written.join('')) as { breakdown: object };
  t.strictSame(head, { period: '2026-11', total_requests: 1_300, total_cost_usd: '0' });
  t.equal(Object.keys(breakdown).length, 1_300);
});

t.test('JSON in parts is that of the whole, whatever the number of members', async (t) => {
  for (const count of [0, 1, 499, 500, 501, 1_000, 1_001]) {
    const items = Array.from({ length: count }, (_, n) => `"${n}`);
    const texts = function* () {
      for (const part of inParts(items)) yield* [part.map((item) => JSON.stringify(item)), []];
    };
    let text = '';
    for await (const part of jsonParts({ a: 1, b: '}' }, 'long', '[]', texts())) text += part;
    t.equal(text, JSON.stringify({ a: 1, b: '}', long: items }), `${count} members`);
  }
});
