import { connect, type Socket } from 'node:net';
import { createServer } from 'node:tls';
import { LLMock } from '@copilotkit/aimock';
import { testCa } from './certificates.ts';
import { closeServer, listenOnFreePort, trackSockets } from './tls-upstream.ts';

/** The hosts that the mock stands for. */
export const MOCK_HOSTS = [
  'api.openai.com',
  'api.anthropic.com',
  'generativelanguage.googleapis.com',
  'api.cohere.com',
  'api.mistral.ai',
  'example-resource.openai.azure.com',
] as const;

/** What the mock says to any message, and the usage that it reports in every dialect. */
export const MOCK_TEXT = 'Hello from the mock upstream.';
export const MOCK_USAGE = { tokensIn: 11, tokensOut: 7 } as const;

export interface AimockUpstream {
  readonly port: number;
  /** The root that signed the terminator's certificate: `GW_UPSTREAM_CA_FILE`. */
  readonly caPem: string;
  /** Value of `GW_UPSTREAM_CONNECT_TO` that leads every host of {@link MOCK_HOSTS} here. */
  readonly connectTo: string;
  /** The mock itself, plain HTTP. */
  readonly mockUrl: string;
  readonly mock: LLMock;
  /** TLS connections accepted so far. */
  readonly connections: number;
  /** What the gateway really sent, oldest first. */
  journal(): readonly MockJournalEntry[];
  close(): Promise<void>;
}

/** One request as the mock's journal has it; header names are lower-case, values of auth headers `[REDACTED]`. */
export interface MockJournalEntry {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
}

export interface AimockOptions {
  /** Further hosts of the certificate and of `connectTo`. */
  readonly hosts?: readonly string[];
  /** Milliseconds between two pieces of a stream. */
  readonly latencyMs?: number;
  /**
   * The one provider key that is taken (in whatever header the dialect has it); any other one is answered 401. The
   * journal shows no keys.
   */
  readonly apiKey?: string;
}

const USAGE = {
  prompt_tokens: MOCK_USAGE.tokensIn,
  completion_tokens: MOCK_USAGE.tokensOut,
  total_tokens: MOCK_USAGE.tokensIn + MOCK_USAGE.tokensOut,
  input_tokens: MOCK_USAGE.tokensIn,
  output_tokens: MOCK_USAGE.tokensOut,
  promptTokenCount: MOCK_USAGE.tokensIn,
  candidatesTokenCount: MOCK_USAGE.tokensOut,
  totalTokenCount: MOCK_USAGE.tokensIn + MOCK_USAGE.tokensOut,
};

/**
 * The independent mock of the providers behind a small TLS terminator. A message that contains `fail` is answered 503,
 * any other one {@link MOCK_TEXT}.
 */
export async function startAimock(options: AimockOptions = {}): Promise<AimockUpstream> {
  const mock = new LLMock({
    port: 0,
    host: '127.0.0.1',
    logLevel: 'silent',
    ...(options.latencyMs === undefined ? {} : { latency: options.latencyMs }),
    ...(options.apiKey === undefined ? {} : { auth: { apiKeys: [options.apiKey] } }),
  });
  mock.onMessage(/fail/, { error: { message: 'The mock was told to fail.', type: 'server_error' }, status: 503 });
  mock.onMessage(/./, { content: MOCK_TEXT, usage: USAGE });
  const mockUrl = await mock.start();
  const { port: mockPort } = new URL(mockUrl);

  const hosts = [...MOCK_HOSTS, ...(options.hosts ?? [])];
  const ca = testCa();
  const leaf = ca.leaf({ hosts });
  let connections = 0;
  const server = createServer({ cert: leaf.certPem, key: leaf.keyPem, ALPNProtocols: ['http/1.1'] }, (client) => {
    connections++;
    join(client, connect({ port: Number(mockPort), host: '127.0.0.1', noDelay: true }));
  });
  server.on('tlsClientError', () => undefined);
  const sockets = trackSockets(server);
  const port = await listenOnFreePort(server);
  return {
    port,
    caPem: ca.certPem,
    connectTo: hosts.map((host) => `${host}:443=127.0.0.1:${port}`).join(','),
    mockUrl,
    mock,
    get connections() {
      return connections;
    },
    journal: () => mock.getRequests().map(({ method, path, headers, body }) => ({ method, path, headers, body })),
    close: async () => {
      await closeServer(server, sockets);
      await mock.stop();
    },
  };
}

/** Two sockets as one line: what ends or breaks on one side does so on the other. */
function join(left: Socket, right: Socket): void {
  for (const [from, to] of [
    [left, right],
    [right, left],
  ] as const) {
    from.pipe(to);
    from.on('error', () => to.destroy());
    from.on('close', () => to.destroy());
  }
}
