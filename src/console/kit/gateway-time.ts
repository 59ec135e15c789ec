/*
 * The gateway's time: what is left of a held call, and from when a list is asked, are said by its clock. That of a
 * browser may be minutes off.
 */

/** What the way of an answer and whole seconds account for. */
const NOISE_MS = 2_000;
/** Milliseconds by which this browser's clock is behind. */
let behind = 0;

/** Notes what the gateway says of its time. @param at RFC 3339, as it was when it answered */
export function heardTime(at: string): void {
  const off = Date.parse(at) - Date.now();
  behind = Math.abs(off) < NOISE_MS ? 0 : off;
}

/** Milliseconds since the epoch, by the gateway's clock. */
export function gatewayNow(): number {
  return Date.now() + behind;
}
