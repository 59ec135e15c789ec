import { createHmac } from 'node:crypto';
import type { Clock } from '../../base/lib/clock.ts';
import type { WebAddress } from '../../base/lib/web-address.ts';
import type { WebhookFormat } from '../../base/model/export-destination.ts';
import { type DeliveryError, deliveryError } from './delivery-error.ts';
import type { ExportedEvent } from './event-envelope.ts';
import { ocsfEvent } from './ocsf/ocsf-event.ts';
import { refusedPost } from './post-answer.ts';
import type { PostAnswer, WayOut } from './way-out.ts';

export interface WebhookTarget {
  readonly to: WebAddress;
  /** Shown as a bearer token. */
  readonly token?: string | undefined;
  /** What signatures are made with: `whsec_` and base64, or any other text as it is. */
  readonly secret?: string | undefined;
  /** Default `json`. */
  readonly format?: WebhookFormat | undefined;
}

/** The body in each form. */
const BODIES: Readonly<Record<WebhookFormat, (event: ExportedEvent) => unknown>> = {
  json: ({ envelope }) => envelope,
  ocsf: ocsfEvent,
};
const SECRET_PREFIX = 'whsec_';

/** The signature of Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`. @param seconds since the epoch */
export function webhookSignature(secret: string, id: string, seconds: number, body: string): string {
  const key = secret.startsWith(SECRET_PREFIX) ? Buffer.from(secret.slice(SECRET_PREFIX.length), 'base64') : Buffer.from(secret);
  return `v1,${createHmac('sha256', key).update(`${id}.${seconds}.${body}`).digest('base64')}`;
}

/** Posts one event. @returns what came back @throws DeliveryError */
export async function postEvent(
  { door, clock }: { readonly door: WayOut; readonly clock: Clock },
  { to, token, secret, format = 'json' }: WebhookTarget,
  event: ExportedEvent,
  signal: AbortSignal,
): Promise<string> {
  const { id } = event;
  const body = JSON.stringify(BODIES[format](event));
  const seconds = Math.floor(clock.now() / 1_000);
  const headers = [
    ...['content-type', 'application/json', 'accept', '*/*', 'webhook-id', id, 'webhook-timestamp', String(seconds)],
    ...(secret === undefined ? [] : ['webhook-signature', webhookSignature(secret, id, seconds, body)]),
    ...(token === undefined ? [] : ['authorization', `Bearer ${token}`]),
  ];
  const answer = await door.post({ to, headers, body, signal }).catch((error: unknown): DeliveryError | PostAnswer => deliveryError(error));
  if (answer instanceof Error) throw answer;
  if (answer.status < 200 || answer.status > 299) throw refusedPost(answer, to, clock.now());
  return `HTTP ${answer.status}`;
}
