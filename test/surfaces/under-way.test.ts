// What those who show a key have under way at a time: shares of orgs and keys, turns, and who has left.
import t from 'tap';
import { EventBus } from '../../src/base/events/bus.ts';
import { GatewayError } from '../../src/base/lib/gateway-error.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import type { Arrival, ArrivalHead } from '../../src/base/model/arrival.ts';
import type { Principal } from '../../src/base/model/principal.ts';
import type { Route } from '../../src/surfaces/http/route.ts';
import { Router } from '../../src/surfaces/http/router.ts';
import { WorkUnderWay } from '../../src/surfaces/http/work-under-way.ts';

function keyOf(orgId: string, id: string): Principal {
  return { kind: 'management_key', id, orgId, scopes: ['none', 'read'] };
}

async function turns(count = 10): Promise<void> {
  for (let at = 0; at < count; at += 1) await new Promise((resolve) => setImmediate(resolve));
}

/** A reply of which is known what was sent, and that its client can leave. */
class Reply {
  headSent = false;
  gone = false;
  status = 0;
  body = '';
  fields: readonly string[] = [];
  readonly #leave: (() => void)[] = [];

  sendWhole(status: number, fields: readonly string[], body: Uint8Array): void {
    this.headSent = true;
    this.status = status;
    this.fields = fields;
    this.body = Buffer.from(body).toString();
  }

  onGone(listener: () => void): void {
    this.#leave.push(listener);
  }

  onDrain(): void {
    // Nobody waits for room.
  }

  leave(): void {
    this.gone = true;
    for (const listener of this.#leave) listener();
  }
}

/** A router whose route `/work` answers when it is told to, and `/open` at once. */
function place(all: number, waiting: number) {
  const held: { readonly principal: Principal; readonly signal: AbortSignal; readonly answer: () => void }[] = [];
  const routes: Route[] = [
    {
      method: 'GET',
      path: '/work',
      auth: 'read',
      summary: '',
      handle: ({ principal, signal }) =>
        new Promise((resolve, reject) => {
          held.push({ principal, signal, answer: () => resolve({ status: 200, json: {} }) });
          signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
        }),
    },
    { method: 'GET', path: '/open', auth: 'none', summary: '', handle: () => ({ status: 200, json: {} }) },
  ];
  const underWay = new WorkUnderWay({ all, waiting });
  const principal = (scope: string, { headers }: ArrivalHead): Principal =>
    scope === 'none' ? { kind: 'anyone', id: 'anyone', scopes: ['none'] } : keyOf(headers['org'] ?? '', headers['key'] ?? '');
  const events = new EventBus(silentLogger);
  const router = new Router({ routes, underWay, authenticator: { principal }, log: silentLogger, events, callerIp: () => '' });
  const ask = (org: string, key: string, path = '/work') => {
    const reply = new Reply();
    const head = { method: 'GET', rawTarget: path, rawHeaders: [], headers: { org, key }, trafficClass: 'developer' };
    const answered = router.handle({ head, reply, body: {} } as unknown as Arrival);
    return { reply, answered };
  };
  return { held, underWay, ask };
}

t.test('a key that asks for ever more has a third of the places, and others begin at once', async (t) => {
  const { held, underWay, ask } = place(12, 1_000);
  for (let at = 0; at < 100; at += 1) ask('acme', 'greedy');
  await turns();
  t.equal(underWay.running, 4);
  ask('acme', 'modest');
  ask('other', 'modest');
  await turns();
  t.strictSame(
    held.slice(4).map(({ principal: { orgId, id } }) => `${orgId} ${id}`),
    ['acme modest', 'other modest'],
  );
  const health = ask('', '', '/open');
  await health.answered;
  t.equal(health.reply.status, 200, 'what needs no key is not counted');
  let answered = 0;
  for (; held.length > 0; answered += 1) {
    held.shift()?.answer();
    await turns(4);
    t.ok(underWay.running <= 6);
  }
  t.equal(answered, 102, 'each that waited had its turn');
  t.strictSame([underWay.running, underWay.waiting], [0, 0]);
});

t.test('who waits has a turn after each other key, however long the queue of one is', async (t) => {
  const { held, ask } = place(4, 1_000);
  const first = ['b', 'c', 'd', 'e'];
  for (const org of first) ask(org, 'k');
  await turns();
  for (let at = 0; at < 50; at += 1) ask('greedy', 'k');
  ask('late', 'k');
  await turns();
  const begun = held.length;
  const order: (string | undefined)[] = [];
  while (!order.includes('late') && held.length > 0) {
    held.shift()?.answer();
    await turns(4);
    order.splice(0, order.length, ...held.map(({ principal }) => principal.orgId));
  }
  t.ok(begun <= 4);
  t.ok(order.filter((org) => org === 'greedy').length <= 2, order.join(' '));
});

t.test('what waits has an end: 429 with Retry-After to the key that has its share, and none to another org', async (t) => {
  const { underWay, ask } = place(6, 30);
  const asked = Array.from({ length: 60 }, () => ask('acme', 'greedy'));
  await turns();
  const refused = asked.filter(({ reply }) => reply.status === 429);
  t.strictSame([underWay.running, underWay.waiting, refused.length], [2, 10, 48]);
  t.match(refused[0]?.reply, { body: /too_many_requests/ });
  t.match(refused[0]?.reply.fields.join(' '), /Retry-After 1/);
  const other = ask('other', 'k');
  await turns();
  t.equal(other.reply.status, 0, 'under way');
  t.equal(underWay.running, 3);
});

t.test('whoever leaves takes nothing more: his work ends, and what waits of his is forgotten', async (t) => {
  const { held, underWay, ask } = place(6, 30);
  const asked = Array.from({ length: 8 }, () => ask('acme', 'k'));
  await turns();
  t.strictSame([underWay.running, underWay.waiting], [2, 6]);
  for (const { reply } of asked.slice(2)) reply.leave();
  await turns();
  t.strictSame([underWay.running, underWay.waiting, held.length], [2, 0, 2], 'none of them was begun');
  for (const { reply } of asked.slice(0, 2)) reply.leave();
  await turns();
  t.strictSame(
    held.map(({ signal }) => (signal.reason as GatewayError).code),
    ['client_gone', 'client_gone'],
  );
  t.strictSame([underWay.running, underWay.waiting], [0, 0]);
  t.ok(
    asked.every(({ reply }) => !reply.headSent),
    'nobody is answered',
  );
  const gone = new AbortController();
  gone.abort(new GatewayError('client_gone', ''));
  const full = new WorkUnderWay({ all: 1, waiting: 9 });
  t.equal(full.enter(keyOf('a', 'k'), gone.signal), undefined, 'at once');
  await t.rejects(
    Promise.resolve(full.enter(keyOf('b', 'k'), gone.signal)),
    { code: 'client_gone' },
    'nor does he wait who has left before',
  );
  t.equal(full.waiting, 0);
});
