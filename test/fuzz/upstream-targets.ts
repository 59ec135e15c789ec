import { type IncomingMessage, request } from 'node:http';
import { Duplex } from 'node:stream';
import { http1Fields, http2Fields, http2Trailers } from '../../src/inbound/listener/reply-fields.ts';
import { filterResponseHeaders } from '../../src/outbound/net/header-filter.ts';
import { ResponseParser } from '../../src/outbound/net/response-parser.ts';
import { MAX_STATUS } from '../../src/outbound/net/upstream-error.ts';
import { type FuzzTarget, hashOf, must, piecesOf } from './target.ts';

const MILLION = 1_000_000;
/** One input in so many is also read by the HTTP client of the platform, which is dear. */
const JUDGED = 64;

interface Answer {
  interims: number;
  status: number;
  headers: readonly string[];
  body: string;
  trailers: readonly string[];
  isEnded: boolean;
  fault: string | undefined;
  kind: string | undefined;
  hasExcess: boolean;
}

/** What our parser makes of an answer that arrives in these pieces and then ends with its connection. */
function readAnswer(pieces: readonly Buffer[]): Answer {
  const answer: Answer = {
    ...{ interims: 0, status: 0, headers: [], body: '', trailers: [], isEnded: false },
    ...{ fault: undefined, kind: undefined, hasExcess: false },
  };
  const parser = new ResponseParser({
    onInterim: (status) => {
      must(status >= 100 && status < 200 && answer.status === 0, 'interim answers come first');
      answer.interims++;
    },
    onHead: (status, headers) => {
      must(status >= 200 && answer.status === 0, 'there is one final head');
      must(headers.length % 2 === 0 && headers.every(isField), 'names are tokens, values hold no control character');
      Object.assign(answer, { status, headers });
    },
    onBody: (bytes) => {
      must(answer.status !== 0 && !answer.isEnded && bytes.length > 0, 'a body comes between head and end');
      answer.body += Buffer.from(bytes).toString('latin1');
      return true;
    },
    onEnd: (trailers) => {
      must(answer.status !== 0 && !answer.isEnded, 'an answer ends once');
      Object.assign(answer, { trailers, isEnded: true });
    },
  });
  parser.begin(false);
  for (const piece of pieces) {
    // The parser moves bytes about in what it is given.
    if (!parser.isOver && parser.fault === undefined) parser.execute(Buffer.from(piece));
    else if (parser.isOver && piece.length > 0) answer.hasExcess = true;
  }
  if (!parser.isOver && parser.fault === undefined) parser.finish();
  answer.fault = parser.fault;
  answer.kind = parser.framing?.kind;
  answer.hasExcess ||= parser.hasExcess;
  must(parser.fault === undefined || !answer.isEnded, 'an answer with a fault does not end');
  return answer;
}

function isField(text: string, index: number): boolean {
  return index % 2 === 0 ? /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(text) : !/[^\t\x20-\x7e\x80-\xff]|^[ \t]|[ \t]$/.test(text);
}

/** What the platform's HTTP client makes of the same bytes; undefined: it refuses them. */
function judge(input: Buffer): Promise<Pick<Answer, 'status' | 'headers' | 'body' | 'trailers'> | undefined> {
  return new Promise((resolve) => {
    const socket = new Duplex({ read: () => undefined, write: (_chunk, _encoding, done) => done() });
    const asked = request({ createConnection: () => socket, agent: false, path: '/' });
    const refuse = (): void => {
      socket.destroy();
      resolve(undefined);
    };
    asked.on('error', refuse).on('upgrade', refuse);
    asked.on('response', (response: IncomingMessage) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', refuse);
      response.on('close', () => {
        socket.destroy();
        const { statusCode = 0, rawHeaders, rawTrailers } = response;
        const body = Buffer.concat(chunks).toString('latin1');
        resolve(response.complete ? { status: statusCode, headers: rawHeaders, body, trailers: rawTrailers } : undefined);
      });
    });
    asked.end();
    socket.push(input);
    socket.push(null);
  });
}

/**
 * Whatever the parser hands on can be written to a client of either protocol; each field that may stand there once does
 * so on h2.
 */
function writable({ status, headers, trailers }: Answer): void {
  const { headers: passed } = filterResponseHeaders(headers);
  http1Fields(passed, status, undefined, false, false);
  const fields = { ...http2Fields(passed, status, undefined, false), ...http2Trailers(trailers) };
  for (const name of ['user-agent', 'host', 'content-type', 'date']) must(!Array.isArray(fields[name]), 'one value');
}

const upstreamAnswer: FuzzTarget = {
  name: 'upstream-answer',
  inputs: MILLION,
  headLines: 0,
  dictionary: [
    '\r\n',
    '\n',
    '\r',
    '\r\n\r\n',
    '\0',
    ' ',
    '\t',
    'HTTP/1.1 200 OK\r\n',
    'HTTP/1.0 200\r\n',
    'HTTP/1.1 100 Continue\r\n\r\n',
    'HTTP/1.1 101 Switching Protocols\r\n\r\n',
    'HTTP/1.1 204 No Content\r\n\r\n',
    'Content-Length: ',
    'Content-Length: 1\r\n',
    'Transfer-Encoding: chunked\r\n',
    'Transfer-Encoding: gzip, chunked\r\n',
    'Connection: close\r\n',
    'Keep-Alive: timeout=1\r\n',
    'X-A: b\r\n',
    'User-Agent: a\r\nUser-Agent: b\r\n',
    'Host: a\r\nhost: b\r\n',
    'HTTP/1.1 103 Early Hints\r\n\r\n',
    'HTTP/1.1 205 None\r\n',
    'HTTP/1.1 599 x\r\n',
    '__proto__: x\r\n',
    '1\r\nx\r\n'.repeat(500),
    '0\r\n\r\n',
    '1\r\nx\r\n',
    '1;a=b\r\nx\r\n',
    'ffffffffffffffff\r\n',
    '5, 5',
    '+5',
    '0x5',
  ],
  async run(input) {
    const whole = readAnswer([input]);
    const cut = readAnswer(piecesOf(input));
    if (whole.fault !== undefined || cut.fault !== undefined) must(whole.fault === cut.fault, 'a fault is one however the bytes are cut');
    else must(JSON.stringify(whole) === JSON.stringify(cut), 'an answer reads the same however it is cut');
    if (whole.isEnded && whole.status <= MAX_STATUS) writable(whole);
    if (whole.isEnded && !whole.hasExcess && hashOf(input) % JUDGED === 0) {
      const judged = await judge(input);
      if (judged !== undefined) {
        const { status, headers, body, trailers } = whole;
        must(JSON.stringify(judged) === JSON.stringify({ status, headers, body, trailers }), 'the platform reads the same answer');
      }
    }
    return `${whole.fault ?? whole.kind} ${whole.interims > 0} ${whole.isEnded} ${whole.hasExcess} ${whole.trailers.length > 0}`;
  },
};

export const UPSTREAM_TARGETS: readonly FuzzTarget[] = [upstreamAnswer];
