import t from 'tap';
import type { Update } from '../../src/control-plane/proto/messages.ts';
import type { ProtocolClient } from '../../src/control-plane/proto/protocol-client.ts';
import { KEPT_UPDATES } from '../../src/control-plane/state/org-versions.ts';
import { faultOfCall, NOTHING_YET, PROTOCOL, runControlPlane } from '../support/control-plane.ts';
import { fakeClock } from '../support/fake-clock.ts';

/** A stream whose messages are taken one by one. */
function follow(t: { teardown(what: () => unknown): void }, client: ProtocolClient, after: number) {
  const leaving = new AbortController();
  t.teardown(() => leaving.abort());
  const stream = client.stream(PROTOCOL.controlPlane, 'StreamUpdates', { after: String(after), versions: NOTHING_YET }, leaving.signal);
  const next = async (): Promise<Update> => {
    const { value } = await stream.next();
    if (value === undefined) throw new Error('the stream has ended');
    return value;
  };
  return { next, leave: () => leaving.abort() };
}

function short({ kind, sequence, resync }: Update): string {
  return `${kind} ${sequence}${resync ? ' resync' : ''}`;
}

t.test('a stream tells first how things are, and then each change with its number as it happens', async (t) => {
  const { plane, commit, enrol } = await runControlPlane(t);
  const { client } = await enrol('acme', 'node-1');
  const { next } = follow(t, client, 0);
  t.equal(short(await next()), 'snapshot 1');
  t.equal(plane.counts.connectedStreams, 1);
  await plane.state.orgs.put('acme', { status: 'suspended' }, commit);
  const update = await next();
  t.equal(short(update), 'changed 2');
  t.match(update.org, { status: 'suspended', stale: { workloads: true } });
  await plane.state.orgs.put('other', {}, commit);
  await plane.state.entities.put('acme', 'workloads', 'w', {}, commit);
  t.equal(short(await next()), 'changed 3', 'of another org nothing is told');
});

// Holds: org-changes-are-numbered
t.test('who comes back gets what he has missed, in order and without gaps', async (t) => {
  const { plane, commit, enrol } = await runControlPlane(t);
  const { client } = await enrol('acme', 'node-1');
  for (let n = 0; n < 150; n++) await plane.state.entities.put('acme', 'workloads', 'w', { name: `${n}` }, commit);
  const { next, leave } = follow(t, client, 1);
  t.equal(short(await next()), 'snapshot 1');
  const told: string[] = [];
  for (let n = 2; n <= 151; n++) told.push(short(await next()));
  t.same(
    told,
    Array.from({ length: 150 }, (_, n) => `changed ${n + 2}`),
  );
  leave();
  const ahead = follow(t, client, 999);
  t.equal(short(await ahead.next()), 'snapshot 151 resync', 'a number that was never given');
});

// Holds: org-changes-are-numbered
t.test('changes at the same moment each get a number of their own, and who was too late is told so', async (t) => {
  const { plane, commit, enrol } = await runControlPlane(t);
  const { client } = await enrol('acme', 'node-1');
  const put = (id: string, name: string) => plane.state.entities.put('acme', 'workloads', id, { name }, commit);
  await Promise.all(Array.from({ length: 20 }, (_, n) => put(`w-${n}`, 'own')));
  const same = await Promise.allSettled(Array.from({ length: 3 }, (_, n) => put('same', `${n}`)));
  const lost = same.filter((one) => one.status === 'rejected');
  for (const { reason } of lost) t.match(reason, { code: 'conflict' });
  const done = 20 + same.length - lost.length;
  const { next } = follow(t, client, 1);
  await next();
  const told: string[] = [];
  for (let n = 0; n < done; n++) told.push(short(await next()));
  t.same(
    told,
    Array.from({ length: done }, (_, n) => `changed ${n + 2}`),
  );
  t.equal(plane.state.registers.versions.sequence('acme'), done + 1);
});

t.test('who has been away for longer than the log goes back fetches everything', async (t) => {
  const { plane, commit, enrol } = await runControlPlane(t);
  const { client } = await enrol('acme', 'node-1');
  for (let n = 0; n < KEPT_UPDATES; n++) await plane.state.orgs.put('acme', { grace_seconds: n }, commit);
  t.equal(short(await follow(t, client, 1).next()), 'snapshot 1');
  await plane.state.orgs.put('acme', { grace_seconds: 1 }, commit);
  t.equal(short(await follow(t, client, 1).next()), `snapshot ${KEPT_UPDATES + 2} resync`);
});

t.test('a stream that has nothing to tell says that it is alive, every 20 s', async (t) => {
  const clock = fakeClock(Date.now());
  const { enrol } = await runControlPlane(t, { clock });
  const { client } = await enrol('acme', 'node-1');
  const { next } = follow(t, client, 0);
  await next();
  for (let n = 0; n < 2; n++) {
    const alive = next();
    let told = false;
    void alive.then(() => {
      told = true;
    });
    while (!told) {
      clock.advance(20_000);
      await new Promise((resolve) => setImmediate(resolve));
    }
    t.equal(short(await alive), 'alive 1');
  }
});

// Holds: nodes-get-their-own-org
t.test('a stream is cut when its node is revoked, opens another one, or the control plane stops', async (t) => {
  const { plane, commit, enrol } = await runControlPlane(t);
  const { client } = await enrol('acme', 'node-1');
  const { client: other } = await enrol('acme', 'node-2');
  const first = follow(t, client, 0);
  await first.next();
  const firstEnd = faultOfCall(first.next());
  const second = follow(t, client, 0);
  await second.next();
  t.equal(await firstEnd, 'UNAVAILABLE: the node has opened another stream');
  const staying = follow(t, other, 0);
  await staying.next();
  const secondEnd = faultOfCall(second.next());
  await plane.state.nodes.revoke('acme', 'node-1', commit);
  t.match(await secondEnd, /^PERMISSION_DENIED: /);
  t.match(await faultOfCall(follow(t, client, 0).next()), /^PERMISSION_DENIED: /);
  t.equal(plane.counts.connectedStreams, 1);
  const stayingEnd = faultOfCall(staying.next());
  await plane.stop();
  t.equal(await stayingEnd, 'UNAVAILABLE: the control plane is stopping');
});
