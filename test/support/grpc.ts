import { once } from 'node:events';
import {
  Client,
  credentials,
  type handleBidiStreamingCall,
  type handleServerStreamingCall,
  type handleUnaryCall,
  Metadata,
  Server,
  ServerCredentials,
  type ServiceDefinition,
  type StatusObject,
  status,
} from '@grpc/grpc-js';
import { testCa } from './certificates.ts';
import type { HasTeardown } from './temp-dir.ts';
import type { TestUpstream } from './tls-upstream.ts';

const asBytes = (text: string): Buffer => Buffer.from(text);
const asText = (bytes: Buffer): string => bytes.toString();

const method = (name: string, requestStream: boolean, responseStream: boolean) => ({
  path: `/test.Echo/${name}`,
  requestStream,
  responseStream,
  requestSerialize: asBytes,
  requestDeserialize: asText,
  responseSerialize: asBytes,
  responseDeserialize: asText,
});

const ECHO: ServiceDefinition = {
  Unary: method('Unary', false, false),
  Fail: method('Fail', false, false),
  Count: method('Count', false, true),
  Chat: method('Chat', true, true),
  Hang: method('Hang', false, true),
};

export interface GrpcUpstream extends Pick<TestUpstream, 'port' | 'caPem'> {
  /** Calls of `Hang` that the client has cancelled. */
  readonly cancelled: () => number;
  /** Resolves with the next cancelled `Hang`. */
  nextCancel(): Promise<void>;
  readonly server: Server;
}

/**
 * A real gRPC server on TLS: `Unary` echoes with metadata before and behind, `Fail` fails without a message, `Count`
 * streams, `Chat` echoes each message at once.
 */
export async function startGrpcUpstream(t: HasTeardown, hosts: readonly string[]): Promise<GrpcUpstream> {
  const ca = testCa();
  const { certPem, keyPem } = ca.leaf({ hosts });
  const server = new Server();
  let cancelled = 0;
  let onCancel: () => void = () => undefined;
  const unary: handleUnaryCall<string, string> = (call, reply) => {
    const before = new Metadata();
    before.set('x-initial', String(call.metadata.get('x-asked')[0] ?? 'none'));
    call.sendMetadata(before);
    const behind = new Metadata();
    behind.set('x-final', 'yes');
    reply(null, call.request, behind);
  };
  const fail: handleUnaryCall<string, string> = (_call, reply) => reply({ code: status.NOT_FOUND, details: 'no such thing: ü' });
  const count: handleServerStreamingCall<string, string> = (call) => {
    for (let i = 0; i < Number(call.request); i++) call.write(String(i));
    call.end();
  };
  const chat: handleBidiStreamingCall<string, string> = (call) => {
    call.on('data', (text: string) => call.write(`echo ${text}`));
    call.on('end', () => call.end());
  };
  const hang: handleServerStreamingCall<string, string> = (call) => {
    call.write('begun');
    call.on('cancelled', () => {
      cancelled++;
      onCancel();
    });
  };
  server.addService(ECHO, { Unary: unary, Fail: fail, Count: count, Chat: chat, Hang: hang });
  const creds = ServerCredentials.createSsl(null, [{ cert_chain: Buffer.from(certPem), private_key: Buffer.from(keyPem) }]);
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', creds, (error, bound) => (error ? reject(error) : resolve(bound)));
  });
  t.teardown(() => server.forceShutdown());
  return {
    port,
    caPem: ca.certPem,
    server,
    cancelled: () => cancelled,
    nextCancel: () =>
      new Promise((resolve) => {
        onCancel = resolve;
      }),
  };
}

/** How a call ended: status and, for a success, what it brought. */
export interface GrpcOutcome {
  readonly code: number;
  readonly details: string;
  readonly messages: readonly string[];
  readonly initial: Readonly<Record<string, unknown>>;
  readonly final: Readonly<Record<string, unknown>>;
}

/** A real gRPC client that goes through the proxy of `grpc_proxy`, as every gRPC program does. */
export function grpcClient(t: HasTeardown, proxyPort: number, authority: string, caPem: string): Client {
  process.env['grpc_proxy'] = `http://127.0.0.1:${proxyPort}`;
  const client = new Client(authority, credentials.createSsl(Buffer.from(caPem)), { 'grpc.enable_retries': 0 });
  t.teardown(() => client.close());
  return client;
}

/** `events.once` would take the `error` that stands before the status for the end. */
function statusOf(call: { once(event: 'status', listener: (ended: StatusObject) => void): unknown }): Promise<StatusObject> {
  return new Promise((resolve) => call.once('status', resolve));
}

/** One call with one message. */
export async function grpcCall(
  client: Client,
  name: 'Unary' | 'Fail' | 'Count',
  message: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<GrpcOutcome> {
  const metadata = new Metadata();
  for (const [key, value] of Object.entries(headers)) metadata.set(key, value);
  const call = client.makeServerStreamRequest(`/test.Echo/${name}`, asBytes, asText, message, metadata, { deadline: Date.now() + 100_000 });
  const messages: string[] = [];
  let initial = new Metadata();
  call.on('data', (text: string) => messages.push(text));
  call.on('metadata', (received: Metadata) => {
    initial = received;
  });
  call.on('error', () => undefined);
  const ended = await statusOf(call);
  return { code: ended.code, details: ended.details, messages, initial: initial.getMap(), final: ended.metadata.getMap() };
}

/** Says one message after the other, each when the echo of the one before has come. */
export async function grpcChat(client: Client, turns: number): Promise<{ readonly heard: readonly string[]; readonly code: number }> {
  const call = client.makeBidiStreamRequest('/test.Echo/Chat', asBytes, asText);
  const heard: string[] = [];
  call.on('error', () => undefined);
  const ended = statusOf(call);
  call.on('data', (text: string) => {
    heard.push(text);
    if (heard.length < turns) call.write(`turn ${heard.length}`);
    else call.end();
  });
  call.write('turn 0');
  const { code } = await ended;
  return { heard, code };
}

/** Opens a stream that never ends by itself; resolves when its first message is there. */
export async function grpcHang(client: Client, deadlineMs?: number) {
  const options = deadlineMs === undefined ? {} : { deadline: Date.now() + deadlineMs };
  const call = client.makeServerStreamRequest('/test.Echo/Hang', asBytes, asText, 'x', new Metadata(), options);
  call.on('error', () => undefined);
  const ended = statusOf(call);
  await once(call, 'data');
  return { cancel: () => call.cancel(), code: async () => (await ended).code };
}
