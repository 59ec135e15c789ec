import { createSocket } from 'node:dgram';
import { isIPv6, type Socket } from 'node:net';
import { ByteCollector } from '../../base/lib/byte-collector.ts';
import type { Clock } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { stopping } from '../../base/lib/stopping.ts';
import type { Authority } from '../../base/model/arrival.ts';
import { OUTBOUND_BOUNDS } from '../../base/model/traffic-bounds.ts';
import { type ExchangedHead, ExchangeLine, type Taker } from './exchange.ts';
import { absoluteForm } from './parent-proxy.ts';
import { hostHeader } from './request-head.ts';
import type { RawWays } from './upstream.ts';
import { callError, timeoutError, undiciError } from './upstream-error.ts';

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
  /** Default `POST`. */
  readonly method?: 'POST' | 'PATCH' | undefined;
  /** What is read of the body of the answer; default: its first 16 KiB. */
  readonly mostRead?: number | undefined;
  readonly body: string | Uint8Array;
}

interface Got extends Sent {
  /** Of the body. */
  readonly maxBytes: number;
}

interface Asked extends Sent {
  readonly body: string | Uint8Array;
  /** Of the body of the answer. */
  readonly maxBytes: number;
}

interface Answer<B> extends ExchangedHead {
  readonly body: B;
}

/** Idle connections that are kept. */
const MAX_IDLE = 256;

/**
 * The ways out for what is no call of anybody: alerts, exported events, price lists. The same guard, resolver and trust
 * as for calls; each has its time.
 */
export class SideDoor {
  readonly #ways: RawWays;
  readonly #clock: Clock;
  readonly #lines = new Map<ExchangeLine, string>();
  readonly #idle = new Set<ExchangeLine>();

  constructor(ways: RawWays, clock: Clock) {
    this.#ways = ways;
    this.#clock = clock;
  }

  /**
   * An answer is read up to `mostRead` bytes: then its connection is closed, and those are the answer.
   * @throws GatewayError as a call ends, `upstream_timeout` after `timeoutMs`, `shutting_down` when the signal is
   * aborted
   */
  async post({ body, method = 'POST', mostRead = MAX_ANSWER, ...sent }: Posted): Promise<Answer<string>> {
    const collector = new ByteCollector();
    const bytes = typeof body === 'string' ? Buffer.from(body) : body;
    const head = await this.#send(method, sent, bytes, (chunk) => {
      collector.push(chunk.subarray(0, mostRead - collector.size));
      return collector.size < mostRead;
    });
    return { ...head, body: collector.take().toString() };
  }

  /**
   * @throws GatewayError as {@link post}, `upstream_protocol` for an answer of more than `maxBytes`, which is then read
   * no further
   */
  async get(sent: Got): Promise<Answer<Uint8Array>> {
    return this.#whole('GET', sent, undefined);
  }

  /** A POST whose answer is wanted, whole. @throws GatewayError as {@link get} */
  async ask({ body, ...sent }: Asked): Promise<Answer<Uint8Array>> {
    return this.#whole('POST', sent, typeof body === 'string' ? Buffer.from(body) : body);
  }

  async #whole(method: 'GET' | 'POST', { maxBytes, ...sent }: Got, body: Uint8Array | undefined): Promise<Answer<Uint8Array>> {
    const collector = new ByteCollector();
    const head = await this.#send(method, sent, body, (chunk) => {
      collector.push(chunk);
      if (collector.size > maxBytes)
        throw new GatewayError('upstream_protocol', `${sent.to.authority.host} sent a longer answer than is taken.`);
      return true;
    });
    return { ...head, body: collector.take() };
  }

  async #send(
    method: 'GET' | 'POST' | 'PATCH',
    { to, headers, signal, timeoutMs = ANSWER_MS }: Sent,
    body: Uint8Array | undefined,
    take: Taker,
  ): Promise<ExchangedHead> {
    if (signal.aborted) throw stopping();
    const { authority, tls, path } = to;
    const parent = tls ? undefined : this.#ways.parentOf(authority);
    // Named here, so that a Host among the headers is a second one, which undici refuses.
    const fields = ['Host', hostHeader(to), ...headers];
    if (parent?.authorization !== undefined) fields.push('Proxy-Authorization', parent.authorization);
    const limit = new AbortController();
    const onAbort = (): void => limit.abort(stopping());
    const cancel = this.#clock.after(timeoutMs, () => {
      limit.abort(timeoutError(authority, `did not answer within ${timeoutMs / 1_000} seconds`));
    });
    signal.addEventListener('abort', onAbort, { once: true });
    const line = this.#lineTo(to);
    try {
      const target = parent === undefined ? path : absoluteForm(authority, path);
      return await line.exchange({ method, path: target, headers: fields, body }, take, limit.signal);
    } catch (error) {
      throw callError(authority, line.phase, undiciError(authority, line.phase, error));
    } finally {
      cancel();
      signal.removeEventListener('abort', onAbort);
      if (line.isReusable && this.#idle.size < MAX_IDLE) this.#idle.add(line);
      else this.#drop(line);
    }
  }

  /**
   * One that is idle, or a new one. What the operator named himself passes the guard, so that its connections serve
   * nothing that has to be judged.
   */
  #lineTo({ authority, tls, operatorOwn }: Sent['to']): ExchangeLine {
    const key = `${tls ? 's' : 'p'}${operatorOwn ? 'o' : 'g'}${authority.port} ${authority.host}`;
    for (const line of this.#idle) {
      if (this.#lines.get(line) !== key) continue;
      this.#idle.delete(line);
      return line;
    }
    const line = new ExchangeLine(authority, tls, () => this.#ways.connectForHttp(authority, tls, operatorOwn));
    line.onDisconnect(() => {
      if (this.#idle.has(line)) this.#drop(line);
    });
    this.#lines.set(line, key);
    return line;
  }

  #drop(line: ExchangeLine): void {
    this.#idle.delete(line);
    this.#lines.delete(line);
    line.close();
  }

  /** Closes every connection; what is under way fails. */
  close(): void {
    for (const line of [...this.#lines.keys()]) this.#drop(line);
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
