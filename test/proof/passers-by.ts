import type { Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { ADMIN_TOKEN } from '../support/gateway.ts';
import { ConnectRefused, connectPlain, connectThrough, h1Request, openTunnel } from '../support/raw-clients.ts';
import { sleep } from './checks.ts';
import { AI_HOST, OTHER_HOST } from './paced-upstream.ts';
import type { ProofGateway } from './proof-gateway.ts';

/** What comes to a port beside calls that leave a record. */
export const PASSERS_BY = [
  'health',
  'unknown path',
  'bad envelope',
  'half a head',
  'half a body',
  'tunnel',
  'tunnel that breaks',
  'refused port',
  'tunnel without a word',
  'distrust',
  'report that nobody waits for',
  'many reports that nobody waits for',
] as const;
export type PasserBy = (typeof PASSERS_BY)[number];

/** Sends one of them on a connection of its own. Resolves with what was not as told; never rejects. */
export async function passBy(kind: PasserBy, { port, caPem }: ProofGateway, stubCaPem: string): Promise<string | undefined> {
  try {
    const problem = await WAYS[kind](port, caPem, stubCaPem);
    return problem === undefined ? undefined : `${kind}: ${problem}`;
  } catch (error) {
    return `${kind}: ${error instanceof Error ? error.message : String(error)}`;
  }
}

type Way = (port: number, caPem: string, stubCaPem: string) => Promise<string | undefined>;

const WAYS: Readonly<Record<PasserBy, Way>> = {
  health: (port) => ownRoute(port, 'GET', '/healthz', 200),
  'unknown path': (port) => ownRoute(port, 'GET', '/nothing/here', 404),
  'bad envelope': (port) => ownRoute(port, 'POST', '/v1/actions:execute', 400, '{"schema":"x"}'),
  'half a head': (port) => leaveAfter(port, 'POST /v1/actions:execute HTTP/1.1\r\nHost: 127'),
  'half a body': (port) =>
    leaveAfter(
      port,
      `POST /proxy/openai/v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nX-GW-Caller-ID: half\r\nContent-Length: 5000\r\n\r\n{"model":`,
    ),
  tunnel: async (port, _caPem, stubCaPem) => {
    const socket = await connectThrough(port, `${OTHER_HOST}:443`, stubCaPem);
    const { status, body } = await h1Request(socket, OTHER_HOST, { path: '/' });
    socket.destroy();
    return status === 200 && body.toString() === 'not an AI call\n' ? undefined : `answered ${status} ${body.toString().slice(0, 100)}`;
  },
  'tunnel that breaks': async (port, _caPem, stubCaPem) => {
    const socket = await connectThrough(port, `${OTHER_HOST}:443`, stubCaPem);
    socket.write(`GET / HTTP/1.1\r\nHost: ${OTHER_HOST}\r\n\r\n`);
    return leave(socket);
  },
  'refused port': async (port) => {
    try {
      await openTunnel(port, `${AI_HOST}:22`);
    } catch (error) {
      if (error instanceof ConnectRefused && error.status === 403) return undefined;
      throw error;
    }
    return 'the tunnel was opened';
  },
  'report that nobody waits for': (port) => leaveAfter(port, reportOf(port)),
  // Pipelined, so that some wait for their turn.
  'many reports that nobody waits for': (port) => leaveAfter(port, reportOf(port).repeat(40)),
  'tunnel without a word': async (port) => leave(await openTunnel(port, `${AI_HOST}:443`)),
  distrust: async (port) => {
    const tunnel = await openTunnel(port, `${AI_HOST}:443`);
    return new Promise((resolve) => {
      const tls = connectTls({ socket: tunnel, servername: AI_HOST });
      tls.on('error', () => {
        tunnel.destroy();
        resolve(undefined);
      });
      tls.on('secureConnect', () => {
        tunnel.destroy();
        resolve('a client without our root trusted it');
      });
    });
  },
};

/** A request for the dearest report. */
function reportOf(port: number): string {
  return `GET /v1/admin/billing/summary HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nGW-Admin-Token: ${ADMIN_TOKEN}\r\n\r\n`;
}

async function ownRoute(port: number, method: string, path: string, expected: number, body?: string): Promise<string | undefined> {
  const socket = await connectPlain(port);
  const { status } = await h1Request(socket, `127.0.0.1:${port}`, { method, path, ...(body === undefined ? {} : { body }) });
  socket.destroy();
  return status === expected ? undefined : `answered ${status}`;
}

async function leaveAfter(port: number, text: string): Promise<undefined> {
  const socket = await connectPlain(port);
  socket.write(text);
  return leave(socket);
}

/** Stays for a moment, then breaks the connection. */
async function leave(socket: Socket): Promise<undefined> {
  socket.on('error', () => undefined);
  await sleep(20);
  socket.destroy();
  return undefined;
}
