import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Closes connections of `server` that had no request for its `keepAliveTimeout`. A busy event loop hears of that
 * deadline before it reads what has come in time: it is let read first, or a request of a client in order would be
 * lost. So it is when the server closes: each connection then ends itself.
 */
export function closeIdle(server: Server): void {
  server.closeIdleConnections = () => undefined;
  server.on('timeout', (socket: Socket) => {
    const { bytesRead } = socket;
    setImmediate(() => {
      if (socket.bytesRead === bytesRead) socket.destroy();
    });
  });
}
