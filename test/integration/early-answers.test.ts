import { once } from 'node:events';
import t from 'tap';
import { eventually } from '../support/child.ts';
import { AUDIO, chunk, connected, file, form, head, LIMIT, model, SMALL, sha256, upload } from '../support/forms.ts';
import { ALLOW_ALL, startGoverned } from '../support/governed.ts';
import { readResponse } from '../support/raw-clients.ts';

t.test('an answer that comes before the upload is through reaches the client, and the record says what was read', async (t) => {
  const on = await startGoverned(t, {
    bundle: ALLOW_ALL,
    env: SMALL,
    handler: (request, response) =>
      void request.once('data', () => {
        if (request.headers['x-long']) response.writeHead(409, { 'content-type': 'text/plain' }).end('no '.repeat(50_000));
        else response.writeHead(409, { 'content-type': 'application/json' }).end('{"error":{"message":"no"}}');
      }),
  });
  for (const path of [AUDIO, '/proxy/openai/v1/files']) {
    for (const extra of ['', 'X-Long: 1\r\n']) {
      for (const chunked of [false, true]) {
        const socket = await connected(t, on);
        const body = form(model('a'), file());
        const part = body.subarray(0, 2 * LIMIT);
        socket.write(head(path, chunked ? undefined : body.length, extra));
        socket.write(chunked ? chunk(part) : part);
        const answer = await readResponse(socket, 'POST');
        t.equal(answer.status, 409);
        // The gateway reads on for a moment, so that no reset overtakes the answer, and closes then.
        socket.end();
        await once(socket.resume(), 'close');
        const record = await on.recordOf(answer);
        t.match(record, { status_code: 409, decision: 'allow', request_sha256: undefined });
        const read = Number(record['request_bytes']);
        t.ok(read > 0 && read <= part.length, `${read} bytes were read`);
      }
    }
  }
});

t.test('a body without a length is hashed although its upstream answers at its first byte', async (t) => {
  const on = await startGoverned(t, {
    bundle: ALLOW_ALL,
    handler: (request, response) => void request.once('data', () => response.end('{}')),
  });
  const body = Buffer.from('a small file');
  for (let round = 0; round < 20; round += 1) {
    const answer = await upload(t, on, body, { path: '/proxy/openai/v1/files', chunked: true });
    t.match(await on.recordOf(answer), { request_bytes: body.length, request_sha256: sha256(body) });
  }
});

t.test('a client that leaves in the middle stops the call at the provider', async (t) => {
  const on = await startGoverned(t, { bundle: ALLOW_ALL, env: SMALL });
  const socket = await connected(t, on);
  const body = form(model('a'), file());
  socket.write(head(AUDIO, body.length));
  socket.write(body.subarray(0, 50_000));
  const seen = await eventually('the upload at the provider', () => on.upstream.requests[0]);
  socket.destroy();
  t.equal(await seen.complete, false);
});
