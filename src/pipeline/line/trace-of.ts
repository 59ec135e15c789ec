import { isTraceState, parseTraceParent } from '../../base/lib/trace-context.ts';
import type { ArrivalHead } from '../../base/model/arrival.ts';
import type { CallTrace } from '../../base/model/call-trace.ts';
import type { Tracing } from '../parts/call-services.ts';
import type { SocketCall } from '../parts/parts.ts';

/**
 * The trace that a call belongs to: that of its caller, or of the handshake of its WebSocket, or a new one (decision
 * 12.7).
 * @param tracing undefined where no traces are sent: then a call has one only when its caller says so
 */
export function traceOf(head: ArrivalHead, socketCall: SocketCall | undefined, tracing: Tracing | undefined): CallTrace | undefined {
  if (socketCall) {
    const { trace } = socketCall.opened.arrival;
    return trace && tracing ? tracing.inside(trace) : trace;
  }
  const text = head.headers['traceparent'];
  if (text === undefined) return tracing?.begin(undefined, undefined);
  const parent = parseTraceParent(text);
  if (tracing) return tracing.begin(parent, parent && stateOf(head));
  return parent && { traceId: parent.traceId, parentId: parent.spanId, parentIsRemote: true, own: undefined };
}

function stateOf({ headers }: ArrivalHead): string | undefined {
  const state = headers['tracestate'];
  return state !== undefined && isTraceState(state) ? state : undefined;
}
