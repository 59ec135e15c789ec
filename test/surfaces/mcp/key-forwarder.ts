// The conformance suite cannot send a key: what it posts is passed on with one, and with everything else as it came.
// Only where it names the forwarder itself, which it takes for the server, the server's own port is put in.
import { createServer, request } from 'node:http';
import type { HasTeardown } from '../../support/temp-dir.ts';

/** @returns the address of a forwarder of this machine to the same path at `port` */
export async function forwardWithKey(t: HasTeardown, port: number, key: string): Promise<string> {
  const server = createServer((incoming, answer) => {
    const { method, url, headers } = incoming;
    const own = `localhost:${incoming.socket.localPort}`;
    const named = Object.fromEntries(
      Object.entries({ host: headers.host, origin: headers.origin }).flatMap(([name, value]) =>
        value === undefined ? [] : [[name, value.endsWith(own) ? value.replace(own, `localhost:${port}`) : value]],
      ),
    );
    const sent = { ...headers, ...named, authorization: `Bearer ${key}` };
    const onward = request({ host: '127.0.0.1', port, method, path: url, headers: sent }, (answered) => {
      answer.writeHead(answered.statusCode ?? 502, answered.headers);
      answered.pipe(answer);
    });
    onward.on('error', () => answer.destroy());
    incoming.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  return `http://localhost:${typeof address === 'object' && address !== null ? address.port : 0}`;
}
