import type { TLSSocket } from 'node:tls';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { ALLOW_ALL, CHAT, chat, type Governed, startGoverned } from '../support/governed.ts';
import { END_HEADERS, END_STREAM, FRAME, FrameReader, frame, literalFields } from '../support/h2-frames.ts';
import { connectThrough, h2Request, h2Session } from '../support/raw-clients.ts';

const HOST = 'api.openai.com';
const PREFACE = Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(FRAME.settings, 0, 0)]);
const PSEUDO = [':method', 'POST', ':scheme', 'https', ':authority', HOST, ':path', '/v1/chat/completions'];
const USUAL = ['authorization', 'Bearer sk-client', 'content-type', 'application/json'];
const BODY = Buffer.from(JSON.stringify(CHAT));

interface H2Answer {
  readonly body: string;
  readonly wasReset: boolean;
}

/** One request, written by hand: clients of h2 tidy up what they send. */
async function callByHand({ gw }: Governed, fields: readonly string[], body: Uint8Array = BODY): Promise<H2Answer> {
  const socket = await connectThrough(gw.port, `${HOST}:443`, gw.caPem, { alpn: ['h2'] });
  const head = frame(FRAME.headers, END_HEADERS, 1, literalFields([...PSEUDO, ...USUAL, ...fields]));
  socket.write(Buffer.concat([PREFACE, head, frame(FRAME.data, END_STREAM, 1, body)]));
  return answerOn(socket).finally(() => socket.destroy());
}

function answerOn(socket: TLSSocket): Promise<H2Answer> {
  const reader = new FrameReader();
  let body = '';
  return new Promise((resolve, reject) => {
    socket.on('error', reject).on('close', () => reject(new Error('the connection was closed')));
    socket.on('data', (chunk: Buffer) => {
      for (const { type, stream, flags, payload } of reader.push(chunk)) {
        if (stream !== 1) continue;
        if (type === FRAME.rstStream) resolve({ body, wasReset: true });
        if (type === FRAME.data) body += payload.toString();
        if ((type === FRAME.data || type === FRAME.headers) && (flags & END_STREAM) !== 0) resolve({ body, wasReset: false });
      }
    });
  });
}

t.test('the pieces of a cookie that an h2 client sends go on as one field (RFC 9113 §8.2.3)', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL });
  const cookies = ['cookie', 'a=1', 'x-between', 'y', 'cookie', 'b=2; c=3', 'cookie', 'd=', 'cookie', 'e=5'];
  await callByHand(governed, cookies);
  const sent = governed.upstream.requests.at(-1)?.rawHeaders ?? [];
  t.same(
    sent.filter((_, at) => sent[at - 1]?.toLowerCase() === 'cookie'),
    ['a=1; b=2; c=3; d=; e=5'],
  );
  t.equal(governed.upstream.requests.at(-1)?.headers['x-between'], 'y');
  await callByHand(governed, ['cookie', 'alone=1']);
  t.equal(governed.upstream.requests.at(-1)?.headers['cookie'], 'alone=1');
});

t.test('encodings that an h2 client names in several fields are one list', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL });
  const chain = await callByHand(governed, ['content-encoding', 'gzip', 'content-encoding', 'br'], gzipSync(BODY));
  t.match(chain.body, /unsupported_encoding/);
  t.equal(governed.upstream.requests.length, 0);
  const list = await callByHand(governed, ['content-encoding', 'identity', 'content-encoding', 'gzip'], gzipSync(BODY));
  t.match(list.body, /usage/);
  t.equal(governed.upstream.requests.at(-1)?.headers['content-encoding'], 'gzip');
});

t.test('what belongs to one connection does not cross from h2 to HTTP/1.1', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL });
  for (const fields of [
    ['connection', 'x-mine', 'x-mine', '1'],
    ['transfer-encoding', 'chunked'],
    ['upgrade', 'websocket'],
    ['keep-alive', 'timeout=5'],
    ['proxy-connection', 'close'],
    ['te', 'gzip'],
    ['X-Upper', '1'],
    ['host', HOST, 'host', HOST],
    ['content-length', '1', 'content-length', String(BODY.length)],
    ['content-length', String(BODY.length - 1)],
  ]) {
    const answer = await callByHand(governed, fields).catch(() => ({ body: '', wasReset: true }));
    t.ok(answer.wasReset || /bad_framing/.test(answer.body), `${fields.join(' ')} is malformed`);
  }
  t.equal(governed.upstream.requests.length, 0);
  await callByHand(governed, ['x-split', 'a\r\nx-injected: b']);
  const split = governed.upstream.requests.at(-1)?.rawHeaders ?? [];
  t.notOk(
    split.some((text) => /x-injected|x-split/i.test(text)),
    'a field with a line break is left out',
  );
  await callByHand(governed, [
    'te',
    'trailers',
    'x-empty',
    '',
    'x-twice',
    '1',
    'x-twice',
    '2',
    'expect',
    '100-continue',
    'host',
    HOST.toUpperCase(),
  ]);
  const seen = governed.upstream.requests.at(-1);
  t.match(seen?.headers, { host: HOST, 'x-empty': '', 'x-twice': '1, 2', 'content-length': String(BODY.length) });
  t.notOk(seen?.rawHeaders.some((name, at) => at % 2 === 0 && ['te', 'expect', 'transfer-encoding'].includes(name.toLowerCase())));
  const other = await callByHand(governed, ['host', 'api.anthropic.com']);
  t.match(other.body, /bad_framing/);
});

t.test('what belongs to one connection does not cross from HTTP/1.1 to h2', async (t) => {
  const governed = await startGoverned(t, {
    bundle: ALLOW_ALL,
    handler: (_request, response) => {
      response.writeHead(200, [
        ...[
          'Content-Type',
          'application/json',
          'Connection',
          'X-Hop',
          'X-Hop',
          '1',
          'Keep-Alive',
          'timeout=9',
          'Proxy-Connection',
          'close',
        ],
        ...['Upgrade', 'h2c', 'Set-Cookie', 'a=1', 'SET-COOKIE', 'b=2', 'X-Upper', 'Kept', 'X-Empty', '', 'Trailer', 'X-After'],
        ...['Transfer-Encoding', 'chunked', 'X-Twice', '1', 'x-twice', '2'],
      ]);
      response.write('{"usage":{"prompt_tokens":1,"completion_tokens":1}}');
      response.addTrailers({ 'X-After': 'there', 'Transfer-Encoding': 'chunked' });
      response.end();
    },
  });
  const session = h2Session(await connectThrough(governed.gw.port, `${HOST}:443`, governed.gw.caPem, { alpn: ['h2'] }), HOST);
  const { status, headers, rawHeaders, trailers } = await h2Request(session, chat([], '/v1/chat/completions'));
  session.destroy();
  t.equal(status, 200);
  t.match(headers, { 'x-upper': 'Kept', 'x-empty': '', 'x-twice': '1, 2' });
  t.same(
    rawHeaders.filter((_, at) => rawHeaders[at - 1] === 'set-cookie'),
    ['a=1', 'b=2'],
  );
  for (const name of ['connection', 'x-hop', 'keep-alive', 'proxy-connection', 'upgrade', 'transfer-encoding', 'trailer']) {
    t.notOk(
      rawHeaders.some((field, at) => at % 2 === 0 && field === name),
      name,
    );
  }
  t.same(trailers, ['x-after', 'there']);
});
