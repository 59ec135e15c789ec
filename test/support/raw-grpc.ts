import { once } from 'node:events';
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2';
import type { ClientIdentity } from '../../src/control-plane/proto/protocol-client.ts';
import type { HasTeardown } from './temp-dir.ts';

export interface RawGrpcPlace {
  readonly port: number;
  /** PEM. */
  readonly ca: string;
}

/** A connection on which calls are written byte by byte, as no gRPC library writes them. */
export async function rawGrpc(t: HasTeardown, { port, ca }: RawGrpcPlace, identity?: ClientIdentity): Promise<ClientHttp2Session> {
  const session = connect(`https://127.0.0.1:${port}`, {
    ca,
    ...(identity === undefined ? {} : { cert: identity.certificate, key: identity.key }),
  });
  session.on('error', () => undefined);
  t.teardown(() => session.destroy());
  await once(session, 'connect');
  return session;
}

/** Begins a call and sends its head alone. @param path such as `ControlPlane/SubmitHashes` */
export function beginCall(session: ClientHttp2Session, path: string, fields: Readonly<Record<string, string>> = {}): ClientHttp2Stream {
  const stream = session.request({
    ':method': 'POST',
    ':path': `/gw.control_plane.v1.${path}`,
    'content-type': 'application/grpc',
    te: 'trailers',
    ...fields,
  });
  stream.on('error', () => undefined);
  return stream;
}

/** What a call ended with: its status and what was said, or how its stream was closed. */
export function endOfCall(
  stream: ClientHttp2Stream,
): Promise<{ readonly status: string; readonly message: string; readonly pushback: string }> {
  return new Promise((resolve) => {
    const heed = (headers: Readonly<Record<string, unknown>>) => {
      if (headers['grpc-status'] === undefined) return;
      const text = (name: string) => decodeURI(String(headers[name] ?? ''));
      resolve({ status: text('grpc-status'), message: text('grpc-message'), pushback: text('grpc-retry-pushback-ms') });
    };
    stream.on('response', heed);
    stream.on('trailers', heed);
    stream.on('close', () => resolve({ status: `closed ${stream.rstCode}`, message: '', pushback: '' }));
    stream.resume();
  });
}

/** A message with its prefix. */
export function framedMessage(bytes: Buffer, isCompressed = false, length = bytes.length): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt8(isCompressed ? 1 : 0);
  prefix.writeUInt32BE(length, 1);
  return Buffer.concat([prefix, bytes]);
}
