/*
 * The reply room: how an answer leaves. It turns a decision or an upstream's answer into status, headers and bytes; it decides nothing, reads no
 * clock and keeps no state.
 */

/** What every governed response says about itself (decision 8.3). */
export interface Mark {
  readonly requestId: string;
  readonly recordId: string;
  readonly decision: string;
  /** Undefined when the headers leave before the record is complete. */
  readonly recordHash: string | undefined;
}

/** The gateway's own headers in front of `rest`, as a flat name, value list. */
export function governedHeaders(mark: Mark, rest: readonly string[]): string[] {
  const own = ['X-GW-Request-ID', mark.requestId, 'X-GW-Record-ID', mark.recordId, 'X-GW-Decision', mark.decision];
  if (mark.recordHash !== undefined) own.push('X-GW-Record-Hash', mark.recordHash);
  return rest.length === 0 ? own : own.concat(rest);
}
