import { isIP } from 'node:net';
import { checkServerIdentity, createSecureContext, type PeerCertificate } from 'node:tls';
import { ChannelCredentials, Client, type ClientReadableStream, type ServiceError } from '@grpc/grpc-js';
import type { Clock } from '../../base/lib/clock.ts';
import { parseAuthority } from '../../base/lib/host.ts';
import { MAX_MESSAGE_BYTES, type ProtocolService } from './protocol.ts';
import { faultOf, ProtocolError } from './protocol-error.ts';

/** With what a gateway shows who it is. */
export interface ClientIdentity {
  /** PEM. */
  readonly certificate: string;
  /** PEM. */
  readonly key: string;
}

export interface ProtocolClientOptions {
  /** `host:port`. */
  readonly address: string;
  /** PEM: the CA that the control plane's certificate is of. */
  readonly ca: string;
  /** Undefined: none is shown. */
  readonly identity: ClientIdentity | undefined;
  readonly clock: Clock;
}

/**
 * TLS has no server name for an address (RFC 6066, section 3); the library sends one always. No host is ever called so.
 */
const NAME_OF_ADDRESS = 'control-plane.invalid';

type AnyCall = { readonly request: unknown; readonly response: unknown };

/**
 * The gateway's side: one connection for as long as it lives, which is built again by itself when it breaks. TLS 1.3
 * only.
 */
export class ProtocolClient {
  readonly #client: Client;
  readonly #clock: Clock;

  constructor({ address, ca, identity, clock }: ProtocolClientOptions) {
    const context = createSecureContext({
      ca,
      minVersion: 'TLSv1.3',
      ...(identity === undefined ? {} : { cert: identity.certificate, key: identity.key }),
    });
    this.#clock = clock;
    const { host } = parseAuthority(address) ?? { host: address };
    // Whatever server name is sent: the certificate must be for the host that was dialled, be it a name or an address.
    const checked = { checkServerIdentity: (_sent: string, shown: PeerCertificate) => checkServerIdentity(host, shown) };
    this.#client = new Client(address, ChannelCredentials.createFromSecureContext(context, checked), {
      ...(isIP(host) === 0 ? {} : { 'grpc.ssl_target_name_override': NAME_OF_ADDRESS }),
      'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
      'grpc.max_send_message_length': MAX_MESSAGE_BYTES,
      'grpc.keepalive_time_ms': 30_000,
      'grpc.keepalive_timeout_ms': 10_000,
      'grpc.initial_reconnect_backoff_ms': 500,
      'grpc.max_reconnect_backoff_ms': 15_000,
      'grpc.enable_retries': 0,
      'grpc.service_config_disable_resolution': 1,
      'grpc.use_local_subchannel_pool': 1,
    });
  }

  /**
   * One call.
   * @param timeoutMs after which it has failed
   * @throws ProtocolError
   */
  call<Calls, K extends string & keyof Calls>(
    service: ProtocolService<Calls>,
    name: K,
    request: Calls[K] extends AnyCall ? Calls[K]['request'] : never,
    timeoutMs: number,
  ): Promise<Calls[K] extends AnyCall ? Calls[K]['response'] : never> {
    const method = methodOf(service, name);
    return new Promise((resolve, reject) => {
      // Against the clock of the machine, which is the one that the library looks at; ours cancels too, so that tests
      // can let time pass.
      const call = this.#client.makeUnaryRequest(
        method.path,
        method.requestSerialize,
        method.responseDeserialize,
        request,
        (error: ServiceError | null, response?: unknown) => {
          cancel();
          if (error !== null) reject(errorOf(error));
          else resolve(response as Calls[K] extends AnyCall ? Calls[K]['response'] : never);
        },
      );
      let late = false;
      const cancel = this.#clock.after(timeoutMs, () => {
        late = true;
        call.cancel();
      });
      const errorOf = (error: ServiceError): ProtocolError =>
        late ? new ProtocolError('DEADLINE_EXCEEDED', `no answer in ${timeoutMs / 1_000} s`) : protocolError(error);
    });
  }

  /** A stream of the server: its messages one by one, until it ends. @throws ProtocolError when it breaks */
  async *stream<Calls, K extends string & keyof Calls>(
    service: ProtocolService<Calls>,
    name: K,
    request: Calls[K] extends AnyCall ? Calls[K]['request'] : never,
    signal: AbortSignal,
  ): AsyncGenerator<Calls[K] extends AnyCall ? Calls[K]['response'] : never, void, undefined> {
    const method = methodOf(service, name);
    const call: ClientReadableStream<unknown> = this.#client.makeServerStreamRequest(
      method.path,
      method.requestSerialize,
      method.responseDeserialize,
      request,
    );
    const cancel = () => call.cancel();
    signal.addEventListener('abort', cancel, { once: true });
    if (signal.aborted) cancel();
    try {
      for await (const message of call) yield message as Calls[K] extends AnyCall ? Calls[K]['response'] : never;
    } catch (error) {
      if (signal.aborted) return;
      throw protocolError(error);
    } finally {
      signal.removeEventListener('abort', cancel);
      call.cancel();
    }
  }

  close(): void {
    this.#client.close();
  }
}

function methodOf<Calls>(service: ProtocolService<Calls>, name: string & keyof Calls) {
  const method = service.definition[name];
  if (method === undefined) throw new TypeError(`there is no call ${name}`);
  return method;
}

/** gRPC wraps what a socket said into words of its own, some of them twice. */
const GRPC_WORDS = /^No connection established\..*Last error: (?:Error: )?|\.? Resolution note: .*$/gs;

function protocolError(error: unknown): ProtocolError {
  const { code, details, message, metadata } = error as Partial<ServiceError>;
  const pushback = /^\d{1,8}$/.exec(String(metadata?.get('grpc-retry-pushback-ms')[0] ?? ''))?.[0];
  return new ProtocolError(faultOf(code), (details || message || 'the call broke off').replaceAll(GRPC_WORDS, ''), {
    cause: error,
    retryAfterMs: pushback === undefined ? undefined : Number(pushback),
  });
}
