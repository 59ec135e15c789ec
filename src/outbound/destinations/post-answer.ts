import { shorten } from '../../base/lib/text.ts';
import type { WebAddress } from '../../base/lib/web-address.ts';
import type { FailureReason } from '../../base/model/export-destination.ts';
import { DeliveryError } from './delivery-error.ts';
import type { PostAnswer } from './way-out.ts';

const SHOWN = 200;

interface Row {
  readonly reason: FailureReason;
  readonly retryable: boolean;
}

/** By status, or by its hundred. */
const BY_STATUS: Readonly<Record<number, Row>> = {
  401: { reason: 'auth_error', retryable: false },
  403: { reason: 'auth_error', retryable: false },
  404: { reason: 'gone', retryable: false },
  408: { reason: 'timeout', retryable: true },
  410: { reason: 'gone', retryable: false },
  429: { reason: 'rate_limited', retryable: true },
  5: { reason: 'server_error', retryable: true },
};
const OTHERS: Row = { reason: 'client_error', retryable: false };

/**
 * Why an answer is a failure: 429 and 5xx are worth another try, other 4xx are not, and a redirect is none that is
 * followed.
 * @param now milliseconds since the epoch, for a `Retry-After` that is a date
 */
export function refusedPost(answer: PostAnswer, to: WebAddress, now: number): DeliveryError {
  const { status } = answer;
  const { reason, retryable } = BY_STATUS[status] ?? BY_STATUS[Math.floor(status / 100)] ?? OTHERS;
  return new DeliveryError(reason, whatCameBack(answer, to), { retryable, retryAfterMs: retryAfter(answer, now) });
}

/**
 * An answer as people are told of it: its status and the beginning of its text, in which nothing of the address stands.
 */
export function whatCameBack({ status, body }: PostAnswer, { path }: WebAddress): string {
  // A path of one slash would take all slashes.
  const secrets = [path, path.split('?', 1)[0] ?? path, path.split('?', 2)[1] ?? ''].filter(({ length }) => length > 1);
  const said = secrets.reduce((text, secret) => text.replaceAll(secret, '…'), body);
  const line = said.replaceAll(/[\p{Cc}\s]+/gu, ' ').trim();
  return line === '' ? `HTTP ${status}` : `HTTP ${status}: ${shorten(line, SHOWN)}`;
}

/**
 * Milliseconds; seconds or a date in the header (RFC 9110 §10.2.3), else seconds in the body's `retry_after`, as
 * Discord says it.
 */
export function retryAfter({ headers, body }: PostAnswer, now: number): number | undefined {
  const header = headers.get('retry-after');
  const seconds = header === undefined ? Number(/"retry_after":\s*([\d.]{1,12})/.exec(body)?.[1]) : Number(header);
  const ms = Number.isFinite(seconds) ? seconds * 1_000 : Date.parse(header ?? '') - now;
  return Number.isFinite(ms) && ms > 0 ? Math.ceil(ms) : undefined;
}

/**
 * How long whoever was told something wants to hear nothing, milliseconds: `Retry-After`, else `next_interval_seconds`
 * of a JSON body.
 */
export function askedPause(answer: PostAnswer, now: number): number | undefined {
  const seconds = Number(/"next_interval_seconds":\s*(\d{1,9})\b/.exec(answer.body)?.[1]);
  return answer.headers.has('retry-after') || !(seconds > 0) ? retryAfter(answer, now) : seconds * 1_000;
}
