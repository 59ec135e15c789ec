import type { ArrivalHead, Authority, BodySource, Dialled } from '../base/model/arrival.ts';
import { filterRequestHeaders } from '../outbound/net/header-filter.ts';

/** The connection of the request's own tunnel (decision 3.11), unless the call goes elsewhere by now. */
export function dialledFor({ tunnel }: ArrivalHead, { host, port }: Authority): Dialled | undefined {
  return tunnel?.authority.host === host && tunnel.authority.port === port ? tunnel.dialled : undefined;
}

/** The trailers of a request's body as they may leave: what no header may carry, no trailer may (decision 3.21). */
export function bodyTrailers(body: BodySource, adminToken: string): readonly string[] {
  return body.trailers.length === 0 ? body.trailers : filterRequestHeaders(body.trailers, { adminToken });
}
