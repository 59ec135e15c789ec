import type { Server } from 'node:http';
import type { Http2SecureServer } from 'node:http2';
import { WebSocketServer } from 'ws';
import { openAiSocket } from '../support/openai-sockets.ts';
import { connectThrough } from '../support/raw-clients.ts';
import { opened, webSocketOn } from '../support/websockets.ts';
import { CleanUp, sleep } from './checks.ts';
import type { Gateway } from './clients.ts';
import type { Seeded } from './seeded.ts';

/** Paths of WebSockets whose calls are governed one by one, with the event that ends a call. */
const PATHS = [
  { path: '/v1/realtime?model=gpt-4o-mini', ends: 'response.done' },
  { path: '/v1/responses', ends: 'response.completed' },
] as const;
/** No answer to a call for so long, though nothing broke. */
const SILENCE_MS = 10_000;

/** One WebSocket of a client and what came of it. Times are of `performance.now()`. */
export interface Talk {
  readonly tag: string;
  readonly localPort: number;
  /** Calls whose last event came. */
  readonly completed: number;
  readonly hung: boolean;
  readonly overAt: number;
}

/** A WebSocket as the upstream saw it. */
export interface SeenSocket {
  readonly remotePort: number;
  readonly arrivedAt: number;
  overAt: number | undefined;
}

/** Lets a server speak the events of OpenAI's WebSockets. `seen`: by tag. */
export function acceptSockets(server: Server | Http2SecureServer, seen: Map<string, SeenSocket>): void {
  const sockets = new WebSocketServer({ noServer: true });
  server.on('upgrade', (request, socket, head) => {
    socket.on('error', () => undefined);
    sockets.handleUpgrade(request, socket, head, (accepted) => {
      const entry: SeenSocket = { remotePort: request.socket.remotePort ?? 0, arrivedAt: performance.now(), overAt: undefined };
      seen.set(String(request.headers['x-proof-tag']), entry);
      accepted.on('error', () => undefined);
      accepted.on('close', () => {
        entry.overAt = performance.now();
      });
      openAiSocket(accepted, request);
    });
  });
}

/** Opens a WebSocket, makes some calls on it, and leaves in order, unless it breaks before. Never rejects. */
export async function talk(gateway: Gateway, host: string, tag: string, random: Seeded): Promise<Talk> {
  const cleanUp = new CleanUp();
  let completed = 0;
  let hung = false;
  let localPort = 0;
  try {
    const { path, ends } = random.pick(PATHS);
    const connection = await connectThrough(gateway.port, `${host}:443`, gateway.caPem);
    cleanUp.teardown(() => connection.destroy());
    localPort = connection.localPort ?? 0;
    const headers = { authorization: 'Bearer sk-proof', 'x-gw-caller-id': tag, 'x-proof-tag': tag };
    const socket = webSocketOn(cleanUp, connection, host, path, { headers });
    const closed = new Promise<'closed'>((resolve) => socket.once('close', () => resolve('closed')));
    await opened(socket);
    for (let calls = random.between(1, 8); calls > 0; calls -= 1) {
      const ended = new Promise<'ended'>((resolve) => {
        socket.on('message', (data: Buffer) => {
          if ((JSON.parse(data.toString()) as { type: string }).type === ends) resolve('ended');
        });
      });
      socket.send(JSON.stringify({ type: 'response.create', model: 'gpt-4o-mini', input: 'y'.repeat(random.between(0, 2_000)) }));
      const came = await Promise.race([ended, closed, sleep(SILENCE_MS)]);
      socket.removeAllListeners('message');
      if (came === 'ended') completed += 1;
      hung = came === undefined;
      if (came !== 'ended') break;
      await sleep(random.between(0, 100));
    }
  } catch {
    // The handshake did not come to its end.
  }
  await cleanUp.run();
  return { tag, localPort, completed, hung, overAt: performance.now() };
}
