// A client that ends its side of a tunnel which passes still gets all of the answer, whatever the port speaks (decision
// 12.1).
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { connect as connectTls, createServer as createTlsServer } from 'node:tls';
import t, { type Test } from 'tap';
import { testCa } from '../support/certificates.ts';
import { startTestGateway } from '../support/gateway.ts';
import { connectOn, connectSecure, portCertificate } from '../support/port-tls.ts';
import { connectPlain, readToEnd } from '../support/raw-clients.ts';

const TOOLS = 'tools.example.com:443';

interface Passing {
  /** Another connection to the gateway's port. */
  open(): Promise<Socket>;
}

/** A gateway that passes tunnels on to `server`. */
async function passing(t: Test, port: 'plain TCP' | 'TLSv1.2' | 'TLSv1.3', server: Server): Promise<Passing> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const address = server.address();
  const farPort = typeof address === 'object' ? address?.port : undefined;
  const certificate = portCertificate(t);
  const gw = await startTestGateway(t, {
    env: { ...(port === 'plain TCP' ? {} : certificate.env), GW_UPSTREAM_CONNECT_TO: `${TOOLS}=127.0.0.1:${farPort}` },
  });
  return {
    open: async () => {
      if (port !== 'plain TCP') return connectSecure(t, gw.port, certificate.ca.certPem, port === 'TLSv1.2' ? { maxVersion: port } : {});
      const socket = await connectPlain(gw.port);
      t.teardown(() => socket.destroy());
      return socket;
    },
  };
}

t.test('a client that has said all gets all of the answer through a tunnel that passes, over TLS as over plain TCP', async (t) => {
  const connect = `CONNECT ${TOOLS} HTTP/1.1\r\nHost: ${TOOLS}\r\n\r\n`;
  const long = 'x'.repeat(4_000_000);
  const upstream = testCa();
  const pair = upstream.leaf({ hosts: ['tools.example.com'] });
  const answered = (socket: Socket): void => {
    let asked = '';
    socket.on('data', (bytes: Buffer) => {
      asked += bytes.toString();
    });
    // It begins only when the client has ended.
    socket.on('end', () => socket.end(`${asked}|${long}`));
  };

  for (const version of ['plain TCP', 'TLSv1.2', 'TLSv1.3'] as const) {
    await t.test(`${version}: ended inside of the tunnel, behind the CONNECT, and with nothing but it`, async (t) => {
      const { open } = await passing(t, version, createServer({ allowHalfOpen: true }, answered));
      const inside = await open();
      t.match(await connectOn(inside, TOOLS), /^HTTP\/1\.1 200 /);
      inside.end('said');
      t.equal((await readToEnd(inside)).toString(), `said|${long}`);
      for (const said of ['said', '']) {
        const behind = await open();
        behind.end(connect + said);
        const text = (await readToEnd(behind)).toString();
        t.match(text.slice(0, 60), /^HTTP\/1\.1 200 /);
        t.equal(text.slice(text.indexOf('\r\n\r\n') + 4), `${said}|${long}`);
      }
    });
  }

  await t.test('ended in the TLS that a client speaks inside of it', async (t) => {
    const server = createTlsServer({ cert: pair.certPem, key: pair.keyPem, allowHalfOpen: true }, answered);
    const { open } = await passing(t, 'TLSv1.3', server);
    const proxy = await open();
    t.match(await connectOn(proxy, TOOLS), /^HTTP\/1\.1 200 /);
    const inner = connectTls({ socket: proxy, ca: upstream.certPem, servername: 'tools.example.com' });
    t.teardown(() => inner.destroy());
    inner.end('said');
    t.equal((await readToEnd(inner)).toString(), `said|${long}`);
  });

  await t.test('and what a client says after its upstream has ended arrives', async (t) => {
    let heard: (text: string) => void = () => undefined;
    const all = new Promise<string>((resolve) => {
      heard = resolve;
    });
    const { open } = await passing(
      t,
      'TLSv1.3',
      createServer({ allowHalfOpen: true }, (socket) => {
        let text = '';
        socket.on('data', (bytes: Buffer) => {
          text += bytes.toString();
        });
        socket.on('end', () => heard(text));
        socket.end('a banner');
      }),
    );
    const proxy = await open();
    t.match(await connectOn(proxy, TOOLS), /^HTTP\/1\.1 200 /);
    proxy.allowHalfOpen = true;
    let banner = '';
    proxy.on('data', (bytes: Buffer) => {
      banner += bytes.toString();
    });
    await once(proxy, 'end');
    t.equal(banner, 'a banner');
    proxy.end('said late');
    t.equal(await all, 'said late');
  });
});
