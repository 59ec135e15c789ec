import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { Clock } from '../../base/lib/clock.ts';
import { passingCertificates } from '../../inbound/ca/passing-certificates.ts';
import { type StandInAnswer, standInAnswer } from './stand-in-answers.ts';

/** Hosts that the stand-in stands for: its gateway connects to it in their place. */
export const STAND_IN_HOSTS = ['api.openai.com', 'api.anthropic.com', 'generativelanguage.googleapis.com'] as const;

/** Tools of agents are long. */
const MAX_BODY = 32 * 1024 * 1024;

export interface StandInProvider {
  readonly port: number;
  /** Root of its certificates, for whoever is to believe that it is one of {@link STAND_IN_HOSTS}. */
  readonly rootPem: string;
  close(): Promise<void>;
}

/** Starts a provider of AI that is none, behind TLS on loopback; see stand-in-answers.ts. */
export async function startStandIn(clock: Clock): Promise<StandInProvider> {
  const { rootPem, contexts } = await passingCertificates(STAND_IN_HOSTS, clock.now());
  const [first] = contexts.values();
  const server = createServer(
    { SNICallback: (host, done) => done(null, contexts.get(host) ?? first), ALPNProtocols: ['http/1.1'] },
    (request, response) => void respond(request, response),
  );
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  return {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    rootPem,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.headers.upgrade !== undefined) {
    // It has no WebSockets; clients that try one first then come by HTTPS.
    response.setHeader('Connection', 'close');
    send({ status: 426, json: { error: { message: 'no WebSockets here', type: 'upgrade_required' } } }, response);
    return;
  }
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of request) {
      if (!(chunk instanceof Buffer)) continue;
      bytes += chunk.length;
      if (bytes > MAX_BODY) {
        response.setHeader('Connection', 'close');
        send({ status: 413, json: { error: { message: 'the stand-in takes 32 MB', type: 'too_large' } } }, response);
        return;
      }
      chunks.push(chunk);
    }
  } catch {
    // The client has gone in the middle of its request: there is nobody to answer.
    return;
  }
  const [path = ''] = (request.url ?? '').split('?', 1);
  send(standInAnswer({ path, bytes, body: objectIn(Buffer.concat(chunks).toString('utf8')) }), response);
}

function objectIn(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}

function send(answer: StandInAnswer, response: ServerResponse): void {
  if ('json' in answer) {
    response.writeHead(answer.status, { 'Content-Type': 'application/json' }).end(JSON.stringify(answer.json));
    return;
  }
  response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' });
  for (const { name, data } of answer.events) {
    const text = typeof data === 'string' ? data : JSON.stringify(data);
    response.write(`${name === undefined ? '' : `event: ${name}\n`}data: ${text}\n\n`);
  }
  response.end();
}
