import { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import type { Arrival } from '../../src/base/model/arrival.ts';
import type { Arrivals } from '../../src/inbound/listener/arrivals.ts';
import { Places } from '../../src/inbound/listener/calls-under-way.ts';
import { InnerServers } from '../../src/inbound/listener/inner-servers.ts';
import { DEFAULT_LIMITS } from '../../src/inbound/listener/limits.ts';
import { Link } from '../../src/inbound/listener/links.ts';
import { OpenTunnels } from '../../src/inbound/listener/open-tunnels.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { type FuzzTarget, must } from './target.ts';

const ANSWER = Buffer.from('ok');

/** What one input has led to. */
interface Heard {
  begun: number;
  refused: number;
  /** The request that is worked on. */
  underWay: Arrival | undefined;
  /** Two at a time. */
  overlapped: boolean;
}

let heard: Heard = nothing();

function nothing(): Heard {
  return { begun: 0, refused: 0, underWay: undefined, overlapped: false };
}

const arrivals: Arrivals = {
  clock: fakeClock(),
  limits: DEFAULT_LIMITS,
  tunnels: new OpenTunnels(DEFAULT_LIMITS.maxTunnels),
  places: new Places(DEFAULT_LIMITS.maxCalls, () => undefined),
  counts: { made_room: 0, refused: 0, unread: 0 },
  onArrival: (arrival) => {
    heard.overlapped ||= heard.underWay !== undefined;
    heard.begun++;
    heard.underWay = arrival;
  },
  onRefused: () => void heard.refused++,
};
let servers: InnerServers | undefined;

/** Bytes that are meant as requests behind one another, of which none is answered before a turn is over. */
const pipelinedRequests: FuzzTarget = {
  name: 'pipelined-requests',
  inputs: 100_000,
  dear: true,
  headLines: 0,
  dictionary: [
    'GET / HTTP/1.1\r\nHost: a\r\n\r\n',
    'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi',
    'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n',
    'Expect: 100-continue\r\n',
    'Connection: close\r\n',
    'Content-Length: 9\r\n',
    'HTTP/1.0',
    '\r\n\r\n',
  ],
  async run(input) {
    servers ??= new InnerServers(arrivals);
    heard = nothing();
    const transport = new Duplex({ read: () => undefined, write: (_chunk, _encoding, done) => done() });
    const more = { setTimeout: () => transport, setNoDelay: () => transport, setKeepAlive: () => transport, bytesWritten: 0 };
    const socket = Object.assign(transport, { ...more, destroySoon: () => transport.end() }) as unknown as Socket;
    const wire = new Socket().on('error', () => undefined);
    servers.acceptHttp1(new Link(wire, 'developer'), socket, undefined, false);
    transport.push(input);
    for (let at = 0; at < 4; at++) {
      await turn();
      const { underWay } = heard;
      heard.underWay = undefined;
      if (underWay !== undefined && !underWay.reply.gone) underWay.reply.sendWhole(200, [], ANSWER);
    }
    must(!heard.overlapped, 'a request is begun when the one before it was answered');
    must(heard.begun <= 5, 'and one at a time');
    transport.destroy();
    await turn();
    must(arrivals.places.calls.taken === 0, 'no place is kept');
    return `${Math.min(3, heard.begun)} ${heard.refused > 0}`;
  },
};

export const PIPELINED_TARGETS: readonly FuzzTarget[] = [pipelinedRequests];
