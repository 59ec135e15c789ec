import type { Socket } from 'node:net';
import { startRawUpstream } from '../../support/raw-upstream.ts';
import { at, collect, eachClient, until } from '../../support/upstream-calls.ts';

const OK = 'HTTP/1.1 200 OK\r\n';
const CHUNKED = `${OK}Transfer-Encoding: chunked\r\n\r\n`;

interface Case {
  readonly name: string;
  readonly bytes: string;
  readonly method?: string;
  /** The upstream closes after its bytes. */
  readonly closes?: true;
  /** Body and, if any, trailers of a good answer. */
  readonly body?: string;
  readonly trailers?: readonly string[];
  /** Whether the connection serves the next call. */
  readonly kept?: boolean;
  /** Where undici gives the call, or the connection, up. */
  readonly undici?: 'refused' | 'not kept';
}

const GOOD: readonly Case[] = [
  { name: 'Content-Length', bytes: `${OK}Content-Length: 5\r\n\r\nhello`, body: 'hello', kept: true },
  { name: 'a length of zero', bytes: `${OK}Content-Length: 0\r\n\r\n`, body: '', kept: true },
  { name: 'a status line without a reason', bytes: 'HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx', body: 'x', kept: true },
  { name: 'blanks around a value', bytes: `${OK}Content-Length: \t 2 \t\r\n\r\nok`, body: 'ok', kept: true, undici: 'refused' },
  { name: 'chunks', bytes: `${CHUNKED}5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n`, body: 'hello!', kept: true },
  {
    name: 'chunks with extensions, leading zeros and capital digits',
    bytes: `${CHUNKED}000a;a=b;c="d e"\r\n0123456789\r\nA;x\r\n0123456789\r\n000;last=1\r\n\r\n`,
    body: '01234567890123456789',
    kept: true,
  },
  {
    name: 'trailers',
    bytes: `${CHUNKED}2\r\nok\r\n0\r\nX-Sum: 1\r\nx-sum:\r\n\r\n`,
    body: 'ok',
    trailers: ['X-Sum', '1', 'x-sum', ''],
    kept: true,
  },
  { name: 'chunked in capitals', bytes: `${OK}Transfer-Encoding: Chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n`, body: 'x', kept: true },
  {
    name: 'no framing: up to the end of the connection',
    bytes: `${OK}\r\nup to the end`,
    closes: true,
    body: 'up to the end',
    kept: false,
  },
  { name: 'Connection: close', bytes: `${OK}Content-Length: 1\r\nConnection: close\r\n\r\nx`, body: 'x', kept: false },
  { name: 'close among other options', bytes: `${OK}Content-Length: 1\r\nConnection: x-a , Close\r\n\r\nx`, body: 'x', kept: false },
  { name: 'HTTP/1.0', bytes: 'HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx', body: 'x', kept: false },
  { name: 'HTTP/1.0 up to its end', bytes: 'HTTP/1.0 200 OK\r\n\r\nold', closes: true, body: 'old', kept: false },
  { name: 'HTTP/1.0 that keeps', bytes: 'HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: Keep-Alive\r\n\r\nx', body: 'x', kept: true },
  { name: 'a keep-alive that ends at once', bytes: `${OK}Content-Length: 1\r\nKeep-Alive: timeout=1\r\n\r\nx`, body: 'x', kept: false },
  { name: 'HEAD', method: 'HEAD', bytes: `${OK}Content-Length: 7\r\n\r\n`, body: '', kept: false },
  { name: 'HEAD of chunks', method: 'HEAD', bytes: CHUNKED, body: '', kept: false },
  { name: '204', bytes: 'HTTP/1.1 204 No Content\r\n\r\n', body: '', kept: true },
  {
    name: '304 with the length of what it stands for',
    bytes: 'HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n',
    body: '',
    kept: true,
    undici: 'not kept',
  },
  { name: 'early hints', bytes: `HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n${OK}Content-Length: 1\r\n\r\nx`, body: 'x', kept: true },
  {
    name: 'a 100 that nobody waits for',
    bytes: `HTTP/1.1 100 Continue\r\n\r\n${OK}Content-Length: 1\r\n\r\nx`,
    body: 'x',
    kept: true,
    undici: 'refused',
  },
  {
    name: 'bytes after the end: the answer is good, the connection is not',
    bytes: `${OK}Content-Length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n`,
    body: 'x',
    kept: false,
  },
  {
    name: 'another answer after the end of chunks',
    bytes: `${CHUNKED}1\r\nx\r\n0\r\n\r\n${OK}Content-Length: 4\r\n\r\nevil`,
    body: 'x',
    kept: false,
  },
  { name: 'a body after HEAD', method: 'HEAD', bytes: `${OK}Content-Length: 4\r\n\r\nevil`, body: '', kept: false },
  { name: 'a body after 204', bytes: 'HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\nevil', body: '', kept: false, undici: 'refused' },
];

const BAD: readonly Case[] = [
  { name: 'two lengths that differ', bytes: `${OK}Content-Length: 1\r\nContent-Length: 2\r\n\r\nxy` },
  { name: 'two lengths that agree', bytes: `${OK}Content-Length: 1\r\nContent-Length: 1\r\n\r\nx` },
  { name: 'a list of lengths', bytes: `${OK}Content-Length: 1, 1\r\n\r\nx` },
  { name: 'a length with a sign', bytes: `${OK}Content-Length: +1\r\n\r\nx` },
  { name: 'a hexadecimal length', bytes: `${OK}Content-Length: 0x1\r\n\r\nx` },
  { name: 'an empty length', bytes: `${OK}Content-Length:\r\n\r\nx` },
  { name: 'a length beyond numbers', bytes: `${OK}Content-Length: 99999999999999999999\r\n\r\nx` },
  { name: 'a length and chunks', bytes: `${OK}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n` },
  { name: 'chunks and a length', bytes: `${OK}Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n1\r\nx\r\n0\r\n\r\n` },
  { name: 'a chunk size that is none', bytes: `${CHUNKED}xyz\r\n` },
  { name: 'an empty chunk size', bytes: `${CHUNKED}\r\n` },
  { name: 'a chunk size with a sign', bytes: `${CHUNKED}-1\r\nx\r\n` },
  { name: 'a chunk size in C', bytes: `${CHUNKED}0x1\r\nx\r\n` },
  { name: 'a chunk size beyond numbers', bytes: `${CHUNKED}fffffffffffffffff\r\nx` },
  { name: 'a blank after a chunk size', bytes: `${CHUNKED}1 \r\nx\r\n` },
  { name: 'a chunk longer than it says', bytes: `${CHUNKED}1\r\nxy\r\n0\r\n\r\n` },
  { name: 'a chunk line that ends in LF', bytes: `${CHUNKED}1\nx\r\n0\r\n\r\n` },
  { name: 'a chunk that ends in LF', bytes: `${CHUNKED}1\r\nx\n0\r\n\r\n` },
  { name: 'a chunk extension with a bare CR', bytes: `${CHUNKED}1;a\rb\r\nx\r\n0\r\n\r\n` },
  { name: 'a folded line', bytes: `${OK}X-A: 1\r\n  2\r\nContent-Length: 0\r\n\r\n` },
  { name: 'a first line that is folded', bytes: `${OK} X-A: 1\r\nContent-Length: 0\r\n\r\n` },
  { name: 'a bare LF', bytes: `${OK}X-A: 1\nContent-Length: 0\r\n\r\n` },
  { name: 'a head in LF only', bytes: 'HTTP/1.1 200 OK\nContent-Length: 0\n\n' },
  { name: 'a bare CR in a value', bytes: `${OK}X-A: 1\rX-B: 2\r\nContent-Length: 0\r\n\r\n` },
  { name: 'NUL in a value', bytes: `${OK}X-A: 1\x002\r\nContent-Length: 0\r\n\r\n` },
  { name: 'a control character in a value', bytes: `${OK}X-A: 1\x7f\r\nContent-Length: 0\r\n\r\n` },
  { name: 'a blank before the colon', bytes: `${OK}Content-Length : 1\r\n\r\nx` },
  { name: 'an empty name', bytes: `${OK}: 1\r\nContent-Length: 0\r\n\r\n` },
  { name: 'a name with a bracket', bytes: `${OK}X(A): 1\r\nContent-Length: 0\r\n\r\n` },
  { name: 'a line without a colon', bytes: `${OK}nonsense\r\nContent-Length: 0\r\n\r\n` },
  { name: 'a trailer that is no field', bytes: `${CHUNKED}0\r\nnonsense\r\n\r\n` },
  { name: 'no status', bytes: 'HTTP/1.1 OK\r\n\r\n' },
  { name: 'a status of two digits', bytes: 'HTTP/1.1 20 OK\r\n\r\n' },
  { name: 'a status of four digits', bytes: 'HTTP/1.1 2000 OK\r\n\r\n' },
  { name: 'a status below 100', bytes: 'HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n' },
  { name: 'another protocol', bytes: 'SSH-2.0-OpenSSH_9.2\r\n' },
  { name: 'ICY', bytes: 'ICY 200 OK\r\n\r\n' },
  { name: 'HTTP/1.9', bytes: 'HTTP/1.9 200 OK\r\nContent-Length: 0\r\n\r\n' },
];

/** Our own client refuses what undici lets pass. */
const STRICTER: readonly Case[] = [
  { name: 'a coding that nobody asked for', bytes: `${OK}Transfer-Encoding: gzip, chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n` },
  { name: 'a coding without chunks', bytes: `${OK}Transfer-Encoding: gzip\r\n\r\nx`, closes: true },
  { name: 'chunked twice', bytes: `${OK}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n` },
  { name: 'chunks in HTTP/1.0', bytes: 'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n' },
  { name: 'HTTP/2.0', bytes: 'HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n' },
  { name: 'an empty line before the answer', bytes: `\r\n${OK}Content-Length: 0\r\n\r\n` },
];

/** The answer in one piece, or byte for byte. */
const PACES = ['at once', 'bytewise'] as const;

async function write(socket: Socket, { bytes, closes }: Case, pace: (typeof PACES)[number]): Promise<void> {
  const pieces = pace === 'at once' ? [bytes] : bytes;
  for (const piece of pieces) {
    await new Promise((resolve) => socket.write(piece, 'latin1', resolve));
    if (pace === 'bytewise') await new Promise((resolve) => setImmediate(resolve));
  }
  if (closes) socket.end();
}

for (const pace of PACES) {
  eachClient(`answers that are good, ${pace}`, async (t, openUpstream, client) => {
    for (const one of GOOD) {
      const server = await startRawUpstream((socket) => void write(socket, one, pace));
      const upstream = openUpstream(t);
      const call = { authority: at(server), method: one.method ?? 'GET' };
      const outcome = await collect(upstream, call);
      if (client === 'undici' && one.undici === 'refused') {
        t.match(outcome.error, { status: 502 }, one.name);
      } else {
        const kept = one.kept && (client === 'direct' || one.undici !== 'not kept');
        t.same([outcome.error, outcome.body, outcome.trailers], [undefined, one.body, one.trailers ?? []], one.name);
        if (!kept) await until(() => server.open === 0);
        await collect(upstream, call);
        t.equal(server.connections, kept ? 1 : 2, `${one.name}: the connection`);
      }
      await server.close();
    }
  });

  // Holds: no-resend
  eachClient(`answers that are no HTTP/1.1 are 502 and never guessed at, ${pace}`, async (t, openUpstream, client) => {
    for (const one of client === 'direct' ? [...BAD, ...STRICTER] : BAD) {
      const server = await startRawUpstream((socket) => void write(socket, one, pace));
      const outcome = await collect(openUpstream(t), { authority: at(server) });
      const words = { code: 'upstream_protocol', message: /not valid HTTP\/1\.1/ };
      // undici takes some of them for an answer that was cut.
      t.match(outcome.error, client === 'direct' ? words : { status: 502 }, one.name);
      await until(() => server.open === 0);
      await server.close();
    }
  });
}

eachClient('a status beyond 599 is 502: no client of h2 could be given it', async (t, openUpstream) => {
  for (const status of [600, 999]) {
    const server = await startRawUpstream((socket) => void socket.write(`HTTP/1.1 ${status} What\r\nContent-Length: 1\r\n\r\nx`));
    const outcome = await collect(openUpstream(t), { authority: at(server) });
    t.match(outcome.error, { code: 'upstream_protocol', message: /status that HTTP does not have/ }, `${status}`);
    t.equal(outcome.status, 0);
    await server.close();
  }
});

eachClient('interim answers without an end are 502, and few of them are passed on', async (t, openUpstream) => {
  const server = await startRawUpstream((socket) => void socket.write(`HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n`.repeat(1_000)));
  t.teardown(() => server.close());
  const outcome = await collect(openUpstream(t), { authority: at(server) });
  t.match(outcome.error, { code: 'upstream_protocol' });
  t.equal(outcome.infos.length, 32);
  await until(() => server.open === 0);
});
