import type { IncomingMessage } from 'node:http';
import { parseBasic } from '../../base/lib/basic-credentials.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { parseAuthority } from '../../base/lib/host.ts';
import type { TrafficClass } from '../../base/model/action-request.ts';
import type { Authority } from '../../base/model/arrival.ts';
import { framingOf } from './framing.ts';
import type { Link } from './links.ts';

/** One CONNECT, before anything is decided about it. */
export interface ConnectRequest {
  readonly authority: Authority;
  readonly trafficClass: TrafficClass;
  /** Flat name, value list as received. */
  readonly rawHeaders: readonly string[];
  /** Lower-case names, first value or joined as Node joins them. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** TCP peer without port. */
  readonly remoteAddress: string;
  /** From `Proxy-Authorization: Basic`; both empty texts are possible. */
  readonly proxyUser?: string;
  readonly proxyPassword?: string;
}

/**
 * Reads a CONNECT: its target is host and port and nothing else (decision 3.7), and it has no body (RFC 9110 §9.3.6),
 * since what follows belongs to the tunnel.
 * @returns GatewayError `invalid_target` or `bad_framing` for what is refused
 */
export function readConnect(request: IncomingMessage, link: Link): ConnectRequest | GatewayError {
  // By the rules of 1.0: clients leave out Host here, which says nothing that the target does not, and chunks have no
  // place.
  const framing = framingOf(request.rawHeaders, request.httpVersion === '1.1' ? '1.0' : request.httpVersion);
  if (framing instanceof GatewayError) return framing;
  if (framing.declaredLength !== 0) return new GatewayError('bad_framing', 'A CONNECT has no body.');
  const authority = parseAuthority(request.url ?? '');
  if (authority === undefined) return new GatewayError('invalid_target', 'CONNECT needs a host and a port, such as api.openai.com:443.');
  const credentials = parseBasic(request.headers['proxy-authorization']);
  return {
    authority,
    trafficClass: link.trafficClass,
    rawHeaders: request.rawHeaders,
    headers: request.headers,
    remoteAddress: link.remoteAddress,
    ...(credentials ? { proxyUser: credentials.user, proxyPassword: credentials.password } : {}),
  };
}
