import type { ServerHttp2Stream } from 'node:http2';
import { Duplex } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { silentLogger } from '../../src/base/lib/log.ts';
import { CALL_BOUNDS, type CallBound } from '../../src/control-plane/proto/call-bounds.ts';
import { CallRoom } from '../../src/control-plane/proto/call-room.ts';
import { loadProtocol } from '../../src/control-plane/proto/protocol.ts';
import { ProtocolError } from '../../src/control-plane/proto/protocol-error.ts';
import { ServerCall } from '../../src/control-plane/proto/server-call.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { framedMessage } from '../support/raw-grpc.ts';
import { type FuzzTarget, must, piecesOf, splitHead } from './target.ts';

const PROTOCOL = loadProtocol();
const METHODS = { ...PROTOCOL.enrolment.definition, ...PROTOCOL.controlPlane.definition };
const BOUNDS: Readonly<Record<string, CallBound>> = CALL_BOUNDS;
const NODE = { orgId: 'acme', nodeId: 'node-1' };

/** The stream of a call, without a connection: what comes in is pushed, what goes out is counted. */
class PlayedStream extends Duplex {
  headersSent = false;
  closed_ = false;
  status = '';

  constructor() {
    super({ read: () => undefined, write: (_chunk, _encoding, done) => done(), autoDestroy: false });
  }

  respond(
    headers: Readonly<Record<string, unknown>>,
    options?: { readonly endStream?: boolean; readonly waitForTrailers?: boolean },
  ): void {
    must(!this.headersSent, 'a call is answered once');
    this.headersSent = true;
    this.status = String(headers['grpc-status'] ?? '');
    if (options?.waitForTrailers === true) this.once('finish', () => this.emit('wantTrailers'));
  }

  sendTrailers(headers: Readonly<Record<string, unknown>>): void {
    this.status = String(headers['grpc-status']);
    this.close();
  }

  close(): void {
    if (this.closed_) return;
    this.closed_ = true;
    this.destroy();
  }
}

/**
 * One call of the gRPC port as it comes from the network: its name, its coding and who calls, and then bytes. Nothing
 * is read of who has shown no certificate, nothing decoded that is compressed or larger than its call, and nothing held
 * of it when it is over (decision 13.15).
 */
const protocolCall: FuzzTarget = {
  name: 'protocol-call',
  inputs: 200_000,
  dear: true,
  headLines: 3,
  dictionary: [
    ...Object.keys(METHODS),
    'node',
    'gzip',
    'identity',
    '\x0a\x00',
    '\x0a\x00'.repeat(200),
    '\x00\x00\x00\x00\x02\x0a\x00',
    '\x01\x00\x00\x00\x00',
    '\x00\xff\xff\xff\xff',
    '\x0a\xff\xff\xff\xff\x0f',
    '\x0a\x20',
  ],
  async run(input) {
    const { head, rest } = splitHead(input, 3);
    const [name = '', coding = '', who = ''] = head;
    const method = METHODS[name];
    if (method === undefined) return 'no call';
    const decoded: Buffer[] = [];
    let carriedOut = 0;
    const requestDeserialize = (bytes: Buffer) => {
      decoded.push(bytes);
      return method.requestDeserialize(bytes) as unknown;
    };
    const stream = new PlayedStream();
    const clock = fakeClock();
    const room = new CallRoom({ strangerCalls: 4, nodeCalls: 16, largeAnswers: 4 });
    const handler = () => {
      carriedOut++;
      return Promise.reject(new ProtocolError('NOT_FOUND', 'carried out'));
    };
    const guard = {
      admit: () => {
        if (name === 'Enroll') return undefined;
        if (who !== 'node') throw new ProtocolError('UNAUTHENTICATED', 'no certificate was shown');
        return NODE;
      },
      refused: () => undefined,
    };
    const kind = { name, method: { ...method, requestDeserialize }, handler, guard };
    const peer = { address: '192.0.2.1:1', certificate: undefined };
    new ServerCall({ log: silentLogger, clock, room }, kind, stream as unknown as ServerHttp2Stream, peer).begin({
      ':method': 'POST',
      'content-type': 'application/grpc',
      ...(coding === '' ? {} : { 'grpc-encoding': coding }),
    });
    const isKnown = name === 'Enroll' || who === 'node';
    must(isKnown || stream.status !== '', 'who has shown nothing is answered before he has sent anything');
    must(isKnown || stream.listenerCount('data') === 0, 'and nothing of him is read');
    for (const piece of piecesOf(rest)) if (!stream.closed_) stream.push(piece);
    if (!stream.closed_) stream.push(null);
    await turn();
    await turn();
    const bound = BOUNDS[name];
    for (const bytes of decoded) {
      must(isKnown && (coding === '' || coding === 'identity'), 'only what is known and uncompressed is read');
      must(bytes.length <= (bound?.bytes ?? 0), 'and no more than its call takes');
      must(rest.equals(framedMessage(bytes)), 'and only one whole message');
    }
    must(carriedOut <= decoded.length && decoded.length <= 1, 'a call is carried out once, when it was read');
    clock.advance(60_000);
    await turn();
    must(stream.closed_, 'each call ends');
    const { strangers, nodes, waiting } = room.held;
    must(strangers + nodes + waiting === 0, 'and holds nothing when it is over');
    return `${stream.status} ${decoded.length}`;
  },
};

export const PROTOCOL_TARGETS: readonly FuzzTarget[] = [protocolCall];
