import { createHmac } from 'node:crypto';
import { sameSecret } from './secret-box.ts';

/** How far a signed moment may be from the clock, seconds (Slack's guide to verifying requests). */
const MOST_SECONDS = 300;
const VERSION = 'v0';
/** Hex digits of what a button shows: 128 bits. */
const BUTTON_DIGITS = 32;

/** What Slack signs a request with: HMAC-SHA256 over `v0:seconds:body`. @param seconds as the header has them */
export function slackSignature(secret: string, seconds: string, body: string): string {
  return `${VERSION}=${createHmac('sha256', secret).update(`${VERSION}:${seconds}:${body}`).digest('hex')}`;
}

/** What a request shows. */
export interface SlackSigned {
  /** `X-Slack-Request-Timestamp`. */
  readonly seconds: string | undefined;
  /** `X-Slack-Signature`. */
  readonly signature: string | undefined;
  readonly body: string;
}

/**
 * Why a request is not believed to be of Slack, as the rest of a sentence; undefined: it is.
 * @param now milliseconds since the epoch
 */
export function slackDoubt(secret: string, { seconds, signature, body }: SlackSigned, now: number): string | undefined {
  if (seconds === undefined || signature === undefined) return 'has no X-Slack-Request-Timestamp and X-Slack-Signature';
  if (!/^\d{1,12}$/.test(seconds) || Math.abs(now / 1_000 - Number(seconds)) > MOST_SECONDS)
    return `was not signed within ${MOST_SECONDS / 60} minutes of this clock`;
  return sameSecret(signature, slackSignature(secret, seconds, body)) ? undefined : 'is not signed with GW_SLACK_SIGNING_SECRET';
}

/** What a button decides. */
type ButtonVerdict = 'approved' | 'denied';

/**
 * What a button says of the approval that it is for: its id, and a proof that a gateway with this secret has made the
 * button for this verdict. Whoever knows an id and may write to the chat makes no button by which somebody else decides
 * it, and no yes stands behind a no.
 */
export function buttonValue(secret: string, approvalId: string, verdict: ButtonVerdict): string {
  return `${approvalId}.${proofOf(secret, approvalId, verdict)}`;
}

/** The approval that a button is for; undefined: it was not made with this secret, or for another verdict. */
export function approvalOfButton(secret: string, value: string, verdict: ButtonVerdict): string | undefined {
  const at = value.lastIndexOf('.');
  const id = value.slice(0, Math.max(0, at));
  return sameSecret(value.slice(at + 1), proofOf(secret, id, verdict)) ? id : undefined;
}

function proofOf(secret: string, approvalId: string, verdict: ButtonVerdict): string {
  return createHmac('sha256', secret).update(`approval button ${approvalId} ${verdict}`).digest('hex').slice(0, BUTTON_DIGITS);
}
