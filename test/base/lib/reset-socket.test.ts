import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import t from 'tap';
import { resetSocket } from '../../../src/base/lib/sockets.ts';
import { connectPlain } from '../../support/raw-clients.ts';
import { closeServer, listenOnFreePort, trackSockets } from '../../support/tls-upstream.ts';

t.test('a connection that is broken is closed, whatever was on its way', async (t) => {
  const server = createServer();
  const sockets = trackSockets(server);
  const port = await listenOnFreePort(server);
  t.teardown(() => closeServer(server, sockets));
  const before: Readonly<Record<string, (socket: Socket) => void>> = {
    nothing: () => undefined,
    'an end': (socket) => void socket.end(),
    'bytes and an end': (socket) => void socket.end(Buffer.alloc(8_000_000)),
  };
  for (const [what, act] of Object.entries(before)) {
    const accepted = once(server, 'connection') as Promise<[Socket]>;
    const client = await connectPlain(port);
    client.on('error', () => undefined);
    t.teardown(() => client.destroy());
    const [socket] = await accepted;
    const errors: unknown[] = [];
    socket.on('error', (error) => errors.push(error));
    let closed = false;
    socket.once('close', () => {
      closed = true;
    });
    const told = new Promise((resolve) => client.resume().once('close', resolve));
    act(socket);
    resetSocket(socket);
    await told;
    await new Promise((resolve) => setImmediate(resolve));
    t.ok(closed, what);
    t.same(errors, [], what);
  }
});
