import { createSocket } from 'node:dgram';
import { isIPv6, type Socket } from 'node:net';
import type { Clock } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { stopping } from '../../base/lib/stopping.ts';
import type { Authority } from '../../base/model/arrival.ts';
import type { RawWays, Upstream } from './upstream.ts';
import { timeoutError } from './upstream-error.ts';

/** What is kept of an answer; the rest is read and let go of. */
const MAX_ANSWER = 16_384;
const POST_MS = 15_000;

interface Posted {
  readonly to: { readonly authority: Authority; readonly tls: boolean; readonly path: string; readonly operatorOwn: boolean };
  readonly headers: readonly string[];
  readonly body: string | Uint8Array;
  /** How long an answer may take, milliseconds; 15 seconds where nothing is said. */
  readonly timeoutMs?: number | undefined;
  readonly signal: AbortSignal;
}

interface Answer {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

/** The ways out for what is no call of anybody: alerts, exported events. The same guard, resolver and trust as for calls; each has its time. */
export class SideDoor {
  readonly #ways: Upstream & RawWays;
  readonly #clock: Clock;

  constructor(ways: Upstream & RawWays, clock: Clock) {
    this.#ways = ways;
    this.#clock = clock;
  }

  /** @throws GatewayError as a call ends, `upstream_timeout` after `timeoutMs`, `shutting_down` when the signal is aborted */
  post({ to, headers, body, signal, timeoutMs = POST_MS }: Posted): Promise<Answer> {
    if (signal.aborted) return Promise.reject(stopping());
    return new Promise((resolve, reject) => {
      let status = 0;
      let fields: ReadonlyMap<string, string> = new Map();
      const pieces: Uint8Array[] = [];
      let size = 0;
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
        { ...to, method: 'POST', headers, body: typeof body === 'string' ? Buffer.from(body) : body },
        {
          onHead: (code, rawHeaders) => {
            status = code;
            fields = fieldsOf(rawHeaders);
          },
          onData: (chunk) => {
            if (size < MAX_ANSWER) pieces.push(chunk.subarray(0, MAX_ANSWER - size));
            size += chunk.length;
            return true;
          },
          onEnd: () => end(() => resolve({ status, headers: fields, body: Buffer.concat(pieces).toString() })),
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
