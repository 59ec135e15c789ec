import { uuidv7 } from '../../base/lib/ids.ts';
import { isTraceState, parseTraceParent } from '../../base/lib/trace-context.ts';
import type { ConnectionType } from '../../base/model/action-request.ts';
import type { Arrival, ArrivalHead, WaitingClient } from '../../base/model/arrival.ts';
import type { CallTrace } from '../../base/model/call-trace.ts';
import { callerIp } from '../../inbound/normalise/identity.ts';
import type { LineGround, Tracing } from '../parts/call-services.ts';
import type { LineName } from '../parts/line-name.ts';
import type { SocketCall } from '../parts/parts.ts';
import type { Refusal } from '../parts/refusal.ts';
import { WalkingCall } from './walking-call.ts';

/** What is known of a request beside its arrival. */
export interface Beginning {
  readonly line: LineName;
  readonly connectionType: ConnectionType;
  readonly socketCall?: SocketCall;
  readonly heldBy?: WaitingClient | undefined;
  readonly imposed?: Refusal;
}

/** One request, before anything is known of it but its head. */
export function begin(
  from: { readonly head: ArrivalHead } & Partial<Arrival>,
  { line, connectionType, socketCall, heldBy, imposed }: Beginning,
  pipeline: LineGround,
): WalkingCall {
  const { clock, settings, catalogues, tracing } = pipeline;
  const createdAt = clock.now();
  return new WalkingCall(
    {
      line,
      head: from.head,
      body: from.body,
      reply: from.reply,
      createdAt,
      recordId: uuidv7(createdAt),
      connectionType,
      // Only what came through the proxy can be ambient (specification, "Connection types").
      trafficClass: connectionType === 'connect_proxy' ? from.head.trafficClass : 'developer',
      callerIp: callerIp(from.head, settings.trustedProxies),
      catalogue: catalogues.current(),
      trace: traceOf(from.head, socketCall, tracing),
      socketCall,
      heldBy,
      imposed,
    },
    pipeline,
  );
}

/** A call on an open WebSocket, ready to walk the line. */
export function beginSocketCall(socketCall: SocketCall, pipeline: LineGround, heldBy?: WaitingClient): WalkingCall {
  const { arrival } = socketCall.opened;
  const head = { ...arrival.head, startedAt: pipeline.clock.monotonic() };
  return begin({ head }, { line: 'socket', connectionType: arrival.connectionType, socketCall, heldBy }, pipeline);
}

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
