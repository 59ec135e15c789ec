import { performServerHandshake } from 'node:http2';
import { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import type { Arrival } from '../../src/base/model/arrival.ts';
import { Places } from '../../src/inbound/listener/calls-under-way.ts';
import { Http2Connection } from '../../src/inbound/listener/http2.ts';
import { http2Options } from '../../src/inbound/listener/inner-servers.ts';
import { DEFAULT_LIMITS } from '../../src/inbound/listener/limits.ts';
import { Link } from '../../src/inbound/listener/links.ts';
import { OpenTunnels } from '../../src/inbound/listener/open-tunnels.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { AGAIN, DEAR, END_HEADERS, END_STREAM, FRAME, frame } from '../support/h2-frames.ts';
import { type FuzzTarget, must } from './target.ts';

const PREFACE = Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(FRAME.settings, 0, 0)]);
/** RFC 7541 appendix A: GET, https, `/`, and an authority. */
const GET = Buffer.concat([Buffer.from([0x82, 0x87, 0x84, 0x01, 1]), Buffer.from('a')]);
const POST = Buffer.concat([Buffer.from([0x83]), GET.subarray(1)]);

function fieldBytes(fields: readonly string[]): number {
  return fields.reduce((sum, text) => sum + text.length + 16, 0);
}

/** The frames of a client that never acknowledges SETTINGS, behind the first of which nobody answers. */
const http2Request: FuzzTarget = {
  name: 'http2-request',
  inputs: 100_000,
  dear: true,
  headLines: 0,
  dictionary: [
    frame(FRAME.headers, END_HEADERS | END_STREAM, 1, GET),
    frame(FRAME.headers, END_HEADERS | END_STREAM, 1, Buffer.concat([GET, DEAR])),
    frame(FRAME.headers, END_HEADERS | END_STREAM, 3, Buffer.concat([GET, Buffer.alloc(15, AGAIN)])),
    frame(FRAME.headers, END_HEADERS | END_STREAM, 5, Buffer.concat([GET, Buffer.alloc(490, AGAIN)])),
    frame(FRAME.headers, END_HEADERS, 7, POST),
    frame(FRAME.data, 0, 7, Buffer.from('x')),
    frame(FRAME.headers, END_HEADERS | END_STREAM, 7, Buffer.alloc(20, AGAIN)),
    frame(FRAME.headers, 0, 9, GET),
    frame(FRAME.continuation, 0, 9, Buffer.alloc(10, AGAIN)),
    frame(FRAME.continuation, END_HEADERS, 9),
    frame(FRAME.rstStream, 0, 1, Buffer.alloc(4)),
    frame(FRAME.settings, 1, 0),
    frame(FRAME.settings, 0, 0, Buffer.from([0, 1, 0, 0, 0, 0])),
    frame(FRAME.ping, 0, 0, Buffer.alloc(8)),
    Buffer.alloc(64, AGAIN),
  ].map((bytes) => bytes.toString('latin1')),
  async run(input) {
    const { limits, arrivals, held } = listening();
    const socket = new Duplex({ read: () => undefined, write: (_chunk, _encoding, done) => done() });
    const session = performServerHandshake(socket, http2Options(limits));
    const link = new Link(new Socket(), 'developer');
    new Http2Connection({ link, session, tunnel: { authority: { host: 'a', port: 443 } }, arrivals });
    socket.push(Buffer.concat([PREFACE, input]));
    await turn();
    await turn();
    const bytes = held.map(({ head, body }) => [fieldBytes(head.rawHeaders), fieldBytes(body.trailers)]);
    const isEnded = session.destroyed;
    must(
      bytes.flat().every((size) => size <= limits.maxHeaderBytes),
      'no head and no trailers are larger than the limit',
    );
    must(bytes.flat().reduce((sum, size) => sum + size, 0) <= limits.maxSessionHeaderBytes, 'nor are all together');
    must(held.length <= limits.maxStreams, 'there are no more streams than are allowed');
    session.destroy();
    socket.destroy();
    return `${isEnded} ${Math.min(4, held.length)} ${bytes.some(([, trailers]) => (trailers ?? 0) > 0)}`;
  },
};

function listening() {
  const held: Arrival[] = [];
  const limits = DEFAULT_LIMITS;
  const arrivals = {
    clock: fakeClock(),
    limits,
    tunnels: new OpenTunnels(1),
    places: new Places(limits.maxCalls, () => undefined),
    counts: { made_room: 0, refused: 0, unread: 0 },
    onArrival: (arrival: Arrival) => void held.push(arrival),
    onRefused: () => undefined,
  };
  return { limits, arrivals, held };
}

export const HTTP2_TARGETS: readonly FuzzTarget[] = [http2Request];
