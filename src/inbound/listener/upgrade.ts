import { type IncomingMessage, validateHeaderName, validateHeaderValue } from 'node:http';
import type { Socket } from 'node:net';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { SocketChannel } from '../../base/lib/socket-channel.ts';
import { isBroken } from '../../base/lib/sockets.ts';
import type { ChannelEvents } from '../../base/model/channel.ts';
import { type Activity, isUnread, type Link } from './links.ts';
import { SocketUnread } from './unread.ts';

/**
 * The opening handshake of a WebSocket (RFC 6455 §4.1). Whatever else asks for an upgrade is an ordinary request: a
 * server may ignore that (RFC 9110 §7.8).
 */
export function isWebSocketHandshake({ method, httpVersion, headers }: IncomingMessage): boolean {
  return method === 'GET' && httpVersion === '1.1' && headers.upgrade?.trim().toLowerCase() === 'websocket';
}

/** Whether node:http may take a request with `Upgrade` for one that asks for that protocol (RFC 9110 §7.8). */
export function asksForProtocol({ headers }: IncomingMessage): boolean {
  return /(?:^|,)\s*upgrade\s*(?:,|$)/i.test(headers.connection ?? '');
}

/**
 * Options of a server. Where node:http knows this one, `upgrade` takes only what has no body: it may tell of another
 * request before the body has come, and keep the connection to itself until then. Such a one arrives as it is.
 */
export const UPGRADES = {
  shouldUpgradeCallback: ({ headers }: IncomingMessage): boolean =>
    headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0,
};

/** The head of a request once more, without `Upgrade`, so that node:http reads it as an ordinary one. */
export function headWithoutUpgrade({ method, url, httpVersion, rawHeaders }: IncomingMessage): Buffer {
  let head = `${method} ${url} HTTP/${httpVersion}\r\n`;
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.toLowerCase() !== 'upgrade') head += `${rawHeaders[i]}: ${rawHeaders[i + 1]}\r\n`;
  }
  return Buffer.from(`${head}\r\n`, 'latin1');
}

/**
 * The head of the answer that accepts a WebSocket.
 * @throws GatewayError `upstream_protocol`
 */
export function switchingHead(rawHeaders: readonly string[]): string {
  let head = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n';
  try {
    for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
      const name = rawHeaders[i] ?? '';
      const value = rawHeaders[i + 1] ?? '';
      validateHeaderName(name);
      validateHeaderValue(name, value);
      head += `${name}: ${value}\r\n`;
    }
  } catch (error) {
    // biome-ignore lint/style/useErrorCause: the cause is in the third argument
    throw new GatewayError('upstream_protocol', 'The answer has header fields that cannot be passed on.', { cause: error });
  }
  return `${head}\r\n`;
}

/** The client's side of a WebSocket, which hears when the gateway stops. Deadlines are those of whoever opens it. */
export class ClientChannel extends SocketChannel implements Activity {
  readonly #transport: Socket;
  readonly #link: Link;
  readonly unread: SocketUnread;
  #draining = false;
  #onShutdown: (() => void) | undefined;
  #onCut: (() => void) | undefined;

  /** @param transport the link's own socket, or the TLS socket around it */
  constructor(transport: Socket, link: Link) {
    super(transport, () => link.reset());
    this.#transport = transport;
    this.#link = link;
    this.unread = new SocketUnread(transport);
  }

  override open(events: ChannelEvents): void {
    this.#onShutdown = () => events.onShutdown?.();
    this.#onCut = () => events.onCut?.();
    super.open(events);
    if (this.#draining) this.#onShutdown();
  }

  drain(): void {
    this.#draining = true;
    this.#onShutdown?.();
  }

  cut(): void {
    this.#onCut?.();
  }

  sweep(): void {
    // An error, so that a client that had said all it had to say does not look like one that stayed for the answer.
    if (isUnread(this.#transport) && isBroken(this.#link.wire)) this.#transport.destroy(new Error('The client broke the connection.'));
  }
}
