import { pathBelowBase, usualOrigin } from '../../base/catalogue/custom-row.ts';
import type { Catalogue, Provider } from '../../base/catalogue/types.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { parseAuthority } from '../../base/lib/host.ts';
import { nearestName } from '../../base/lib/mistakes.ts';
import { ownText } from '../../base/lib/text.ts';
import type { ConnectionType } from '../../base/model/action-request.ts';
import type { ArrivalHead, Authority } from '../../base/model/arrival.ts';
import { canonicalPath } from './path.ts';

/** Where a proxied request goes. */
export interface ProxiedTarget {
  readonly connectionType: ConnectionType;
  /** Canonical (decision 3.17). */
  readonly host: string;
  readonly port: number;
  /** Whether the upstream is spoken to over TLS. */
  readonly tls: boolean;
  /** Canonical path with query: what policy sees and what is sent, the `/proxy/{provider}` prefix removed. */
  readonly path: string;
  /** The registry row that covers the host; undefined for everything that is no AI host. */
  readonly provider: Provider | undefined;
}

const HTTPS_PORT = 443;
const HTTPS = { tls: true };
const HTTP_PORT = 80;
const SLASH = 0x2f;
const PREFIX = '/proxy/';
/** `ws` and `wss` are the same schemes for a WebSocket (RFC 6455 §3). */
const ABSOLUTE_FORM = /^(https?|wss?):\/\/([^/?#]*)(.*)$/is;
const SECURE_SCHEME = /^(?:https|wss)$/i;

/**
 * Finds the upstream of a request that came by a proxied door (decisions 3.1, 3.3, 3.16 to 3.18).
 * @throws GatewayError `misdirected_request` (the Host inside a tunnel is not the CONNECT's authority),
 * `no_target_host`, `invalid_target`
 */
export function resolveTarget(head: ArrivalHead, catalogue: Catalogue): ProxiedTarget {
  switch (head.door) {
    case 'connect':
      return tunnelled(head, catalogue);
    case 'absolute':
      return absolute(head, catalogue);
    case 'origin':
      return redirected(head, catalogue);
  }
}

/** The path of a request to a proxy, as it was sent; undefined for a target that has none. */
export function pathSent({ rawTarget }: ArrivalHead): string | undefined {
  if (rawTarget.charCodeAt(0) === SLASH) return rawTarget;
  const url = ABSOLUTE_FORM.exec(rawTarget);
  return url === null ? undefined : url[3] || '/';
}

/** True for an origin-form target that begins with the prefix of redirect mode. */
export function hasProxyPrefix(rawTarget: string): boolean {
  return rawTarget.startsWith(PREFIX);
}

function tunnelled(head: ArrivalHead, catalogue: Catalogue): ProxiedTarget {
  const authority = head.tunnel?.authority;
  if (authority === undefined) throw new GatewayError('internal', 'A tunnelled request has no tunnel.');
  const host = head.headers['host'];
  const defaultPort = head.secure ? HTTPS_PORT : HTTP_PORT;
  // The usual spelling needs no parsing.
  const same = host === authority.host && authority.port === defaultPort;
  if (!same && !isAuthority(host, authority, defaultPort)) throw misdirected();
  const rawPath = head.rawTarget.charCodeAt(0) === SLASH ? head.rawTarget : pathInTunnel(head.rawTarget, authority);
  // To an AI host plain HTTP stays plain on port 80 only; on every other port it is spoken to over TLS, so that no key
  // travels in the clear. So does it to a custom connector whose own URL says so.
  const provider = catalogue.providerForHost(authority.host);
  const isPlain = authority.port === HTTP_PORT || (provider?.custom?.tls === false && provider.custom.port === authority.port);
  const tls = head.secure || (!isPlain && provider !== undefined);
  return targetOf(head, { connectionType: 'connect_proxy', authority, tls, rawPath }, catalogue);
}

/**
 * RFC 9112 §3.2.2: a server takes the authority of an absolute-form target instead of Host, so it must not name
 * another.
 */
function pathInTunnel(rawTarget: string, authority: Authority): string {
  const url = ABSOLUTE_FORM.exec(rawTarget);
  if (url === null) return rawTarget;
  if (!isAuthority(url[2], authority, SECURE_SCHEME.test(url[1] ?? '') ? HTTPS_PORT : HTTP_PORT)) throw misdirected();
  return url[3] ?? '';
}

function isAuthority(text: string | undefined, authority: Authority, defaultPort: number): boolean {
  const named = text === undefined ? undefined : parseAuthority(text, defaultPort);
  return named !== undefined && named.host === authority.host && named.port === authority.port;
}

function misdirected(): GatewayError {
  return new GatewayError('misdirected_request', 'Host is not the authority that the CONNECT named.');
}

function absolute(head: ArrivalHead, catalogue: Catalogue): ProxiedTarget {
  const url = ABSOLUTE_FORM.exec(head.rawTarget);
  const tls = SECURE_SCHEME.test(url?.[1] ?? '');
  // User info, a missing host and a port out of range are all not an authority.
  // Hosts are kept, in lists of those met; the rest of a long target is not to stay with them.
  const authority = parseAuthority(ownText(url?.[2] ?? ''), tls ? HTTPS_PORT : HTTP_PORT);
  if (url === null || authority === undefined) {
    throw new GatewayError('invalid_target', 'The request target is not an absolute URL of http, https, ws or wss with a plain host.');
  }
  return targetOf(head, { connectionType: 'connect_proxy', authority, tls, rawPath: url[3] ?? '' }, catalogue);
}

interface Found {
  readonly connectionType: ConnectionType;
  readonly authority: Authority;
  readonly tls: boolean;
  readonly rawPath: string;
}

function targetOf(head: ArrivalHead, { connectionType, authority, tls, rawPath }: Found, catalogue: Catalogue): ProxiedTarget {
  const { host, port } = authority;
  const provider = catalogue.providerForHost(host);
  // The rest of a shared host is as any other host's: its paths are its own affair.
  const holdsCalls = provider !== undefined && (!provider.shared || catalogue.isCall(provider, head.method, rawPath));
  const asterisk = rawPath === '*' && head.method === 'OPTIONS' && !holdsCalls;
  const path = asterisk ? rawPath : canonicalPath(rawPath, holdsCalls);
  return { connectionType, host, port, tls, path, provider };
}

/**
 * The order of the specification ("Transparent proxy mode", rule 2) as decision 3.3 reads it: header, Host of a known
 * provider, prefix.
 */
function redirected(head: ArrivalHead, catalogue: Catalogue): ProxiedTarget {
  const prefix = splitPrefix(head.rawTarget, catalogue);
  const own = prefixTarget(prefix);
  const authority = namedTarget(head) ?? hostTarget(head, catalogue) ?? own;
  if (authority === undefined) {
    throw new GatewayError('no_target_host', whyNoHost(head.rawTarget, prefix?.provider, catalogue));
  }
  const isOwn = prefix !== undefined && authority === own;
  const rawPath = isOwn ? pathBelowBase(prefix.provider, prefix.rest) : (prefix?.rest ?? head.rawTarget);
  const { tls } = isOwn ? usualOrigin(prefix.provider) : HTTPS;
  return targetOf(head, { connectionType: 'sdk_redirect', authority, tls, rawPath }, catalogue);
}

function namedTarget(head: ArrivalHead): Authority | undefined {
  const named = head.headers['x-gw-target-host'];
  if (named === undefined || named === '') return undefined;
  const authority = parseAuthority(named, HTTPS_PORT);
  if (authority === undefined) throw new GatewayError('invalid_target', 'X-GW-Target-Host is not a host with an optional port.');
  return authority;
}

function hostTarget(head: ArrivalHead, catalogue: Catalogue): Authority | undefined {
  const host = hostOf(head);
  return host !== undefined && isRegistryHost(host, catalogue) ? { host, port: HTTPS_PORT } : undefined;
}

/**
 * Whether a Host header with this name means that provider. Of a connector that an org has made it may mean the gateway
 * itself, which can stand on the same machine: else whoever may make one could take the gateway's own routes away.
 */
export function isRegistryHost(host: string, catalogue: Catalogue): boolean {
  const provider = catalogue.providerForHost(host);
  return provider !== undefined && provider.custom === undefined;
}

/**
 * Hosts of Host headers that were folded before: three guards ask for each request's, nearly always the gateway's own
 * address, and folding an address takes the URL parser. Emptied when full, so that no sender can make it grow.
 */
const foldedHosts = new Map<string, string | undefined>();
const MAX_FOLDED_HOSTS = 512;

/**
 * The canonical host of the Host header, without its port: behind a redirect of DNS or routing that port is the
 * gateway's own.
 */
export function hostOf(head: ArrivalHead): string | undefined {
  const text = head.headers['host'];
  if (text === undefined || text.length > 300) return undefined;
  const known = foldedHosts.get(text);
  if (known !== undefined || foldedHosts.has(text)) return known;
  const host = parseAuthority(text, HTTPS_PORT)?.host;
  if (foldedHosts.size >= MAX_FOLDED_HOSTS) foldedHosts.clear();
  foldedHosts.set(text, host);
  return host;
}

/**
 * What a caller of another org, or one who names no org, is told of a connector that an org has made: the same whether
 * it is there or not.
 */
const OWN_CONNECTOR = /^(?:custom:|catalog:)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![\w-])/i;
const OF_ITS_ORG = "it is another org's (then show the API key of that org, or send X-GW-Org-ID), is switched off, or is not used here.";

function whyNoHost(rawTarget: string, provider: Provider | undefined, { providers }: Catalogue): string {
  if (provider !== undefined) return `The provider ${provider.id} has a host per customer: send X-GW-Target-Host.`;
  const connector = hasProxyPrefix(rawTarget) ? OWN_CONNECTOR.exec(rawTarget.slice(PREFIX.length))?.[0] : undefined;
  if (connector !== undefined) return `There is no connector ${connector} for callers of this org: ${OF_ITS_ORG}`;
  const given = hasProxyPrefix(rawTarget) ? /^[\w-]{1,32}/.exec(rawTarget.slice(PREFIX.length))?.[0] : undefined;
  if (given === undefined) return 'No upstream host: send X-GW-Target-Host, or use the path prefix /proxy/{provider}/.';
  const ids = providers.filter(({ inProxyRegistry }) => inProxyRegistry).map(({ id }) => id);
  const nearest = nearestName(given, ids);
  return `There is no provider "${given}"${nearest === undefined ? '.' : `; did you mean /proxy/${nearest}/?`} A host is named by X-GW-Target-Host.`;
}

interface Prefix {
  readonly provider: Provider;
  readonly rest: string;
}

function splitPrefix(rawTarget: string, catalogue: Catalogue): Prefix | undefined {
  if (!hasProxyPrefix(rawTarget)) return undefined;
  const query = rawTarget.indexOf('?');
  const pathEnd = query === -1 ? rawTarget.length : query;
  const slash = rawTarget.indexOf('/', PREFIX.length);
  const end = slash === -1 || slash > pathEnd ? pathEnd : slash;
  const provider = catalogue.provider(rawTarget.slice(PREFIX.length, end));
  return provider === undefined ? undefined : { provider, rest: rawTarget.slice(end) };
}

function prefixTarget(prefix: Prefix | undefined): Authority | undefined {
  const host = prefix?.provider.inProxyRegistry === true ? prefix.provider.hosts[0] : undefined;
  return host === undefined ? undefined : { host, port: usualOrigin(prefix?.provider).port };
}
