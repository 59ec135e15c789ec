import { traceParentText } from '../../base/lib/trace-context.ts';
import type { CallTrace } from '../../base/model/call-trace.ts';

const NAMES: ReadonlySet<string> = new Set(['traceparent', 'tracestate']);

/**
 * Headers that say that the call is made in the span of this gateway. What the caller signed stays as it is.
 * @param headers flat name, value list
 * @param signed lower-case names
 */
export function withTrace(headers: string[], { traceId, own }: CallTrace, signed: readonly string[] | undefined): string[] {
  if (own === undefined || signed?.some((name) => NAMES.has(name)) === true) return headers;
  const sent: string[] = [];
  for (let at = 0; at + 1 < headers.length; at += 2) {
    const name = headers[at] ?? '';
    if (!isTraceHeader(name)) sent.push(name, headers[at + 1] ?? '');
  }
  sent.push('traceparent', traceParentText({ traceId, spanId: own.client, flags: own.flags }));
  if (own.state !== undefined) sent.push('tracestate', own.state);
  return sent;
}

function isTraceHeader(name: string): boolean {
  return (name.length === 11 || name.length === 10) && NAMES.has(name.toLowerCase());
}
