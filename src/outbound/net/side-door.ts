import { createSocket } from 'node:dgram';
import { isIPv6, type Socket } from 'node:net';
import { ByteCollector } from '../../base/lib/byte-collector.ts';
import type { Clock } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { stopping } from '../../base/lib/stopping.ts';
import type { Authority } from '../../base/model/arrival.ts';
import { OUTBOUND_BOUNDS } from '../../base/model/traffic-bounds.ts';
import type { RawWays, Upstream } from './upstream.ts';
import { timeoutError } from './upstream-error.ts';

/** What is read of the answer to a POST; there its connection is closed. */
const MAX_ANSWER = OUTBOUND_BOUNDS.answerToPost.one;
const ANSWER_MS = 15_000;

interface Sent {
  readonly to: { readonly authority: Authority; readonly tls: boolean; readonly path: string; readonly operatorOwn: boolean };
  readonly headers: readonly string[];
  /** How long an answer may take, milliseconds; 15 seconds where nothing is said. */
  readonly timeoutMs?: number | undefined;
  readonly signal: AbortSignal;
}

interface Posted extends Sent {
  readonly body: string | Uint8Array;
}

interface Got extends Sent {
  /** Of the body. */
  readonly maxBytes: number;
}

interface Answer<B> {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: B;
}

/** Takes the bytes of an answer. @returns `whole`: nothing more is needed; `too_long`: there are more than may be */
type Taker = (chunk: Uint8Array) => 'more' | 'too_long' | 'whole';

/** The ways out for what is no call of anybody: alerts, exported events, price lists. The same guard, resolver and trust as for calls; each has its time. */
export class SideDoor {
  readonly #ways: Upstream & RawWays;
  readonly #clock: Clock;

  constructor(ways: Upstream & RawWays, clock: Clock) {
    this.#ways = ways;
    this.#clock = clock;
  }

  /**
   * An answer is read up to its first 16 KiB: then its connection is closed, and those are the answer.
   * @throws GatewayError as a call ends, `upstream_timeout` after `timeoutMs`, `shutting_down` when the signal is aborted
   */
  async post({ body, ...sent }: Posted): Promise<Answer<string>> {
    const collector = new ByteCollector();
    const bytes = typeof body === 'string' ? Buffer.from(body) : body;
    const head = await this.#send('POST', sent, bytes, (chunk) => {
      collector.push(chunk.subarray(0, MAX_ANSWER - collector.size));
      return collector.size < MAX_ANSWER ? 'more' : 'whole';
    });
    return { ...head, body: collector.take().toString() };
  }

  /** @throws GatewayError as {@link post}, `upstream_protocol` for an answer of more than `maxBytes`, which is then read no further */
  async get({ maxBytes, ...sent }: Got): Promise<Answer<Uint8Array>> {
    const collector = new ByteCollector();
    const head = await this.#send('GET', sent, undefined, (chunk) => {
      collector.push(chunk);
      return collector.size <= maxBytes ? 'more' : 'too_long';
    });
    return { ...head, body: collector.take() };
  }

  #send(
    method: 'GET' | 'POST',
    { to, headers, signal, timeoutMs = ANSWER_MS }: Sent,
    body: Uint8Array | undefined,
    take: Taker,
  ): Promise<Omit<Answer<never>, 'body'>> {
    if (signal.aborted) return Promise.reject(stopping());
    return new Promise((resolve, reject) => {
      let status = 0;
      let fields: ReadonlyMap<string, string> = new Map();
      const end = (settle: () => void): void => {
        cancel();
        signal.removeEventListener('abort', onAbort);
        settle();
      };
      const giveUp = (error: GatewayError): void => {
        handle.abort();
        end(() => reject(error));
      };
      const onAbort = (): void => giveUp(stopping());
      const cancel = this.#clock.after(timeoutMs, () =>
        giveUp(timeoutError(to.authority, `did not answer within ${timeoutMs / 1_000} seconds`)),
      );
      const handle = this.#ways.call(
        { ...to, method, headers, body },
        {
          onHead: (code, rawHeaders) => {
            status = code;
            fields = fieldsOf(rawHeaders);
          },
          onData: (chunk) => {
            const taken = take(chunk);
            if (taken === 'too_long')
              giveUp(new GatewayError('upstream_protocol', `${to.authority.host} sent a longer answer than is taken.`));
            if (taken !== 'whole') return true;
            handle.abort();
            end(() => resolve({ status, headers: fields }));
            return false;
          },
          onEnd: () => end(() => resolve({ status, headers: fields })),
          onError: (error) => end(() => reject(error)),
        },
      );
      signal.addEventListener('abort', onAbort, { once: true });
    });
  }

  connect(authority: Authority, options: { readonly tls: boolean; readonly operatorOwn: boolean }): Promise<Socket> {
    return this.#ways.connect(authority, options);
  }

  /** @throws GatewayError `egress_denied`, `upstream_unreachable`, `upstream_timeout` */
  async datagrams(authority: Authority, messages: readonly Uint8Array[], operatorOwn: boolean): Promise<void> {
    const [address = ''] = await this.#ways.addresses(authority, operatorOwn);
    const socket = createSocket(isIPv6(address) ? 'udp6' : 'udp4');
    socket.unref();
    // What is sent says so itself.
    socket.on('error', () => undefined);
    try {
      for (const message of messages) {
        await new Promise<void>((resolve, reject) => {
          socket.send(message, authority.port, address, (error) => (error ? reject(error) : resolve()));
        });
      }
    } catch (error) {
      throw unsent(authority, error);
    } finally {
      socket.close();
    }
  }
}

function unsent({ host }: Authority, cause: unknown): GatewayError {
  return new GatewayError('upstream_unreachable', `No datagram could be sent to ${host}.`, { cause });
}

function fieldsOf(rawHeaders: readonly string[]): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) fields.set((rawHeaders[at] ?? '').toLowerCase(), rawHeaders[at + 1] ?? '');
  return fields;
}
