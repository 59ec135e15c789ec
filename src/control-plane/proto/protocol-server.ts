import type { SecureContextOptions } from 'node:tls';
import {
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type ServerWritableStream,
  type sendUnaryData,
  status,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import type { Logger } from '../../base/lib/log.ts';
import { MAX_MESSAGE_BYTES, type ProtocolService } from './protocol.ts';
import { ProtocolError, statusOf } from './protocol-error.ts';

/** Who calls. */
export interface Peer {
  /** Address and port. */
  readonly address: string;
  /** DER of the client certificate that the CA has signed and whose key the caller has; undefined: he has shown none. */
  readonly certificate: Uint8Array | undefined;
}

type AnyCall = { readonly request: unknown; readonly response: unknown };

/** What carries out a call. A rejection that is no `ProtocolError` is a fault of ours: the caller is told INTERNAL and no more. */
export type Handlers<Calls, Streams extends keyof Calls = never> = {
  readonly [K in Exclude<keyof Calls, Streams>]: Calls[K] extends AnyCall
    ? (request: Calls[K]['request'], peer: Peer) => Promise<Calls[K]['response']>
    : never;
} & {
  /** Sends until the signal is aborted, which it is when the caller leaves; `send` resolves when more may be sent. */
  readonly [K in Streams]: Calls[K] extends AnyCall
    ? (
        request: Calls[K]['request'],
        peer: Peer,
        out: { send(message: Calls[K]['response']): Promise<void>; readonly signal: AbortSignal },
      ) => Promise<void>
    : never;
};

type UnaryHandler = (request: unknown, peer: Peer) => Promise<unknown>;
type StreamHandler = (
  request: unknown,
  peer: Peer,
  out: { send(message: unknown): Promise<void>; readonly signal: AbortSignal },
) => Promise<void>;

export interface ServerIdentity {
  /** PEM: the CA whose client certificates are believed. */
  readonly ca: string;
  /** PEM. */
  readonly certificate: string;
  /** PEM. */
  readonly key: string;
}

export interface ProtocolServerOptions {
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  readonly identity: ServerIdentity;
  readonly log: Logger;
}

/** The side of the control plane: one port, on which callers with and without a client certificate come in; each call says which it takes. */
export class ProtocolServer {
  readonly #server = new Server({
    'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
    'grpc.max_send_message_length': MAX_MESSAGE_BYTES,
    'grpc.keepalive_time_ms': 30_000,
    'grpc.keepalive_timeout_ms': 10_000,
    'grpc.max_concurrent_streams': 64,
  });
  readonly #options: ProtocolServerOptions;
  readonly #credentials: OptionalClientCertificates;

  constructor(options: ProtocolServerOptions) {
    this.#options = options;
    this.#credentials = new OptionalClientCertificates(options.identity);
  }

  add<Calls, Streams extends keyof Calls = never>(service: ProtocolService<Calls>, handlers: Handlers<Calls, Streams>): void {
    const implementation: UntypedServiceImplementation = {};
    for (const [name, method] of Object.entries(service.definition)) {
      const handler: unknown = Reflect.get(handlers, name);
      if (typeof handler !== 'function') throw new TypeError(`nothing carries out ${name}`);
      implementation[name] = method.responseStream
        ? this.#stream(name, handler as StreamHandler)
        : this.#unary(name, handler as UnaryHandler);
    }
    this.#server.addService(service.definition, implementation);
  }

  /** @returns the port @throws Error when the address cannot be bound */
  open(): Promise<number> {
    const { host, port } = this.#options;
    return new Promise((resolve, reject) => {
      this.#server.bindAsync(`${host.includes(':') ? `[${host}]` : host}:${port}`, this.#credentials, (error, bound) =>
        error === null ? resolve(bound) : reject(error),
      );
    });
  }

  /** New connections see this certificate from now on. */
  renew(identity: ServerIdentity): void {
    this.#credentials.renew(identity);
  }

  /** Takes no new call; those under way have until the signal is aborted. */
  close(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const cut = () => this.#server.forceShutdown();
      signal.addEventListener('abort', cut, { once: true });
      this.#server.tryShutdown(() => {
        signal.removeEventListener('abort', cut);
        resolve();
      });
      if (signal.aborted) cut();
    });
  }

  #unary(name: string, call: UnaryHandler) {
    return (given: ServerUnaryCall<unknown, unknown>, answer: sendUnaryData<unknown>): void => {
      Promise.resolve()
        .then(() => call(given.request, peerOf(given)))
        .then(
          (response) => answer(null, response),
          (error: unknown) => answer(this.#refusal(name, error)),
        );
    };
  }

  #stream(name: string, call: StreamHandler) {
    return (given: ServerWritableStream<unknown, unknown>): void => {
      const ending = new AbortController();
      given.on('cancelled', () => ending.abort());
      given.on('close', () => ending.abort());
      const send = (message: unknown): Promise<void> =>
        given.write(message) || ending.signal.aborted ? Promise.resolve() : new Promise((resolve) => given.once('drain', resolve));
      Promise.resolve()
        .then(() => call(given.request, peerOf(given), { send, signal: ending.signal }))
        .then(
          () => given.end(),
          (error: unknown) => given.emit('error', this.#refusal(name, error)),
        );
    };
  }

  #refusal(name: string, error: unknown): { readonly code: number; readonly details: string } {
    if (error instanceof ProtocolError) return { code: statusOf(error.fault), details: error.message };
    this.#options.log.error({ err: error, call: name }, 'a call of a gateway could not be carried out');
    return { code: status.INTERNAL, details: 'internal error' };
  }
}

/** TLS 1.3 on which a client may show a certificate and need not: one that the CA has not signed, or that has expired, counts as not shown. */
class OptionalClientCertificates extends ServerCredentials {
  constructor(identity: ServerIdentity) {
    super({ requestCert: true, rejectUnauthorized: false }, contextOptions(identity));
  }

  renew(identity: ServerIdentity): void {
    this.updateSecureContextOptions(contextOptions(identity));
  }

  override _equals(other: ServerCredentials): boolean {
    return this === other;
  }
}

function contextOptions({ ca, certificate, key }: ServerIdentity): SecureContextOptions {
  return { ca, cert: certificate, key, minVersion: 'TLSv1.3' };
}

function peerOf(call: Pick<ServerDuplexStream<unknown, unknown>, 'getPeer' | 'getAuthContext'>): Peer {
  return { address: call.getPeer(), certificate: call.getAuthContext()?.sslPeerCertificate?.raw };
}
