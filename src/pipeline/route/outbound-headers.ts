import { filterRequestHeaders, via } from '../../outbound/net/header-filter.ts';
import type { PipelineSettings } from '../parts/call-services.ts';
import type { Arrived, CallRoute } from '../parts/parts.ts';
import { withTrace } from './trace-headers.ts';

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
