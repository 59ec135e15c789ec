import type { Socket } from 'node:net';
import Client from 'undici/lib/dispatcher/client.js';
import { codeOf } from '../../base/lib/gateway-error.ts';
import { bracketHost } from '../../base/lib/host.ts';
import type { Authority } from '../../base/model/arrival.ts';
import { KEEP_ALIVE_MARGIN_MS, KEEP_ALIVE_MAX_MS, KEEP_ALIVE_MS, MAX_HEADER_BYTES } from './lane.ts';
import { answerError, type CallPhase, MAX_STATUS, NO_STATUS } from './upstream-error.ts';

export interface ExchangeRequest {
  readonly method: string;
  /** Path and query, or a whole URL where a proxy is asked. */
  readonly path: string;
  /** Flat name, value list; framing is added. */
  readonly headers: readonly string[];
  readonly body: string | Uint8Array | undefined;
}

export interface ExchangedHead {
  readonly status: number;
  /** Lower-case names; of several of one name the last. */
  readonly headers: ReadonlyMap<string, string>;
}

/**
 * Takes the bytes of an answer's body.
 * @returns false when nothing more is needed
 * @throws Error with which the exchange then fails
 */
export type Taker = (chunk: Uint8Array) => boolean;

/** What an answer may have besides its body: a head, interim answers, the framing of chunks of one byte each. */
const MAX_FRAMING = 4 * MAX_HEADER_BYTES;
const FRAMING_OF_A_BYTE = 5;
const MOSTLY_FRAMING = 'sent an answer that is mostly framing';
const ENOUGH = new Error('nothing more of the answer is needed');

/**
 * A client of undici that has one connection at a time and no limit of time: the signal of an exchange is its limit.
 * @param connect makes the connection, TLS included, whenever there is none
 */
export function undiciClient(authority: Authority, tls: boolean, connect: () => Promise<Socket>): Client {
  return new Client(`${tls ? 'https' : 'http'}://${bracketHost(authority.host)}:${authority.port}`, {
    connect: (_options, callback) => {
      connect().then(
        (socket) => callback(null, socket),
        (error: Error) => callback(error, null),
      );
    },
    pipelining: 1,
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: KEEP_ALIVE_MS,
    keepAliveMaxTimeout: KEEP_ALIVE_MAX_MS,
    keepAliveTimeoutThreshold: KEEP_ALIVE_MARGIN_MS,
    maxHeaderSize: MAX_HEADER_BYTES,
  });
}

/**
 * One HTTP/1.1 connection by undici, for one exchange after the other. Its caller says how it connects, and with that
 * whom it trusts.
 */
export class ExchangeLine {
  readonly #authority: Authority;
  readonly #client: Client;
  #socket: Socket | undefined;
  /** The first error of the socket; undici keeps the last one. */
  #fault: Error | undefined;
  /** How far the exchange has come that is under way, or was the last. */
  #phase: CallPhase = 'connecting';
  #isReusable = false;
  #readBefore = 0;
  #bodyBytes = 0;
  #abort: (reason: Error) => void = () => undefined;

  /**
   * @param connect makes the connection, TLS included, whenever there is none; what it rejects with is the error of the
   * exchange
   */
  constructor(authority: Authority, tls: boolean, connect: () => Promise<Socket>) {
    this.#authority = authority;
    this.#client = undiciClient(authority, tls, async () => this.#watched(await connect()));
  }

  get phase(): CallPhase {
    return this.#phase;
  }

  /** The last answer ended where its framing says, so that the connection can serve another exchange. */
  get isReusable(): boolean {
    return this.#isReusable;
  }

  onDisconnect(listener: () => void): void {
    this.#client.on('disconnect', listener);
  }

  /**
   * Sends one request when the one before is over. No redirect is followed, and nothing is sent twice.
   * @param take gets the body @param signal its reason is then the error
   * @returns the head, when the last byte that is needed was taken @throws Error of the connection, of undici, of
   * `take`
   */
  exchange({ method, path, headers, body }: ExchangeRequest, take: Taker, signal: AbortSignal): Promise<ExchangedHead> {
    this.#isReusable = false;
    this.#phase = 'connecting';
    this.#startCounting();
    return new Promise<ExchangedHead>((resolve, reject) => {
      let head: ExchangedHead = { status: 0, headers: new Map() };
      this.#abort = reject;
      const onAbort = (): void => this.#abort(reasonOf(signal));
      const end = (settle: () => void): void => {
        signal.removeEventListener('abort', onAbort);
        settle();
      };
      signal.addEventListener('abort', onAbort, { once: true });
      const request = { method, path, headers: [...headers], body: typeof body === 'string' ? Buffer.from(body) : (body ?? null) };
      this.#client.dispatch(request, {
        onRequestStart: (controller) => {
          this.#phase = 'sent';
          this.#abort = (reason) => controller.abort(reason);
          if (signal.aborted) onAbort();
        },
        onResponseStart: ({ rawHeaders }, status) => {
          if (status < 200) return;
          if (status > MAX_STATUS) throw answerError(this.#authority, NO_STATUS);
          this.#phase = 'answering';
          head = { status, headers: fieldsOf(Array.isArray(rawHeaders) ? rawHeaders : []) };
        },
        onResponseData: (controller, chunk) => {
          this.#bodyBytes += chunk.length;
          if (take(chunk)) return;
          end(() => resolve(head));
          controller.abort(ENOUGH);
        },
        onResponseEnd: () => {
          this.#isReusable = true;
          end(() => resolve(head));
        },
        onResponseError: (_controller, error) => {
          // A 304 has the length of the body that a 200 would have had (RFC 9110 §8.6); undici misses that body.
          const isWhole = head.status === 304 && codeOf(error) === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH';
          const fault = codeOf(error) === 'UND_ERR_SOCKET' ? (this.#fault ?? error) : error;
          end(() => (isWhole ? resolve(head) : reject(fault)));
        },
      });
    });
  }

  /** Closes the connection; an exchange that is under way fails. */
  close(): void {
    this.#client.destroy().catch(() => undefined);
  }

  /**
   * undici reads extensions of chunks and interim answers without an end, and hands on none of them, so that bytes are
   * counted where they arrive.
   */
  #watched(socket: Socket): Socket {
    this.#socket = socket;
    this.#fault = undefined;
    this.#startCounting();
    socket.once('error', (error) => {
      this.#fault = error;
    });
    socket.on('readable', () => {
      const framing = socket.bytesRead - this.#readBefore - this.#bodyBytes;
      if (framing > MAX_FRAMING + FRAMING_OF_A_BYTE * this.#bodyBytes) this.#abort(answerError(this.#authority, MOSTLY_FRAMING));
    });
    return socket;
  }

  #startCounting(): void {
    this.#readBefore = this.#socket?.bytesRead ?? 0;
    this.#bodyBytes = 0;
  }
}

function reasonOf({ reason }: AbortSignal): Error {
  return reason instanceof Error ? reason : ENOUGH;
}

function fieldsOf(rawHeaders: readonly (Buffer | string)[]): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) fields.set(fieldText(rawHeaders[at]).toLowerCase(), fieldText(rawHeaders[at + 1]));
  return fields;
}

/** Bytes of a field as Latin-1 (RFC 9110 §5.5), as everywhere in this room. */
function fieldText(raw: Buffer | string | undefined): string {
  return raw?.toString('latin1') ?? '';
}
