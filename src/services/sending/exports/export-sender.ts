import { type Clock, pause, retryDelay } from '../../../base/lib/clock.ts';
import { readSyslogAddress, readWebAddress, type SyslogAddress } from '../../../base/lib/web-address.ts';
import type { ExportKind } from '../../../base/model/export-destination.ts';
import { DeliveryError, deliveryError, stoppedDelivery } from '../../../outbound/destinations/delivery-error.ts';
import type { ExportedEvent } from '../../../outbound/destinations/event-envelope.ts';
import { postEvent, type WebhookTarget } from '../../../outbound/destinations/signed-webhook.ts';
import { type SyslogTarget, sendToSyslog } from '../../../outbound/destinations/syslog-sender.ts';
import type { WayOut } from '../../../outbound/destinations/way-out.ts';
import type { OpenDestination } from './export-destinations.ts';

/** After the first try (specification, "Limits": SIEM webhook retries). */
const RETRIES = 3;
/** Posts that are under way at once. */
const AT_ONCE = 8;
/** Retry-After is honoured up to this long; what comes after waits too. */
const LONGEST_WAIT_MS = 60_000;

export interface ExportSenderOptions {
  readonly door: WayOut;
  readonly clock: Clock;
  readonly mayBePlain: (host: string) => boolean;
  /** What this gateway is called in syslog. */
  readonly nodeId: string;
}

/** Where events go, ready to be sent to. */
export type ExportTarget = ({ readonly kind: 'webhook' } & WebhookTarget) | ({ readonly kind: 'syslog' } & SyslogTarget);

/** An event that could not be delivered, and why. */
export interface Undelivered {
  readonly event: ExportedEvent;
  readonly error: DeliveryError;
  readonly attempts: number;
}

export interface SentEvents {
  readonly delivered: number;
  readonly retried: number;
  readonly dead: readonly Undelivered[];
}

/** The target that a destination names. @throws DeliveryError when it names none (any more) */
export function targetOf({ config }: Pick<OpenDestination, 'config'>, mayBePlain: (host: string) => boolean): ExportTarget {
  if (config === undefined) throw lacking('What the destination is reached by cannot be opened; was GW_SECRETS_KEY changed?');
  if ('url' in config) {
    const to = readWebAddress(config.url, mayBePlain);
    if (typeof to === 'string') throw lacking(`The URL ${to}.`);
    return { kind: 'webhook', to, token: config.token, secret: config.secret, format: config.format };
  }
  const address: SyslogAddress | undefined = readSyslogAddress(config.address);
  if (address === undefined) throw lacking('The address is none.');
  return { kind: 'syslog', ...address, format: config.format, operatorOwn: false };
}

/** One try for one event. @returns what came back @throws DeliveryError */
export async function sendOnce(
  options: ExportSenderOptions,
  target: ExportTarget,
  event: ExportedEvent,
  signal: AbortSignal,
): Promise<string> {
  if (target.kind === 'webhook') return postEvent(options, target, event, signal);
  await sendToSyslog(options, target, [event], options.nodeId, signal);
  return target.transport === 'udp' ? 'sent; nobody says whether datagrams arrive' : 'taken';
}

/**
 * Sends events with three retries each: a webhook gets one post for each, syslog all of them at once.
 * @param to `target` is asked anew for each try; what it throws is a failure like any other
 * @throws DeliveryError `uncounted` once the signal is aborted or the gateway stops; nothing else
 */
export async function sendAll(
  options: ExportSenderOptions,
  to: { readonly kind: ExportKind; readonly target: () => ExportTarget },
  events: readonly ExportedEvent[],
  signal: AbortSignal,
): Promise<SentEvents> {
  const { kind, target } = to;
  let retried = 0;
  const dead: Undelivered[] = [];
  const tryOf = async (some: readonly ExportedEvent[], send: () => Promise<unknown>): Promise<void> => {
    for (let attempts = 1; ; attempts += 1) {
      const error = await send().then(() => undefined, deliveryError);
      if (error === undefined) return;
      if (signal.aborted || error.uncounted) throw stoppedDelivery();
      if (!error.retryable || attempts > RETRIES) {
        dead.push(...some.map((event) => ({ event, error, attempts })));
        return;
      }
      retried += some.length;
      await waitFor(options.clock, Math.max(retryDelay(attempts - 1), Math.min(error.retryAfterMs ?? 0, LONGEST_WAIT_MS)), signal);
    }
  };
  if (kind === 'syslog') {
    await tryOf(events, async () => {
      const now = target();
      if (now.kind === 'syslog') await sendToSyslog(options, now, events, options.nodeId, signal);
    });
  } else {
    const waiting = [...events];
    const lane = async (): Promise<void> => {
      for (let event = waiting.shift(); event !== undefined; event = waiting.shift()) {
        const one = event;
        await tryOf([one], async () => sendOnce(options, target(), one, signal));
      }
    };
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, events.length) }, lane));
  }
  return { delivered: events.length - dead.length, retried, dead };
}

async function waitFor(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  await pause(clock, ms, signal);
  if (signal.aborted) throw stoppedDelivery();
}

function lacking(message: string): DeliveryError {
  return new DeliveryError('not_configured', message, { retryable: false });
}
