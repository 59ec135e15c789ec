import type { Http2SecureServer } from 'node:http2';
import type { Socket } from 'node:net';
import { type SecureContext, TLSSocket } from 'node:tls';
import { ignore } from './links.ts';

/** Content type of a TLS handshake record; a ClientHello begins with it. */
const TLS_HANDSHAKE = 0x16;

export interface ServerTls {
  readonly context: SecureContext;
  /** Offered by ALPN, the one that is preferred first. */
  readonly protocols: readonly string[];
  /** Never listens; what belongs to a server beside its connections is its. */
  readonly server: Http2SecureServer;
  onSecure(secure: TLSSocket): void;
  /** The handshake failed; the connection is being closed. */
  onFailure(error: Error): void;
}

/** Whether what a client says begins like TLS. */
export function isTls(first: Uint8Array): boolean {
  return first[0] === TLS_HANDSHAKE;
}

/**
 * Ends a client's TLS in this process, on a socket that is paused ([ADR
 * 3](../../../docs/adr/0003-tls-ends-in-process.md)).
 */
export function endTls(socket: Socket, { context, protocols, server, onSecure, onFailure }: ServerTls): TLSSocket {
  const secure = new TLSSocket(socket, { isServer: true, server, secureContext: context, ALPNProtocols: [...protocols] });
  const failed = (error: Error): void => {
    onFailure(error);
    socket.destroy();
  };
  // No SNICallback: it would fail every handshake without SNI.
  secure.once('error', failed);
  secure.once('close', () => socket.destroy());
  secure.once('secure', () => {
    secure.off('error', failed);
    secure.on('error', ignore);
    // What breaks TLS from now on, one renegotiation too many included: node:tls ends the connection only for its own
    // servers, here it would stay.
    secure.on('_tlsError', (error: Error) => secure.destroy(error));
    // node:tls clears it for sockets of its own servers only; node:http2 waits for it.
    Object.assign(secure, { secureConnecting: false });
    onSecure(secure);
  });
  return secure;
}
