import { filterRequestHeaders, via } from '../outbound/net/header-filter.ts';
import type { Exchange } from './exchange.ts';
import type { Pipeline } from './stage.ts';

/** The one place where the headers of a forwarded call come from (decision 3.21): filtered, marked with Via, asked for without encoding when metered. */
export function outboundHeaders(exchange: Exchange, { settings }: Pipeline, drop?: ReadonlySet<string>): string[] {
  return filterRequestHeaders(exchange.headers, {
    adminToken: settings.adminToken,
    via: via(settings.nodeId),
    trailers: exchange.head.tunnel?.dialled?.protocol === 'h2',
    ...(drop ? { drop } : {}),
    identity:
      exchange.provider !== undefined &&
      exchange.actionType !== 'http.request' &&
      exchange.signedHeaders?.includes('accept-encoding') !== true,
  });
}
