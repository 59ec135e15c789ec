/*
 * The floor for the plain doors: a bare reverse proxy of Node's http server and undici's dispatch, which forwards and
 * does nothing else. It buffers the request as any gateway that reads it must, and passes the answer on as it comes.
 */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Pool } from 'undici';
import { forward } from './floor-forward.ts';

const [port = '', caFile = ''] = process.argv.slice(2);
const pool = new Pool(`https://127.0.0.1:${port}`, {
  connections: 512,
  pipelining: 1,
  connect: { ca: readFileSync(caFile), servername: 'api.openai.com' },
});
const server = createServer((request, response) => forward(pool, request, response, (request.url ?? '').replace('/proxy/openai', '')));
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => process.stdout.write(`${JSON.stringify({ port: (server.address() as AddressInfo).port })}\n`));
process.stdin.on('end', () => process.exit(0)).resume();
