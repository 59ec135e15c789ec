import type { Events } from '../../base/events/bus.ts';
import type { ArrivalHead, Authority, BodySource, Dialled } from '../../base/model/arrival.ts';
import { filterRequestHeaders } from '../../outbound/net/header-filter.ts';
import { ClientCertificateWanted } from '../../outbound/net/upstream-error.ts';

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
