import { request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AimockUpstream, MOCK_HOSTS, startAimock } from './aimock.ts';
import { STUB_ROUTES } from './stub.ts';
import type { HasTeardown } from './temp-dir.ts';
import { startTlsUpstream, type TestUpstream } from './tls-upstream.ts';
import { towards } from './upstreams.ts';

/**
 * Forms that the independent mock does not know. They are answered with OUR OWN recorded bytes (stub.ts), which judge
 * nothing but our own code.
 */
const OURS: readonly { readonly host: string; readonly route: string; readonly onlyStreams?: true }[] = [
  { host: 'generativelanguage.googleapis.com', route: 'POST /v1/models/gemini-2.5-flash:generateContent' },
  { host: 'generativelanguage.googleapis.com', route: 'POST /v1/models/gemini-2.5-flash:streamGenerateContent' },
  { host: 'api.mistral.ai', route: 'POST /v1/chat/completions', onlyStreams: true },
  { host: 'api.anthropic.com', route: 'POST /v1/messages/count_tokens' },
];

export interface ProviderUpstream extends Pick<AimockUpstream, 'mock' | 'journal'> {
  /** Everything that arrived, whoever answered it. */
  readonly tls: TestUpstream;
  /** Settings that lead a gateway here. */
  readonly env: Readonly<Record<string, string>>;
}

/**
 * All providers in one place: TLS for every host of the mock, the mock behind it, and the stub for what the mock does
 * not know.
 */
export async function startProviders(t: HasTeardown): Promise<ProviderUpstream> {
  const mock = await startAimock();
  t.teardown(() => mock.close());
  const mockPort = Number(new URL(mock.mockUrl).port);
  const tls = await startTlsUpstream({
    hosts: MOCK_HOSTS,
    handler: (request, response, whole) => {
      void whole.then((body) => {
        const own = ownAnswer(request, body);
        if (own === undefined) forward(request, body, response, mockPort);
        else {
          response.writeHead(200, { 'Content-Type': 'application/json', ...own.headers });
          for (const piece of typeof own.body === 'string' ? [own.body] : own.body) response.write(piece);
          response.end();
        }
      });
    },
  });
  t.teardown(() => tls.close());
  return {
    tls,
    mock: mock.mock,
    journal: () => mock.journal(),
    env: towards(t, tls, MOCK_HOSTS),
  };
}

function ownAnswer(request: IncomingMessage, body: Buffer) {
  const route = `${request.method ?? ''} ${(request.url ?? '').split('?', 1)[0] ?? ''}`;
  const form = OURS.find((one) => one.host === request.headers.host && one.route === route);
  if (form === undefined || (form.onlyStreams && !body.includes('"stream":true'))) return undefined;
  return STUB_ROUTES[route];
}

function forward(request: IncomingMessage, body: Buffer, response: ServerResponse, port: number): void {
  const { method = 'GET', url = '/', headers } = request;
  const onward = httpRequest({ host: '127.0.0.1', port, method, path: url, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
    answer.pipe(response);
  });
  onward.on('error', () => response.destroy());
  response.on('close', () => onward.destroy());
  onward.end(body);
}
