import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { HandshakeRejectedEvent, RejectionSignal } from '../../base/events/events.ts';
import type { Clock } from '../../base/lib/clock.ts';
import { codeOf } from '../../base/lib/gateway-error.ts';
import { Lru } from '../../base/lib/lru.ts';
import { CONTROL_BOUNDS } from '../../base/model/org-bounds.ts';
import type { ConnectRequest } from './connect-request.ts';
import type { ListenerLimits } from './limits.ts';

export interface RejectionWatchOptions {
  readonly clock: Clock;
  readonly limits: Pick<ListenerLimits, 'silentCloseMs' | 'silenceHeldMs'>;
  onRejected(event: HandshakeRejectedEvent): void;
}

/** One handshake that is to be watched. */
export interface WatchedHandshake {
  /** Whose it is; see {@link tlsClientOf}. */
  readonly client: string;
  readonly host: string;
  /** What `secure` is spoken on. */
  readonly socket: Socket;
  readonly secure: TLSSocket;
}

/** As OpenSSL names the alerts of RFC 8446 §6.2 that are about the certificate of the other side. */
const CERTIFICATE_ALERT =
  /ALERT_(?:UNKNOWN_CA|BAD_CERTIFICATE|CERTIFICATE_UNKNOWN|CERTIFICATE_EXPIRED|CERTIFICATE_REVOKED|UNSUPPORTED_CERTIFICATE|ACCESS_DENIED)/;

/** A client that closes without having read our session tickets closes by RST. */
const RESETS: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE']);

/** Clients that took our certificate for a host; of those of longest ago silence may count again. */
const MAX_TAKEN = CONTROL_BOUNDS.takenCertificates.all;
/** Silent closes that wait to be judged; what comes beyond is not counted, since strangers could name hosts at will. */
const MAX_SILENT = CONTROL_BOUNDS.silentCloses.all;
const MAX_PROGRAM_LENGTH = 100;

/**
 * Sees when a client does not take our certificate (decision 3.10). Most programs say so by an alert, which always
 * counts. Programs on Node judge a certificate when their side of the handshake is complete, and then leave without a
 * word, some before their last message of it is on its way: of them there is nothing else to see. But a browser leaves
 * connections that it opened on speculation in the same way, so that silence counts only when no handshake of this
 * client for this host ever succeeded, neither before nor, since the one that is used may be the slower one, for a
 * while behind it.
 */
export class RejectionWatch {
  readonly #options: RejectionWatchOptions;
  readonly #taken = new Lru<string, true>({ max: MAX_TAKEN });
  /** Handshakes and what came of them, as long as they are open. */
  readonly #open = new Map<string, Set<TLSSocket>>();
  readonly #silent = new Map<string, { host: string; closes: number; cancel: () => void }>();

  constructor(options: RejectionWatchOptions) {
    this.#options = options;
  }

  /** To be called before the handshake begins. */
  watch({ client, host, socket, secure }: WatchedHandshake): void {
    const { clock, limits } = this.#options;
    const key = `${host} ${client}`;
    const siblings = this.#open.get(key) ?? new Set();
    this.#open.set(key, siblings.add(secure));
    watchEnd(socket, secure, clock, limits.silentCloseMs, (end) => {
      siblings.delete(secure);
      if (siblings.size === 0 && this.#open.get(key) === siblings) this.#open.delete(key);
      if (end === 'taken') this.#taken.set(key, true);
      else if (end === 'alert') this.#options.onRejected({ host, signal: end });
      else if (end === 'silent_close') this.#hold(key, host);
    });
  }

  /** Judges nothing that waits any more. */
  stop(): void {
    for (const { cancel } of this.#silent.values()) cancel();
    this.#silent.clear();
  }

  #hold(key: string, host: string): void {
    if (this.#tookBefore(key)) return;
    const waiting = this.#silent.get(key);
    if (waiting) waiting.closes += 1;
    else if (this.#silent.size < MAX_SILENT) {
      const cancel = this.#options.clock.after(this.#options.limits.silenceHeldMs, () => this.#judge(key));
      this.#silent.set(key, { host, closes: 1, cancel });
    }
  }

  #judge(key: string): void {
    const { host, closes } = this.#silent.get(key) ?? { host: '', closes: 0 };
    this.#silent.delete(key);
    if (this.#tookBefore(key)) return;
    for (let n = 0; n < closes; n += 1) this.#options.onRejected({ host, signal: 'silent_close' });
  }

  /** What was said on a connection that is still open counts too. */
  #tookBefore(key: string): boolean {
    if (this.#taken.has(key)) return true;
    for (const { bytesRead } of this.#open.get(key) ?? []) if (bytesRead > 0) return true;
    return false;
  }
}

/**
 * One program, as far as a CONNECT tells: its address, the workload whose name it gives, and what it says it is. On a
 * loopback address everything is one neighbour, and a program that pins must not hide behind the browser beside it.
 */
export function tlsClientOf({ remoteAddress, proxyUser = '', headers }: ConnectRequest): string {
  return `${remoteAddress} ${proxyUser.slice(0, MAX_PROGRAM_LENGTH)} ${String(headers['user-agent'] ?? '').slice(0, MAX_PROGRAM_LENGTH)}`;
}

/**
 * Calls back once, when the connection is closed. `taken`: the client said something; undefined: it was not the
 * certificate that ended it.
 */
function watchEnd(
  socket: Socket,
  secure: TLSSocket,
  clock: Clock,
  silentCloseMs: number,
  onEnd: (end: RejectionSignal | 'taken' | undefined) => void,
): void {
  const sentBefore = socket.bytesWritten;
  /** Of our certificate, or of the end of the handshake: whichever was last. */
  let shownAt = clock.monotonic();
  let alert = false;
  /** It was the client who left. */
  let left = false;
  secure.on('secure', () => {
    shownAt = clock.monotonic();
  });
  secure.on('error', (error: Error) => {
    const code = codeOf(error);
    alert ||= CERTIFICATE_ALERT.test(code);
    left ||= RESETS.has(code);
  });
  secure.on('end', () => {
    left ||= !secure.writableEnded;
  });
  secure.on('close', () => {
    if (secure.bytesRead > 0) onEnd('taken');
    else if (alert) onEnd('alert');
    else onEnd(left && socket.bytesWritten > sentBefore && clock.monotonic() - shownAt <= silentCloseMs ? 'silent_close' : undefined);
  });
}
