import type { Socket } from 'node:net';

/**
 * Breaks a connection so that the other side sees it broken. One whose end is on its way already is closed: libuv refuses to reset it (`uv_tcp_close_reset`),
 * and node:net then neither closes the handle nor tells of the close.
 */
export function resetSocket(socket: Socket): void {
  const ending = socket.writableEnded && !socket.writableFinished && socket.writableLength === 0;
  if (ending) socket.destroy();
  else socket.resetAndDestroy();
}
