import { createServer, type Server } from 'node:net';
import { networkInterfaces } from 'node:os';
import t from 'tap';
import { parseEgressAllow } from '../../../src/base/lib/host.ts';
import { Dialer } from '../../../src/outbound/net/dialer.ts';
import { EgressGuard, type OwnAddress } from '../../../src/outbound/net/egress-guard.ts';
import { type Lookup, Resolver } from '../../../src/outbound/net/resolver.ts';
import { fakeClock, runningClock } from '../../support/fake-clock.ts';
import type { HasTeardown } from '../../support/temp-dir.ts';
import { listenOnFreePort } from '../../support/tls-upstream.ts';

/** A resolver whose answers the test gives by hand. */
function byHand(known: readonly string[] = []): {
  clock: ReturnType<typeof fakeClock>;
  resolver: Resolver;
  asked: string[];
  answer(host: string, addresses: readonly string[] | Error): Promise<void>;
} {
  const clock = fakeClock();
  const asked: string[] = [];
  const open = new Map<string, { resolve(addresses: readonly string[]): void; reject(error: Error): void }>();
  const lookup: Lookup = (host) =>
    new Promise((resolve, reject) => {
      asked.push(host);
      open.set(host, { resolve, reject });
    });
  const resolver = new Resolver({ clock, isKnown: (host) => known.includes(host), lookup });
  return {
    clock,
    resolver,
    asked,
    async answer(host, addresses) {
      const call = open.get(host);
      if (addresses instanceof Error) call?.reject(addresses);
      else call?.resolve(addresses);
      await settle();
    },
  };
}

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const dnsError = (code: string): Error => Object.assign(new Error(code), { code });

t.test('look-ups of one name share one answer, which is kept for thirty seconds', async (t) => {
  const { clock, resolver, asked, answer } = byHand();
  const both = Promise.all([resolver.resolve('a.example'), resolver.resolve('a.example')]);
  await answer('a.example', ['192.0.2.1', '2001:db8::1']);
  t.same(await both, [
    ['192.0.2.1', '2001:db8::1'],
    ['192.0.2.1', '2001:db8::1'],
  ]);
  clock.advance(29_999);
  await resolver.resolve('a.example');
  t.same(asked, ['a.example']);
  clock.advance(1);
  const again = resolver.resolve('a.example');
  await answer('a.example', ['192.0.2.2']);
  t.same([await again, asked.length], [['192.0.2.2'], 2]);
  resolver.forget('a.example');
  void resolver.resolve('a.example');
  t.equal(asked.length, 3);
});

t.test('an AI host is answered from a stale entry while a fresh one is fetched, also when that fails', async (t) => {
  const { clock, resolver, asked, answer } = byHand(['ai.example']);
  const first = resolver.resolve('ai.example');
  await answer('ai.example', ['192.0.2.1']);
  await first;
  clock.advance(60_000);
  t.same(await resolver.resolve('ai.example'), ['192.0.2.1']);
  t.equal(asked.length, 2);
  await answer('ai.example', dnsError('EAI_AGAIN'));
  t.same(await resolver.resolve('ai.example'), ['192.0.2.1']);
  await answer('ai.example', ['192.0.2.9']);
  t.same(await resolver.resolve('ai.example'), ['192.0.2.9']);
  clock.advance(600_000);
  const late = resolver.resolve('ai.example');
  await answer('ai.example', ['192.0.2.3']);
  t.same(await late, ['192.0.2.3'], 'ten minutes are too stale');
});

t.test('unknown names hold four places at most; a hanging look-up keeps its place, an AI host never waits', async (t) => {
  const { clock, resolver, asked, answer } = byHand(['ai.example']);
  const dead = Array.from({ length: 6 }, (_, i) => resolver.resolve(`dead${i}.example`));
  const failures = Promise.allSettled(dead);
  await settle();
  t.same(asked, ['dead0.example', 'dead1.example', 'dead2.example', 'dead3.example']);
  const ai = resolver.resolve('ai.example');
  await answer('ai.example', ['192.0.2.1']);
  t.same(await ai, ['192.0.2.1']);
  clock.advance(5_000);
  for (const { reason } of (await failures) as PromiseRejectedResult[])
    t.match(reason, { code: 'upstream_timeout', message: /within 5 seconds/ });
  t.equal(asked.length, 5, 'no fifth one while four hang');
  await answer('dead0.example', ['192.0.2.5']);
  t.equal(asked.at(-1), 'dead4.example');
  t.same(await resolver.resolve('dead0.example'), ['192.0.2.5'], 'the late answer is kept');
});

t.test('a name that does not exist is said so, and asked for again only after two seconds', async (t) => {
  const { clock, resolver, asked, answer } = byHand();
  const missing = resolver.resolve('no.example').catch((error: unknown) => error);
  await answer('no.example', dnsError('ENOTFOUND'));
  t.match(await missing, { code: 'upstream_unreachable', message: 'no.example has no address: the name does not exist.' });
  await t.rejects(resolver.resolve('no.example'), { code: 'upstream_unreachable' });
  t.equal(asked.length, 1);
  clock.advance(2_001);
  const again = resolver.resolve('no.example').catch((error: unknown) => error);
  await answer('no.example', []);
  t.match(await again, { code: 'upstream_unreachable', message: /has no address/ });
});

const guardOf = (egressAllow: readonly string[] = [], own: readonly OwnAddress[] = []): EgressGuard =>
  new EgressGuard({ egressAllow: parseEgressAllow(egressAllow), ownAddresses: () => own });

t.test('only public addresses are admitted, each record for itself, and the message does not give the address away', async (t) => {
  const guard = guardOf();
  const target = { host: 'mixed.example', port: 443 };
  t.same(guard.admit(target, ['10.0.0.1', '8.8.8.8', '::1', '2606:4700::1'], false), ['8.8.8.8', '2606:4700::1']);
  for (const address of [
    '127.0.0.1',
    '::1',
    '::ffff:10.0.0.1',
    '169.254.169.254',
    '100.64.0.1',
    '0.0.0.0',
    '64:ff9b::7f00:1',
    '2002:7f00:1::',
    'nonsense',
  ]) {
    t.throws(() => guard.admit(target, [address], false), { code: 'egress_denied', status: 403 }, address);
  }
  t.throws(() => guard.admit(target, ['10.1.2.3'], false), {
    message: 'mixed.example is not reachable through the gateway: it is a private address.',
  });
});

t.test('GW_EGRESS_ALLOW exempts ranges and hosts, the operator his own targets, and nothing exempts the gateway itself', async (t) => {
  const own = { address: '127.0.0.1', port: 7080 };
  const guard = guardOf(['10.0.0.0/8', '::1', 'internal.example', '*.corp.example'], [own]);
  t.same(guard.admit({ host: 'x.example', port: 1 }, ['10.9.9.9', '::1', '192.168.0.1'], false), ['10.9.9.9', '::1']);
  t.same(guard.admit({ host: 'internal.example', port: 1 }, ['192.168.0.1'], false), ['192.168.0.1']);
  t.same(guard.admit({ host: 'a.corp.example', port: 1 }, ['192.168.0.1'], false), ['192.168.0.1']);
  t.same(guard.admit({ host: 'x.example', port: 1 }, ['192.168.0.1'], true), ['192.168.0.1']);
  t.same(guard.admit({ host: 'x.example', port: 7081 }, ['127.0.0.1'], true), ['127.0.0.1']);
  for (const address of ['127.0.0.1', '::ffff:127.0.0.1', '0.0.0.0', '::']) {
    t.throws(
      () => guard.admit({ host: 'internal.example', port: 7080 }, [address], true),
      { code: 'egress_denied', message: /the gateway itself/ },
      address,
    );
  }
  t.throws(() => guardOf(['10.0.0.1/8']), RangeError);
  t.throws(() => guardOf(['not a host']), RangeError);
});

t.test('a listener on all addresses is refused under every address of this machine', async (t) => {
  const guard = guardOf([], [{ address: '0.0.0.0', port: 7080 }]);
  const here = Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map((one) => one.address));
  for (const address of ['127.0.0.1', '127.9.9.9', '::1', '0.0.0.0', ...here]) {
    t.throws(() => guard.admit({ host: 'x.example', port: 7080 }, [address], true), { code: 'egress_denied' }, address);
  }
  t.same(guard.admit({ host: 'x.example', port: 7080 }, ['192.0.2.1'], true), ['192.0.2.1']);
});

/** A server on `address` that answers its own address. */
async function echoAt(t: HasTeardown, address: string, port = 0): Promise<number> {
  const server: Server = createServer((socket) => socket.on('error', () => undefined).end(address));
  if (port === 0) port = await listenOnFreePort(server, address);
  else await new Promise<void>((resolve) => server.listen(port, address, resolve));
  t.teardown(() => server.close());
  return port;
}

async function dialedTo(dialer: Dialer, host: string, port: number): Promise<string> {
  const socket = await dialer.dial({ host, port }, false);
  let text = '';
  for await (const chunk of socket) text += String(chunk);
  return text;
}

// Holds: one-door-out
t.test('the address that is dialled is one that was judged: refused records are skipped, dead ones passed over', async (t) => {
  const port = await echoAt(t, '127.0.0.2');
  const clock = runningClock;
  const answers: Record<string, readonly string[]> = {
    'rebind.example': ['127.0.0.1'],
    'fallback.example': ['10.255.255.1', '127.0.0.3', '127.0.0.2'],
    'dead.example': ['127.0.0.3'],
  };
  let asked = 0;
  const lookup: Lookup = async (host) => {
    asked++;
    return answers[host] ?? [];
  };
  const resolver = new Resolver({ clock, isKnown: () => true, lookup });
  const guard = guardOf(['127.0.0.2', '127.0.0.3']);
  const connectTo = [{ host: 'api.openai.com', port: 443, toHost: '127.0.0.2', toPort: port }];
  const dialer = new Dialer({ clock, resolver, guard, connectTo });
  t.equal(await dialedTo(dialer, 'fallback.example', port), '127.0.0.2');
  t.equal(await dialedTo(dialer, 'api.openai.com', 443), '127.0.0.2');
  await t.rejects(dialer.dial({ host: 'rebind.example', port }, false), { code: 'egress_denied' });
  await t.rejects(
    dialer.dial({ host: '127.0.0.1', port }, false),
    { code: 'egress_denied' },
    'a literal is judged although nothing is looked up',
  );
  asked = 0;
  for (let i = 0; i < 2; i++) {
    await t.rejects(dialer.dial({ host: 'dead.example', port }, false), {
      code: 'upstream_unreachable',
      message: /refused the connection/,
    });
  }
  t.equal(asked, 2, 'an answer that leads nowhere is not kept');
});

t.test('a connection that does not stand after ten seconds is 504, and its attempt is given up', async (t) => {
  const clock = fakeClock();
  const port = await echoAt(t, '127.0.0.2');
  const resolver = new Resolver({ clock, isKnown: () => true });
  const dialer = new Dialer({ clock, resolver, guard: guardOf(['127.0.0.2']), connectTo: [] });
  const dialed = dialer.dial({ host: '127.0.0.2', port }, false);
  // In the same turn, so that the kernel's answer cannot have been seen yet.
  clock.advance(10_000);
  await t.rejects(dialed, { code: 'upstream_timeout', message: /within 10 seconds/ });
  t.equal(clock.pending, 0);
});
