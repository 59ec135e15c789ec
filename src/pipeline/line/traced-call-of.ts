import type { TracedCall, UpstreamLeg } from '../../base/events/traced-call.ts';
import type { GatewayError } from '../../base/lib/gateway-error.ts';
import type { CallTrace } from '../../base/model/call-trace.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import type { LineGround } from '../parts/call-services.ts';
import { deliveredOf } from '../parts/known.ts';
import type { Known } from '../parts/parts.ts';

/** How a call has ended. */
export type TracedEnd =
  | { readonly record: ExecutionRecord }
  | { readonly failure: GatewayError; readonly unstored: boolean }
  | { readonly replayed: true };

/**
 * Tells of a call that has ended, where its spans are sent. Asked for calls alone that have a trace, so that all others
 * pay nothing.
 */
export function tellTrace(parts: Known, trace: CallTrace, { events, clock }: Pick<LineGround, 'events' | 'clock'>, end: TracedEnd): void {
  const { own } = trace;
  if (own?.sampled === true) events.emit('traced', tracedCall(parts, { trace, own }, clock.monotonic(), end));
}

function tracedCall(parts: Known, spans: Pick<TracedCall, 'trace' | 'own'>, endedAt: number, end: TracedEnd): TracedCall {
  const { arrival, claims } = parts;
  return {
    ...spans,
    head: arrival.head,
    recordId: arrival.recordId,
    requestId: claims?.requestId ?? arrival.recordId,
    connectionType: arrival.connectionType,
    trafficClass: arrival.trafficClass,
    callerIp: arrival.callerIp,
    endedAt,
    record: 'record' in end ? end.record : undefined,
    failure: 'failure' in end ? { code: end.failure.code, status: end.failure.status, unstored: end.unstored } : undefined,
    replayed: 'replayed' in end,
    upstream: upstreamOf(parts),
  };
}

function upstreamOf(parts: Known): UpstreamLeg | undefined {
  const { route, used } = parts;
  const delivery = deliveredOf(parts);
  if (route === undefined || delivery?.times === undefined) return undefined;
  const { detailType, dialect } = route.operation ?? {};
  return {
    sentAt: delivery.times.sentAt,
    firstAt: delivery.times.firstAt,
    endedAt: delivery.times.endedAt,
    host: route.host,
    port: route.port,
    method: route.method,
    detailType,
    dialectId: dialect?.id,
    status: delivery.status,
    failed: delivery.failure?.code ?? (delivery.clientGone ? 'client_gone' : undefined),
    model: used?.model,
    responseId: delivery.meter?.state?.id,
  };
}
