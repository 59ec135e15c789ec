import { createServer } from 'node:https';
import type { Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import t from 'tap';
import { settledBytesInUse } from '../support/bytes-in-use.ts';
import { eventually } from '../support/child.ts';
import { startTestGateway } from '../support/gateway.ts';
import { ALLOW_ALL, CHAT } from '../support/governed.ts';
import { connectPlain } from '../support/raw-clients.ts';
import type { HasTeardown } from '../support/temp-dir.ts';
import { certificateOf, closeServer, listenOnFreePort, trackSockets } from '../support/tls-upstream.ts';
import { towards } from '../support/upstreams.ts';

/*
 * What a call holds of its body while it is under way, judged by what the process has in use after a collection.
 */

const OPENAI = 'api.openai.com';
const MEGABYTE = 1_048_576;
const PATHS = { redirect: '/proxy/openai/v1/chat/completions', direct: '/v1/actions:execute' } as const;

const content = (bytes: number) => JSON.stringify({ ...CHAT, messages: [{ role: 'user', content: 'word '.repeat(bytes / 5) }] });
/** Bodies that become several times as large when they are read. */
const BODIES: Readonly<Record<string, string>> = {
  'plain text': content(MEGABYTE / 2),
  'text of two bytes for each character': content(MEGABYTE / 2).replace('word', 'w\u4e16rd'),
  'many small members': JSON.stringify({
    ...CHAT,
    messages: Array.from({ length: 20_000 }, (_, at) => ({ role: 'user', [`n${at % 500}`]: at })),
  }),
};

function bodyOf(door: keyof typeof PATHS, text: string): Buffer {
  if (door === 'redirect') return Buffer.from(text);
  const action = {
    type: 'ai.infer',
    method: 'POST',
    target_host: OPENAI,
    target_path: '/v1/chat/completions',
    params: JSON.parse(text) as unknown,
  };
  const schema = 'gw.action_request.v2';
  return Buffer.from(JSON.stringify({ schema, org_id: 'default', workload_id: 'default', credential_hint: 'sk-caller', action }));
}

async function call(t: HasTeardown, port: number, path: string, body: Buffer): Promise<Socket> {
  const socket = await connectPlain(port);
  t.teardown(() => socket.destroy());
  socket.write(
    `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${path === PATHS.direct ? 'none' : 'sk-client'}\r\nContent-Length: ${body.length}\r\n\r\n`,
  );
  socket.write(body);
  return socket;
}

t.test('while the answer to a call is awaited nothing of its body is held', async (t) => {
  const CALLS = 6;
  const { caPem, certPem, keyPem } = certificateOf('good', [OPENAI]);
  let taken = 0;
  const upstream = createServer({ cert: certPem, key: keyPem }, (request) => void request.resume().on('end', () => (taken += 1)));
  const sockets = trackSockets(upstream);
  const port = await listenOnFreePort(upstream);
  t.teardown(() => closeServer(upstream, sockets));
  const gw = await startTestGateway(t, { bundle: ALLOW_ALL, env: towards(t, { port, caPem }, [OPENAI]) });
  for (const [door, path] of Object.entries(PATHS)) {
    for (const [what, text] of Object.entries(BODIES)) {
      const body = bodyOf(door as keyof typeof PATHS, text);
      taken = 0;
      // The first call of a kind makes what all others share.
      await call(t, gw.port, path, body);
      await eventually('the first call', () => taken === 1 || undefined);
      const before = await settledBytesInUse();
      for (let count = 0; count < CALLS; count += 1) await call(t, gw.port, path, body);
      await eventually('all calls', () => taken === CALLS + 1 || undefined);
      const half = (CALLS * body.length) / 2;
      t.ok(
        await eventually(
          `${door}, ${what}: less than half of its bytes`,
          async () => (await settledBytesInUse()) - before < half || undefined,
        ),
      );
      t.match((await gw.admin('GET', '/metrics')).text, /^gw_buffered_bytes 0$/m);
    }
  }
});

t.test('a form in pieces of one byte is held in few times its bytes', async (t) => {
  const PIECES = 100_000;
  const gw = await startTestGateway(t, { bundle: ALLOW_ALL });
  const socket = await connectPlain(gw.port);
  t.teardown(() => socket.destroy());
  const opening = '--BB\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n';
  const fields = 'Host: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=BB\r\nTransfer-Encoding: chunked\r\n';
  const before = await settledBytesInUse();
  socket.write(`POST /proxy/openai/v1/audio/transcriptions HTTP/1.1\r\n${fields}\r\n${opening.length.toString(16)}\r\n${opening}\r\n`);
  socket.write('1\r\nx\r\n'.repeat(PIECES));
  const wanted = new RegExp(`^gw_buffered_bytes ${opening.length + PIECES}$`, 'm');
  await eventually('all pieces', async () => wanted.test((await gw.admin('GET', '/metrics')).text) || undefined);
  t.ok(await eventually('less than 20 bytes for each', async () => ((await settledBytesInUse()) - before) / PIECES < 20 || undefined));
});

t.test('while an upstream does not take a body it is held once, and that is what counts', async (t) => {
  const CALLS = 2;
  const { caPem, certPem, keyPem } = certificateOf('good', [OPENAI]);
  let heads = 0;
  // As much as the kernel takes in has left.
  const upstream = createTlsServer({ cert: certPem, key: keyPem }, (socket) => {
    socket
      .on('error', () => undefined)
      .once('data', () => {
        heads += 1;
        socket.pause();
      });
  });
  const sockets = trackSockets(upstream);
  const port = await listenOnFreePort(upstream);
  t.teardown(() => closeServer(upstream, sockets));
  const gw = await startTestGateway(t, { bundle: ALLOW_ALL, env: towards(t, { port, caPem }, [OPENAI]) });
  const body = bodyOf('redirect', content(16 * MEGABYTE));
  const before = await settledBytesInUse();
  for (let count = 0; count < CALLS; count += 1) await call(t, gw.port, PATHS.redirect, body);
  await eventually('all calls', () => heads === CALLS || undefined);
  const counted = Number(/^gw_buffered_bytes (\d+)$/m.exec((await gw.admin('GET', '/metrics')).text)?.[1]);
  t.equal(counted, CALLS * body.length);
  t.ok(
    await eventually(
      'less than 1.5 times what is counted',
      async () => ((await settledBytesInUse()) - before) / counted < 1.5 || undefined,
    ),
  );
});
