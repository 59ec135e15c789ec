import { GatewayError } from '../../base/lib/gateway-error.ts';
import { parseAuthority } from '../../base/lib/host.ts';
import { isLoopbackHost } from '../../base/lib/loopback-host.ts';
import type { ArrivalHead } from '../../base/model/arrival.ts';

export interface AdminGuard {
  /** The port is bound to a loopback address. */
  readonly loopbackBind: boolean;
  /** `CP_NAMES`, canonical. */
  readonly names: ReadonlySet<string>;
}

const HTTP_PORT = 80;

/**
 * Keeps web pages off the port (decisions 3.14, 13.6): no page is served here, so none may ask; and on a loopback bind a Host that is neither loopback nor one of the names
 * is refused (DNS rebinding).
 * @returns the refusal, or undefined
 */
export function guardAdmin({ headers }: Pick<ArrivalHead, 'headers'>, { loopbackBind, names }: AdminGuard): GatewayError | undefined {
  const site = headers['sec-fetch-site'];
  if (headers['origin'] !== undefined || (site !== undefined && site !== 'none'))
    return new GatewayError('origin_not_allowed', 'A browser page sent this request, and none may ask the control plane.');
  if (!loopbackBind) return undefined;
  const host = parseAuthority(headers['host'] ?? '', HTTP_PORT)?.host;
  if (host !== undefined && (isLoopbackHost(host) || names.has(host))) return undefined;
  return new GatewayError('misdirected_request', 'Host is not a name of this control plane; list it in CP_NAMES if it is.');
}
