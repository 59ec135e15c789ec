import type { WebSocket } from 'ws';
import { createLogger } from '../../src/base/lib/log.ts';
import { startTestGateway, type TestGateway, type TestGatewayOptions } from './gateway.ts';
import { ALLOW_ALL } from './governed.ts';
import { openAiSocket } from './openai-sockets.ts';
import { connectThrough } from './raw-clients.ts';
import type { HasTeardown } from './temp-dir.ts';
import { towards } from './upstreams.ts';
import {
  opened,
  type SocketClientOptions,
  type SocketUpstream,
  type SocketUpstreamOptions,
  startSocketUpstream,
  webSocketOn,
} from './websockets.ts';

export const HOST = 'api.openai.com';
export const REALTIME = '/v1/realtime?model=gpt-4o-mini';
export const RESPONSES = '/v1/responses';

export type Json = Record<string, unknown>;

export interface Scene {
  readonly gw: TestGateway;
  readonly upstream: SocketUpstream;
  /** Ids of the records so far, in order of commit. */
  readonly recorded: () => readonly string[];
  /** The records so far. */
  readonly records: () => Promise<readonly Json[]>;
  /** By CONNECT and TLS, accepted. */
  readonly open: (path: string, options?: SocketClientOptions) => Promise<Talk>;
}

/** A socket and the events that came on it. */
export interface Talk {
  readonly socket: WebSocket;
  readonly headers: Awaited<ReturnType<typeof opened>>;
  readonly events: readonly Json[];
  /** Sends an event and resolves with the next one of this type. */
  readonly say: (event: Json | string, until: string) => Promise<Json>;
  readonly until: (type: string) => Promise<Json>;
}

/** Collects the events that come on a socket; `say` and `until` wait for one. */
export function talk(socket: WebSocket): Omit<Talk, 'headers'> {
  const events: Json[] = [];
  const waiting: { type: string; resolve: (event: Json) => void }[] = [];
  socket.on('message', (data: Buffer) => {
    const event = JSON.parse(data.toString()) as Json;
    events.push(event);
    const at = waiting.findIndex(({ type }) => type === event['type']);
    if (at !== -1) waiting.splice(at, 1)[0]?.resolve(event);
  });
  const until = (type: string): Promise<Json> => new Promise((resolve) => waiting.push({ type, resolve }));
  return {
    socket,
    events,
    until,
    say: (event, type) => {
      const next = until(type);
      socket.send(typeof event === 'string' ? event : JSON.stringify(event));
      return next;
    },
  };
}

/** A gateway before a stand-in for the providers that speak in events. */
export async function scene(t: HasTeardown, options: TestGatewayOptions = {}, upstreamOptions: SocketUpstreamOptions = {}): Promise<Scene> {
  const hosts = [HOST, 'api.mistral.ai', 'res.openai.azure.com'];
  const upstream = await startSocketUpstream(t, { hosts, onSocket: openAiSocket, ...upstreamOptions });
  const lines: string[] = [];
  const log = createLogger({ level: 'info', format: 'json', destination: { write: (line: string) => void lines.push(line) } });
  const gw = await startTestGateway(t, { bundle: ALLOW_ALL, log, ...options, env: { ...towards(t, upstream, hosts), ...options.env } });
  const recorded = (): readonly string[] => lines.flatMap((line) => /"record_id":"([^"]+)"/.exec(line)?.[1] ?? []);
  return {
    gw,
    upstream,
    recorded,
    records: () => Promise.all(recorded().map((id) => gw.record(id))),
    open: async (path, more = {}) => {
      const connection = await connectThrough(gw.port, `${HOST}:443`, gw.caPem);
      const socket = webSocketOn(t, connection, HOST, path, { headers: { Authorization: 'Bearer sk-client' }, ...more });
      const talking = talk(socket);
      return { ...talking, headers: await opened(socket) };
    },
  };
}
