import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import t from 'tap';
import { ConnectionShares } from '../../../src/base/lib/connection-shares.ts';
import { SharedLine } from '../../../src/base/lib/shared-line.ts';
import { fakeClock } from '../../support/fake-clock.ts';

class PlayedSocket extends EventEmitter {
  destroyed = false;
  readonly remoteAddress: string;

  constructor(remoteAddress: string) {
    super();
    this.remoteAddress = remoteAddress;
  }

  destroy(): void {
    if (this.destroyed) return;
    this.destroyed = true;
    this.emit('close');
  }
}

function port(options: { strangers?: number; known?: number; each?: number; strangerMs?: number } = {}) {
  const clock = fakeClock();
  const shares = new ConnectionShares({ strangers: 16, known: 8, each: 2, clock, ...options });
  const arrive = (address: string) => {
    const socket = new PlayedSocket(address);
    return { socket, held: shares.arrive(socket as unknown as Socket) };
  };
  return { clock, shares, arrive };
}

t.test('an address holds half of the places at most; its oldest connection makes way, and nobody else’s', async (t) => {
  const { shares, arrive } = port();
  const other = arrive('192.0.2.2');
  const flood = Array.from({ length: 400 }, () => arrive('192.0.2.1'));
  t.same(flood.map(({ socket }) => socket.destroyed).lastIndexOf(true), flood.length - shares.openOfStrangers, 'the newest are open');
  t.equal(shares.openOfStrangers, 1 + 8 - 0, 'eight of sixteen, and the other one');
  t.notOk(other.socket.destroyed);
  for (const { socket } of flood) socket.destroy();
  t.equal(shares.openOfStrangers, 1);
  t.equal(shares.open, 1);
});

t.test('however many addresses come, each gets in, and the one that holds most makes way', async (t) => {
  const { shares, arrive } = port();
  for (let i = 0; i < 8; i++) arrive('192.0.2.1');
  const others = Array.from({ length: 40 }, (_, i) => arrive(`198.51.100.${i}`));
  t.notOk(others.at(-1)?.socket.destroyed);
  t.equal(shares.open, 16);
  t.equal(shares.openOfStrangers, 16);
});

t.test('addresses of one network of IPv6 are one, and one of IPv4 is the same however it is written', async (t) => {
  const { shares, arrive } = port();
  for (let i = 0; i < 100; i++) arrive(`2001:db8:0:1::${i.toString(16)}`);
  t.equal(shares.open, 8);
  arrive('2001:db8:0:2::1');
  t.equal(shares.open, 9);
  const mapped = port();
  for (let i = 0; i < 50; i++) mapped.arrive(i % 2 === 0 ? '192.0.2.1' : '::ffff:192.0.2.1');
  t.equal(mapped.shares.open, 8);
});

t.test('who has shown who he is makes way for nobody, has no end, and so many connections', async (t) => {
  const { clock, shares, arrive } = port({ strangerMs: 30_000 });
  const node = arrive('192.0.2.1');
  t.ok(shares.recognise(node.held, 'acme', 'node-1'));
  t.ok(shares.recognise(node.held, 'acme', 'node-1'), 'once');
  for (let i = 0; i < 100; i++) arrive('192.0.2.1');
  t.notOk(node.socket.destroyed);
  t.ok(shares.recognise(arrive('192.0.2.1').held, 'acme', 'node-1'));
  const third = arrive('192.0.2.1');
  t.notOk(shares.recognise(third.held, 'acme', 'node-1'));
  t.ok(third.socket.destroyed, 'a third one of the node');
  t.ok(shares.recognise(arrive('192.0.2.1').held, 'acme', 'node-2'));
  t.ok(shares.recognise(arrive('192.0.2.1').held, 'acme', 'node-3'));
  const fifth = arrive('192.0.2.1');
  t.notOk(shares.recognise(fifth.held, 'acme', 'node-4'), 'an org holds half of the places');
  t.ok(shares.recognise(arrive('192.0.2.1').held, 'other', 'node-1'));
  clock.advance(30_000);
  t.equal(shares.open, 5, 'strangers are gone');
  t.equal(shares.openOfStrangers, 0);
  t.equal(clock.pending, 0);
  node.socket.destroy();
  t.ok(shares.recognise(arrive('192.0.2.1').held, 'acme', 'node-4'), 'a place that was given back');
});

t.test('work waits for its turn, and nobody waits behind those who hold all that they may', async (t) => {
  const line = new SharedLine(8);
  const begun: string[] = [];
  const enter = (org: string, caller = 'n') => line.enter(org, caller, () => begun.push(org));
  const held = Array.from({ length: 10 }, (_, i) => enter('a', `n${i}`));
  t.equal(begun.length, 4, 'an org has half of the places');
  t.equal(line.waiting, 6);
  const other = enter('b');
  t.same(begun.slice(4), ['b'], 'another one begins at once');
  held[9]?.();
  t.equal(line.waiting, 5, 'who leaves the line holds nothing');
  held[0]?.();
  held[0]?.();
  t.equal(begun.filter((org) => org === 'a').length, 5, 'one place, one more, however often it is given back');
  for (const leave of [...held, other]) leave();
  t.equal(line.waiting, 0);
});
