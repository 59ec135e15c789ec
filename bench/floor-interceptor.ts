/*
 * The floor for the CONNECT door: a bare in-process interceptor. CONNECT, TLS ended here with one fixed leaf, http/1.1
 * inside, undici to the upstream; no policy, no metering, no record.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { join } from 'node:path';
import { createSecureContext, TLSSocket } from 'node:tls';
import { Pool } from 'undici';
import { testCa } from '../test/support/certificates.ts';
import { forward } from './floor-forward.ts';

const [port = '', upstreamCa = '', dir = '.'] = process.argv.slice(2);
const ca = testCa();
const leaf = ca.leaf({ hosts: ['api.openai.com'] });
const secureContext = createSecureContext({ cert: leaf.certPem, key: leaf.keyPem });
const pool = new Pool(`https://127.0.0.1:${port}`, {
  connections: 512,
  pipelining: 1,
  connect: { ca: readFileSync(upstreamCa), servername: 'api.openai.com' },
});
const inner = createServer((request, response) => forward(pool, request, response, request.url ?? ''));
inner.keepAliveTimeout = 60_000;
const front = createServer();
front.on('connect', (_request, socket: Socket) => {
  socket.write('HTTP/1.1 200 Connection Established\r\n\r\n');
  const tls = new TLSSocket(socket, { isServer: true, secureContext, ALPNProtocols: ['http/1.1'] });
  tls.on('error', () => tls.destroy());
  inner.emit('connection', tls);
});
front.listen(0, '127.0.0.1', () => {
  const caFile = join(dir, 'interceptor-ca.pem');
  writeFileSync(caFile, ca.certPem);
  process.stdout.write(`${JSON.stringify({ port: (front.address() as AddressInfo).port, caFile })}\n`);
});
process.stdin.on('end', () => process.exit(0)).resume();
