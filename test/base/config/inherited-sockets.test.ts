import t from 'tap';
import { inheritedSockets } from '../../../src/base/config/inherited-sockets.ts';

const given = (fds: string, names?: string, pid = '7'): Record<string, string> => ({
  LISTEN_PID: pid,
  LISTEN_FDS: fds,
  ...(names === undefined ? {} : { LISTEN_FDNAMES: names }),
});

t.test('sockets that were handed over are told apart by name, else by order', async (t) => {
  const table: readonly (readonly [Record<string, string>, Record<string, number>])[] = [
    [{}, {}],
    [given('2', undefined, '8'), {}],
    [given('1'), { developer: 3 }],
    [given('2'), { developer: 3, ambient: 4 }],
    [given('2', 'proxy:ambient'), { developer: 3, ambient: 4 }],
    [given('2', 'ambient:proxy'), { developer: 4, ambient: 3 }],
    [given('1', 'ambient'), { ambient: 3 }],
    // What systemd says of a unit with two sockets and no name.
    [given('2', 'ai-request-gateway.socket:ai-request-gateway.socket'), { developer: 3, ambient: 4 }],
    [given('2', 'ambient'), { developer: 3, ambient: 4 }],
  ];
  for (const [env, sockets] of table) t.same(inheritedSockets(env, 7), sockets, JSON.stringify(env));
});

t.test('more than one for a port, or a number that is none, stops the start', async (t) => {
  for (const env of [given('3'), given('2', 'proxy:proxy'), given('0'), given('-1'), given('two'), given('')]) {
    t.throws(() => inheritedSockets(env, 7), { message: /^LISTEN_FDS: / }, JSON.stringify(env));
  }
});
