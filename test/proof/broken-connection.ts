import type { Socket } from 'node:net';
import { isBroken } from '../../src/base/lib/sockets.ts';

/**
 * Destroys a connection that the other side has broken, within so many milliseconds. node:http2 does not always notice:
 * when a write fails while more waits to be written it neither writes nor reads any more, and all streams of its
 * session hang.
 */
export function destroyWhenBroken(socket: Socket, everyMs: number): void {
  const check = setInterval(() => {
    if (isBroken(socket)) socket.destroy();
  }, everyMs);
  socket.once('close', () => clearInterval(check));
}
