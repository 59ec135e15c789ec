import type { Socket } from 'node:net';
import { rootCertificates } from 'node:tls';
import { createTransport } from 'nodemailer';
import type { Clock } from '../../base/lib/clock.ts';
import { codeOf, messageOf } from '../../base/lib/gateway-error.ts';
import { shorten } from '../../base/lib/text.ts';
import type { SmtpServer } from '../../base/model/alert-channel.ts';
import type { FailureReason } from '../../base/model/export-destination.ts';
import { OUTBOUND_BOUNDS } from '../../base/model/traffic-bounds.ts';
import type { AlertCard } from './alert-card.ts';
import { alertMail } from './alert-mail.ts';
import { DeliveryError, deliveryError, stoppedDelivery } from './delivery-error.ts';
import type { WayOut } from './way-out.ts';

/** Of the greeting, and of each answer. */
const SILENCE_MS = 15_000;
const SHOWN = 200;
/** For all of one mail. */
const MAIL_MS = 120_000;
/** How often it is looked at what came inside TLS. */
const LOOK_MS = 250;

export interface SmtpSenderOptions {
  readonly door: WayOut;
  readonly clock: Clock;
  readonly server: SmtpServer;
  /** The address that mails come from. */
  readonly from: string;
  /** PEM text, trusted beside the runtime's roots. */
  readonly extraRoots?: string | undefined;
}

/** Sends alerts by the operator's mail server (`GW_SMTP_URL`), one connection for each. */
export class SmtpSender {
  readonly #options: SmtpSenderOptions;

  constructor(options: SmtpSenderOptions) {
    this.#options = options;
  }

  /** @returns what came back @throws DeliveryError */
  async send(card: AlertCard, to: readonly string[], signal: AbortSignal): Promise<string> {
    if (signal.aborted) throw stoppedDelivery();
    const { from, door, server } = this.#options;
    let socket: Socket;
    try {
      // By our own door, also where the library would open a connection itself.
      socket = await door.connect(server.authority, { tls: false, operatorOwn: true });
    } catch (error) {
      throw deliveryError(error);
    }
    const cut = (): void => void socket.destroy();
    signal.addEventListener('abort', cut, { once: true });
    if (isAborted(signal)) cut();
    const unwatch = boundTalk(socket, this.#options.clock);
    try {
      const { subject, text } = alertMail(card);
      const { response, rejected } = await this.#transport(socket).sendMail({
        from,
        to: [...to],
        subject,
        text,
        messageId: `<${card.alertId}@${domainOf(from)}>`,
        date: new Date(card.at),
        headers: { 'Auto-Submitted': 'auto-generated', 'X-Auto-Response-Suppress': 'All' },
        disableFileAccess: true,
        disableUrlAccess: true,
      });
      const some = rejected.length === 0 ? '' : `; ${rejected.length} of ${to.length} recipients were refused`;
      return `${shorten(response, SHOWN)}${some}`;
    } catch (error) {
      throw signal.aborted ? stoppedDelivery() : smtpFault(error);
    } finally {
      unwatch();
      signal.removeEventListener('abort', cut);
      socket.destroy();
    }
  }

  #transport(connection: Socket) {
    const { server, extraRoots } = this.#options;
    const { host, port } = server.authority;
    return createTransport({
      host,
      port,
      secure: server.tls === 'implicit',
      requireTLS: server.tls === 'starttls',
      ignoreTLS: server.tls === 'none',
      ...(server.user === undefined ? {} : { auth: { user: server.user, pass: server.password ?? '' } }),
      tls: {
        minVersion: 'TLSv1.2',
        rejectUnauthorized: true,
        ...(extraRoots === undefined ? {} : { ca: [...rootCertificates, extraRoots] }),
      },
      greetingTimeout: SILENCE_MS,
      socketTimeout: SILENCE_MS,
      disableFileAccess: true,
      disableUrlAccess: true,
      getSocket: (_options, callback) => callback(null, { connection }),
    });
  }
}

/**
 * Ends a connection on which a server talks without end, or takes for ever: the library keeps every line until an
 * answer is whole.
 * @returns what ends the watch
 */
function boundTalk(socket: Socket, clock: Clock): () => void {
  const most = OUTBOUND_BOUNDS.mailServer.one;
  const end = (why: string): void => void socket.destroy(new Error(why));
  const push = socket.push.bind(socket);
  let heard = 0;
  socket.on('error', () => undefined);
  socket.push = (piece: unknown): boolean => {
    heard += piece instanceof Uint8Array ? piece.length : 0;
    if (heard <= most) return push(piece);
    end('it says more than is read');
    return false;
  };
  // Inside TLS nothing is pushed here.
  let cancelLook: () => void;
  const look = (): void => {
    if (socket.bytesRead > most) end('it says more than is read');
    else cancelLook = clock.after(LOOK_MS, look);
  };
  cancelLook = clock.after(LOOK_MS, look);
  const cancelEnd = clock.after(MAIL_MS, () => end('it took more than two minutes'));
  return () => {
    cancelLook();
    cancelEnd();
  };
}

/** Asked again behind a wait. */
function isAborted({ aborted }: AbortSignal): boolean {
  return aborted;
}

function domainOf(from: string): string {
  return from.slice(from.lastIndexOf('@') + 1).replaceAll(/[^\w.-]/g, '');
}

const BY_CODE: Readonly<Record<string, FailureReason>> = {
  ETIMEDOUT: 'timeout',
  EAUTH: 'auth_error',
  ENOAUTH: 'auth_error',
  ETLS: 'tls_error',
};

/** The library gives all faults of a connection one code. */
const TLS_WORDS = /certificate|altnames|\bSSL\b|\bTLS\b/i;

/** A server that says 5xx means it; who could not be spoken to is tried again. */
function smtpFault(error: unknown): DeliveryError {
  const { responseCode, response } = (error ?? {}) as { responseCode?: unknown; response?: unknown };
  const status = typeof responseCode === 'number' ? responseCode : 0;
  const message = messageOf(error);
  const known = BY_CODE[codeOf(error)] ?? (status === 0 && TLS_WORDS.test(message) ? 'tls_error' : undefined);
  const refused = status >= 500;
  const reason: FailureReason = known ?? (refused ? 'client_error' : status >= 400 ? 'server_error' : 'unreachable');
  const said = typeof response === 'string' ? response : message;
  return new DeliveryError(reason, `The mail server did not take it: ${shorten(said.replaceAll(/\p{Cc}+/gu, ' '), SHOWN)}`, {
    retryable: !refused && reason !== 'auth_error',
  });
}
