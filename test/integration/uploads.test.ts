import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { eventually } from '../support/child.ts';
import { startGatewayProcess } from '../support/gateway-process.ts';
import { ALLOW_ALL } from '../support/governed.ts';
import { connectPlain, readResponse } from '../support/raw-clients.ts';
import { tempDir } from '../support/temp-dir.ts';
import { certificateOf } from '../support/tls-upstream.ts';

const MEGABYTE = 1_000_000;

function residentBytes(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1] ?? 0) * 1024;
}

interface Upload {
  readonly what: string;
  readonly path: string;
  readonly contentType: string;
  readonly before: string;
  readonly megabytes: number;
  readonly after: string;
  readonly record: Readonly<Record<string, unknown>>;
}

const UPLOADS: readonly Upload[] = [
  {
    what: 'a file of 250 MB',
    path: '/v1/files',
    contentType: 'application/octet-stream',
    before: '',
    megabytes: 250,
    after: '',
    record: { action_type: 'http.request' },
  },
  {
    what: 'a form of 300 MB whose fields policy reads',
    path: '/v1/audio/transcriptions',
    contentType: 'multipart/form-data; boundary=BB',
    before:
      '--BB\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n--BB\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n',
    megabytes: 300,
    after: '\r\n--BB--\r\n',
    record: { action_type: 'ai.infer', model: 'whisper-1' },
  },
];

for (const { what, path, contentType, before: opening, megabytes, after: ending, record } of UPLOADS) {
  const title = `${what} streams through, at the pace of the provider and in bounded memory`;
  t.test(title, { skip: process.platform !== 'linux' }, async (t) => {
    const length = opening.length + megabytes * MEGABYTE + ending.length;
    const { caPem, certPem, keyPem } = certificateOf('good', ['api.openai.com']);
    let arrived: (request: IncomingMessage) => void = () => undefined;
    const upload = new Promise<IncomingMessage>((resolve) => {
      arrived = resolve;
    });
    const upstream = createServer({ cert: certPem, key: keyPem }, (request, response) => {
      arrived(request);
      request.on('end', () => response.setHeader('content-type', 'application/json').end('{"id":"file-1"}'));
    }).listen(0, '127.0.0.1');
    t.teardown(() => upstream.close());
    await once(upstream, 'listening');
    const caFile = join(tempDir(t), 'upstream.pem');
    writeFileSync(caFile, caPem);
    const gateway = await startGatewayProcess(t, {
      bundle: ALLOW_ALL,
      env: {
        GW_UPSTREAM_CONNECT_TO: `api.openai.com:443=127.0.0.1:${(upstream.address() as AddressInfo).port}`,
        GW_UPSTREAM_CA_FILE: caFile,
        GW_MAX_BODY_BYTES: '100000',
        GW_MAX_BUFFERED_BYTES: '200000',
      },
    });
    const pid = gateway.child.pid ?? 0;
    const before = residentBytes(pid);

    const socket = await connectPlain(gateway.port);
    t.teardown(() => socket.destroy());
    const piece = Buffer.alloc(MEGABYTE, 'file ');
    socket.write(
      `POST /proxy/openai${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer sk-client\r\nContent-Type: ${contentType}\r\nContent-Length: ${length}\r\n\r\n${opening}`,
    );
    let given = 0;
    const answered = readResponse(socket, 'POST');
    const giving = (async () => {
      for (; given < megabytes; given += 1) if (!socket.write(piece)) await once(socket, 'drain');
      socket.write(ending);
    })();

    const request = await upload;
    let last = -1;
    await eventually('a client that waits', async () => {
      const same = given === last;
      last = given;
      await new Promise((resolve) => setTimeout(resolve, 300));
      return same && given === last ? true : undefined;
    });
    t.ok(given < 60, `a provider that does not read stops the client, after ${given} MB`);
    t.ok(residentBytes(pid) - before < 100 * MEGABYTE, 'nothing piles up meanwhile');

    const hash = createHash('sha256');
    let received = 0;
    let most = 0;
    request.on('data', (chunk: Buffer) => {
      hash.update(chunk);
      if (Math.floor((received + chunk.length) / (10 * MEGABYTE)) > Math.floor(received / (10 * MEGABYTE)))
        most = Math.max(most, residentBytes(pid));
      received += chunk.length;
    });
    await giving;
    const answer = await answered;
    t.equal(answer.status, 200);
    t.equal(received, length);
    t.ok(most - before < 150 * MEGABYTE, `at most ${Math.round((most - before) / MEGABYTE)} MB more than before`);
    t.match(await gateway.record(answer.headers['x-gw-record-id']), {
      decision: 'allow',
      ...record,
      request_bytes: length,
      request_sha256: hash.digest('hex'),
    });
  });
}
