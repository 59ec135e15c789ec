import type { Events } from '../../base/events/bus.ts';
import { traceParentText } from '../../base/lib/trace-context.ts';
import type { ArrivalHead, Authority, BodySource, Dialled } from '../../base/model/arrival.ts';
import type { CallTrace } from '../../base/model/call-trace.ts';
import { filterRequestHeaders, via } from '../../outbound/net/header-filter.ts';
import { ClientCertificateWanted } from '../../outbound/net/upstream-error.ts';
import type { PipelineSettings } from '../parts/call-services.ts';
import type { Arrived, CallRoute } from '../parts/parts.ts';

/** A call of which the head is written. */
export interface OutboundCall {
  readonly arrival: Arrived;
  readonly route: Pick<CallRoute, 'provider' | 'actionType'>;
  readonly headers: readonly string[];
  /** Lower-case names that its caller's signature covers. */
  readonly signed: readonly string[] | undefined;
}

/**
 * The one place where the headers of a forwarded call come from (decision 3.21): filtered, marked with Via, asked for
 * without encoding when metered.
 */
export function outboundHeaders(
  { arrival, route, headers, signed }: OutboundCall,
  settings: PipelineSettings,
  drop?: ReadonlySet<string>,
): string[] {
  const sent = filterRequestHeaders(headers, {
    adminToken: settings.adminToken,
    via: via(settings.nodeId),
    trailers: arrival.head.tunnel?.dialled?.protocol === 'h2',
    ...(drop ? { drop } : {}),
    identity: route.provider !== undefined && route.actionType !== 'http.request' && signed?.includes('accept-encoding') !== true,
  });
  return arrival.trace === undefined ? sent : withTrace(sent, arrival.trace, signed);
}

/** A flat name, value list by lower-case name; of a repeated field the last value counts. */
export function byName(flat: readonly string[]): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {};
  for (let at = 0; at < flat.length; at += 2) headers[(flat[at] ?? '').toLowerCase()] = flat[at + 1] ?? '';
  return headers;
}

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

/** The connection of the request's own tunnel (decision 3.11), unless the call goes elsewhere by now. */
export function dialledFor({ tunnel }: ArrivalHead, { host, port }: Authority): Dialled | undefined {
  return tunnel?.authority.host === host && tunnel.authority.port === port ? tunnel.dialled : undefined;
}

/** The trailers of a request's body as they may leave: what no header may carry, no trailer may (decision 3.21). */
export function bodyTrailers(body: BodySource, adminToken: string): readonly string[] {
  return body.trailers.length === 0 ? body.trailers : filterRequestHeaders(body.trailers, { adminToken });
}

/** Tells of an upstream that wants a client certificate, when that is why a call failed (decision 3.11). */
export function tellOfClientCertificate(failure: unknown, host: string, events: Events): void {
  if (failure instanceof ClientCertificateWanted) events.emit('clientCertificateWanted', host);
}
