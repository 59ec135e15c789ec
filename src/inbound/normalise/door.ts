import type { CurrentCatalogue } from '../../base/catalogue/catalogue-in-force.ts';
import type { Catalogue } from '../../base/catalogue/types.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { isLoopbackHost, parseAuthority } from '../../base/lib/host.ts';
import { parseIp } from '../../base/lib/ip.ts';
import type { ArrivalHead, Authority } from '../../base/model/arrival.ts';
import { pathOnly } from './path.ts';
import { hasProxyPrefix, hostOf, isRegistryHost } from './target.ts';

/** What an origin-form request is: a call of the gateway's own API, traffic for an upstream, or neither (404). */
export type OriginKind = 'own_route' | 'transparent' | 'not_found';

/**
 * Tells origin-form requests apart (decision 3.1). A Host that names a provider is never the gateway's own route; a
 * path that a route owns is; of the rest, an `X-GW-*` header or the `/proxy/` prefix make transparent mode.
 * @param ownsPath whether a route of the gateway has this path (without query), whatever its method
 */
export function classifyOrigin(
  head: ArrivalHead,
  context: { readonly catalogue: Catalogue; readonly ownsPath: (path: string) => boolean },
): OriginKind {
  if (namesProvider(head, context.catalogue)) return 'transparent';
  if (context.ownsPath(pathOnly(head.rawTarget))) return 'own_route';
  if (hasProxyPrefix(head.rawTarget) || hasGatewayHeader(head)) return 'transparent';
  return 'not_found';
}

export interface OriginGuard {
  /** Exact origins of `GW_ALLOWED_ORIGINS`, as browsers write them. */
  readonly allowedOrigins: ReadonlySet<string>;
  /** Names of `GW_PUBLIC_NAMES`, canonical, without port. */
  readonly publicNames: ReadonlySet<string>;
  /** The listener is bound to a loopback address. */
  readonly loopbackBind: boolean;
  /** The gateway's own ports. */
  readonly ports: ReadonlySet<number>;
  readonly catalogues: CurrentCatalogue;
}

/** What links from other sites lead to. */
export interface Pages {
  /** Whether a page that holds no data is at this path (without query). */
  isPage(path: string): boolean;
}

/**
 * Keeps web pages off the gateway's port (decision 3.14): a foreign or cross-site `Origin` is refused, and on a
 * loopback bind so is a Host that is neither loopback nor public nor a provider's (DNS rebinding). Only origin-form
 * requests outside of tunnels are looked at. An allowed origin may be cross-site: every browser says so of it. Who
 * follows a link to a page of the gateway's own comes from another site, and is let through to that page alone.
 * @returns the refusal (`origin_not_allowed`, `misdirected_request`), or undefined
 */
export function guardOrigin(head: ArrivalHead, guard: OriginGuard, pages: Pages): GatewayError | undefined {
  if (head.door !== 'origin') return undefined;
  const origin = head.headers['origin'];
  if (origin !== undefined) {
    if (!guard.allowedOrigins.has(origin) && !isOwnOrigin(origin, head, guard)) return foreignOrigin();
  } else if (head.headers['sec-fetch-site'] === 'cross-site' && !isVisit(head, guard, pages)) {
    return foreignOrigin();
  }
  if (!guard.loopbackBind) return undefined;
  const host = hostOf(head);
  if (host !== undefined && (isLoopbackHost(host) || guard.publicNames.has(host) || isRegistryHost(host, guard.catalogues.current()))) {
    return undefined;
  }
  return strangeHost();
}

/** The refusal of a `Host` that is none of this gateway's. */
export function strangeHost(): GatewayError {
  return new GatewayError('misdirected_request', 'Host is not a name of this gateway; list it in GW_PUBLIC_NAMES if it is.');
}

function namesProvider(head: ArrivalHead, catalogue: Catalogue): boolean {
  const host = hostOf(head);
  return host !== undefined && isRegistryHost(host, catalogue);
}

function hasGatewayHeader(head: ArrivalHead): boolean {
  for (const name in head.headers) {
    if (name.startsWith('x-gw-')) return true;
  }
  return false;
}

/** A person's browser opens a page, not in a frame, and no other page gets to see what comes (decision 11.4). */
function isVisit(head: ArrivalHead, { catalogues }: OriginGuard, pages: Pages): boolean {
  const { method, headers, rawTarget } = head;
  const isShown = method === 'GET' && headers['sec-fetch-mode'] === 'navigate' && headers['sec-fetch-dest'] === 'document';
  return isShown && pages.isPage(pathOnly(rawTarget)) && !namesProvider(head, catalogues.current());
}

/**
 * Own is a page of this gateway: loopback on one of its ports, a public name, or the very address that was called; a
 * mere name could be rebound.
 */
function isOwnOrigin(origin: string, head: ArrivalHead, guard: OriginGuard): boolean {
  const authority = originAuthority(origin);
  if (authority === undefined) return false;
  if (guard.publicNames.has(authority.host)) return true;
  if (isLoopbackHost(authority.host)) return guard.ports.has(authority.port);
  return parseIp(authority.host) !== undefined && authority.host === hostOf(head) && guard.ports.has(authority.port);
}

function originAuthority(origin: string): Authority | undefined {
  if (origin.startsWith('http://')) return parseAuthority(origin.slice(7), 80);
  return origin.startsWith('https://') ? parseAuthority(origin.slice(8), 443) : undefined;
}

function foreignOrigin(): GatewayError {
  return new GatewayError(
    'origin_not_allowed',
    'A browser page of another origin sent this request; GW_ALLOWED_ORIGINS lists the ones that may.',
  );
}
