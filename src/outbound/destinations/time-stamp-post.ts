import { bracketHost } from '../../base/lib/host.ts';
import type { WebAddress } from '../../base/lib/web-address.ts';
import type { PostWithAnswer } from './way-out.ts';

const OK = 200;
/** A token with a chain of certificates has a few thousand bytes. */
const MAX_BYTES = 64 * 1024;
const TIMEOUT_MS = 15_000;
const HEADERS = ['content-type', 'application/timestamp-query', 'accept', 'application/timestamp-reply'];
const REPLY = 'application/timestamp-reply';

/** Asks an authority for a time stamp: DER of the request, DER of the answer (RFC 3161 §3.4). */
export type AskTimeStamp = (request: Uint8Array, signal: AbortSignal) => Promise<Buffer>;

/**
 * One POST for each request; no redirect is followed. It rejects with an Error that says what came back, and with
 * GatewayError as every way out.
 */
export function askTimeStamps(door: PostWithAnswer, to: WebAddress): AskTimeStamp {
  return async (request, signal) => {
    const answer = await door.ask({ to, headers: HEADERS, body: request, maxBytes: MAX_BYTES, timeoutMs: TIMEOUT_MS, signal });
    const type = answer.headers.get('content-type')?.split(';', 1)[0]?.trim().toLowerCase();
    if (answer.status !== OK || type !== REPLY)
      throw new Error(
        `${bracketHost(to.authority.host)} answered ${answer.status} (${type ?? 'no content type'}), which is no time stamp: CP_TSA_URL`,
      );
    return Buffer.from(answer.body);
  };
}
