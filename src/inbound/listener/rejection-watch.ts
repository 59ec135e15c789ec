import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { RejectionSignal } from '../../base/events/execution-event.ts';
import type { Clock } from '../../base/lib/clock.ts';
import { codeOf } from '../../base/lib/thrown.ts';

export interface RejectionWatchOptions {
  /** What `secure` is spoken on. */
  readonly socket: Socket;
  readonly secure: TLSSocket;
  readonly clock: Clock;
  /** Longest time between certificate or handshake and close that counts, milliseconds. */
  readonly silentCloseMs: number;
  /** Called at most once. */
  onRejected(signal: RejectionSignal): void;
}

/** As OpenSSL names the alerts of RFC 8446 §6.2 that are about the certificate of the other side. */
const CERTIFICATE_ALERT =
  /ALERT_(?:UNKNOWN_CA|BAD_CERTIFICATE|CERTIFICATE_UNKNOWN|CERTIFICATE_EXPIRED|CERTIFICATE_REVOKED|UNSUPPORTED_CERTIFICATE|ACCESS_DENIED)/;

/** A client that closes without having read our session tickets closes by RST. */
const RESETS: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE']);

/**
 * Sees when a client does not take our certificate (decision 3.10). Most programs send an alert. Programs on Node judge a certificate when their side of the
 * handshake is complete, and then leave without a word, some before their last message of it is on its way: of them there is nothing else to see.
 */
export function watchForRejection({ socket, secure, clock, silentCloseMs, onRejected }: RejectionWatchOptions): void {
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
    if (secure.bytesRead > 0) return;
    if (alert) onRejected('alert');
    else if (left && socket.bytesWritten > sentBefore && clock.monotonic() - shownAt <= silentCloseMs) onRejected('silent_close');
  });
}
