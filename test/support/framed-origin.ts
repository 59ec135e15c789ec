import { createServer } from 'node:tls';
import type { HasTeardown } from './temp-dir.ts';
import { certificateOf, closeServer, listenOnFreePort, trackSockets } from './tls-upstream.ts';

/** Type, flags and payload (RFC 9113 §4.1) of the frames of one stream, unless another is named. */
export type Frames = readonly (readonly [type: number, flags: number, payload: Buffer, stream?: number])[];

export const END_STREAM = 1;
export const END_HEADERS = 4;
/** What stands before a frame's payload. */
export const FRAME_HEAD_BYTES = 9;

/** A field of a head as HPACK writes one that it does not know (RFC 7541 §6.2.2); of fewer than 127 bytes each. */
export function field(name: string, value: string): Buffer {
  return Buffer.concat([
    Buffer.from([0, name.length]),
    Buffer.from(name, 'latin1'),
    Buffer.from([value.length]),
    Buffer.from(value, 'latin1'),
  ]);
}

/**
 * An h2 origin that answers the head of a request with the frames it was given, all at once, and goes on with that
 * answer when it is told to.
 */
export async function startFramedOrigin(t: HasTeardown, hosts: readonly string[]) {
  const { caPem, certPem, keyPem } = certificateOf('good', hosts);
  let answer: Frames = [];
  let say: (frames: Frames) => void = () => undefined;
  const server = createServer({ cert: certPem, key: keyPem, ALPNProtocols: ['h2'] }, (socket) => {
    // The preface comes first.
    let held = Buffer.alloc(0);
    let skip = 24;
    socket.on('error', () => undefined);
    socket.write(frame(0, [4, 0, Buffer.alloc(0)]));
    socket.on('data', (chunk: Buffer) => {
      held = Buffer.concat([held, chunk]);
      for (;;) {
        const length = skip + 9 + (held.length < skip + 9 ? 0 : held.readUIntBE(skip, 3));
        if (held.length < length) return;
        const [type, flags, stream] = [held[skip + 3], held[skip + 4], held.readUInt32BE(skip + 5)];
        held = held.subarray(length);
        skip = 0;
        if (type === 4 && flags === 0) socket.write(frame(0, [4, 1, Buffer.alloc(0)]));
        if (type !== 1) continue;
        say = (frames) => socket.write(Buffer.concat(frames.map((one) => frame(stream, one))));
        say(answer);
      }
    });
  });
  const sockets = trackSockets(server);
  t.teardown(() => closeServer(server, sockets));
  return {
    port: await listenOnFreePort(server),
    caPem,
    answer: (frames: Frames) => {
      answer = frames;
    },
    goOn: (frames: Frames) => say(frames),
  };
}

function frame(own: number, [type, flags, payload, stream = own]: Frames[number]): Buffer {
  const head = Buffer.alloc(FRAME_HEAD_BYTES);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}
