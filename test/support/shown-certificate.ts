import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { connect, type SecureContext, TLSSocket } from 'node:tls';
import type { HasTeardown } from './temp-dir.ts';

/** The certificate that a client is shown for one context. */
export async function shownBy(t: HasTeardown, context: SecureContext): Promise<X509Certificate> {
  const server = createServer((socket) => {
    new TLSSocket(socket, { isServer: true, secureContext: context }).on('error', () => undefined);
  });
  t.teardown(() => server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no address');
  const client = connect({ host: '127.0.0.1', port: address.port, rejectUnauthorized: false });
  await once(client, 'secureConnect');
  const { raw } = client.getPeerCertificate();
  client.destroy();
  server.close();
  return new X509Certificate(raw);
}
