import type { Socket } from 'node:net';
import type { Clock } from '../../base/lib/clock.ts';
import type { SyslogAddress } from '../../base/lib/web-address.ts';
import type { SyslogFormat } from '../../base/model/export-destination.ts';
import { OUTBOUND_BOUNDS } from '../../base/model/traffic-bounds.ts';
import { DeliveryError, deliveryError, stoppedDelivery } from './delivery-error.ts';
import type { ExportedEvent } from './event-envelope.ts';
import { syslogMessage } from './syslog-message.ts';
import type { WayOut } from './way-out.ts';

export interface SyslogTarget extends SyslogAddress {
  readonly format: SyslogFormat;
  /** The operator named it in a setting. */
  readonly operatorOwn: boolean;
}

/** What common receivers take whole: rsyslog 8 KiB by default, one datagram without fragments. */
const MOST_BYTES = { udp: 1_400, tcp: 8_000, tls: 8_000 } as const;
const WRITE_MS = 15_000;
/** How long a receiver has to end its side once it has everything. */
const END_MS = 5_000;

/**
 * Sends events to a syslog server. TCP tells nobody what was taken, so each batch has a connection of its own that both
 * sides end: what a receiver has reset is found out and sent again.
 * @param host our own name in the messages
 * @throws DeliveryError
 */
export async function sendToSyslog(
  { door, clock }: { readonly door: WayOut; readonly clock: Clock },
  { transport, authority, format, operatorOwn }: SyslogTarget,
  events: readonly ExportedEvent[],
  host: string,
  signal: AbortSignal,
): Promise<void> {
  if (signal.aborted) throw stoppedDelivery();
  const messages = events.map((event) => syslogMessage(event, host, format, MOST_BYTES[transport]));
  try {
    if (transport === 'udp') return await door.datagrams(authority, messages, operatorOwn);
    const socket = await door.connect(authority, { tls: transport === 'tls', operatorOwn });
    // Octet counting (RFC 6587 §3.4.1), so that a line end in a message ends nothing.
    const frames = Buffer.concat(messages.flatMap((message) => [Buffer.from(`${message.length} `), message]));
    await writeAndEnd(socket, frames, clock, signal);
  } catch (error) {
    throw deliveryError(error);
  }
}

function writeAndEnd(socket: Socket, bytes: Buffer, clock: Clock, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    let written = false;
    let cancel = clock.after(WRITE_MS, () =>
      finish(new DeliveryError('timeout', 'The server does not take what it is sent.', { retryable: true })),
    );
    const onAbort = (): void => finish(stoppedDelivery());
    const finish = (fault?: Error): void => {
      cancel();
      signal.removeEventListener('abort', onAbort);
      socket.destroy();
      if (fault === undefined) resolve();
      else reject(fault);
    };
    if (signal.aborted) {
      onAbort();
      return;
    }
    signal.addEventListener('abort', onAbort, { once: true });
    const lost = (): DeliveryError => new DeliveryError('unreachable', 'The server broke the connection.', { retryable: true });
    socket.on('error', () => finish(lost()));
    socket.on('close', () => finish(written ? undefined : lost()));
    // Nothing is said to a sender of syslog; what comes is read so that the end is seen.
    let heard = 0;
    socket.on('data', (chunk: Uint8Array) => {
      heard += chunk.length;
      if (heard > OUTBOUND_BOUNDS.syslogServer.one) finish(written ? undefined : lost());
    });
    socket.end(bytes, () => {
      written = true;
      cancel();
      cancel = clock.after(END_MS, () => finish());
    });
  });
}
