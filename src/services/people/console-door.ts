/*
 * Which requests may sign in to the console, and by which a cookie of it counts (decision 10.19): over TLS, and over
 * plain HTTP on the machine itself, where the host is one of this gateway's.
 */
import { type Cookie, cookieIn } from '../../base/lib/cookie.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { isLoopbackHost, parseAuthority } from '../../base/lib/host.ts';
import { type IpSet, parseIp } from '../../base/lib/ip.ts';
import { type Maybe, when } from '../../base/lib/maybe.ts';
import { ownCookieName } from '../../base/lib/own-cookies.ts';
import type { ArrivalHead } from '../../base/model/arrival.ts';
import type { Principal, Scope } from '../../base/model/principal.ts';
import { strangeHost } from '../../inbound/normalise/door.ts';
import { ID_RULE, isId } from '../../inbound/normalise/envelope-rules.ts';
import { callerIp } from '../../inbound/normalise/identity.ts';
import type { SignedIn } from '../../surfaces/http/proofs.ts';
import { type ConsoleSessions, OF_ORGS } from './console-sessions.ts';

/** By which a session of the admin token says which org it asks about. */
const ORG_HEADER = 'gw-org';
const [HTTP_PORT, HTTPS_PORT] = [80, 443];

export interface ConsoleDoorOptions {
  readonly sessions: Pick<ConsoleSessions, 'personOf'>;
  /** Whose `X-Forwarded-Proto` is believed. */
  readonly trustedProxies: IpSet;
  /** Of `GW_PUBLIC_NAMES` and `GW_PUBLIC_URL`, canonical. */
  readonly publicNames: ReadonlySet<string>;
  /** Whether the certificate of the ports is for a host; undefined: they speak plain HTTP. */
  readonly covers: ((host: string) => boolean) | undefined;
  /** The one org that this gateway serves; undefined: any. */
  readonly orgId: string | undefined;
}

/** How a browser reached the console. */
interface Way {
  readonly secure: boolean;
  /** That it has called. */
  readonly port: number;
}

/** The console's door: what a browser shows of a session, and whose that is. */
export class ConsoleDoor implements SignedIn {
  readonly #options: ConsoleDoorOptions;

  constructor(options: ConsoleDoorOptions) {
    this.#options = options;
  }

  /**
   * What keeps a request from signing in; undefined: nothing.
   * @returns `misdirected_request` for a host that is none of this gateway's, `forbidden` over plain HTTP
   */
  refusal(head: ArrivalHead): GatewayError | undefined {
    const authority = this.#authorityOf(head);
    if (authority === undefined || !this.#isOwnHost(authority.host)) return strangeHost();
    return this.#wayOf(head) === undefined ? notSecure() : undefined;
  }

  /** What sets the session in the browser, or takes it away. @param value undefined: it is taken away */
  cookie(head: ArrivalHead, value: string | undefined): Cookie | undefined {
    const way = this.#wayOf(head);
    if (way === undefined) return undefined;
    const set = { value: value ?? '', ...(value === undefined ? { maxAgeSeconds: 0 } : {}), sameSite: 'strict' as const };
    return way.secure ? { ...set, name: ownCookieName(way.port, true) } : { ...set, name: ownCookieName(way.port, false), plain: true };
  }

  shown(head: ArrivalHead): string | undefined {
    const field = head.headers['cookie'];
    const way = field === undefined ? undefined : this.#wayOf(head);
    return way === undefined ? undefined : cookieIn(field, ownCookieName(way.port, way.secure));
  }

  personOf(value: string, scope: Scope, head: ArrivalHead): Maybe<Principal | undefined> {
    const authority = this.#authorityOf(head);
    if (authority === undefined || !this.#isOwnHost(authority.host)) throw strangeHost();
    return when(this.#options.sessions.personOf(value), (person) => person && this.#asking(person.principal, scope, head));
  }

  /**
   * Who asks for something of this scope: the admin token about every org, or about one.
   * @throws GatewayError `invalid_request`, `insufficient_scope`
   */
  #asking(principal: Principal, scope: Scope, { headers }: ArrivalHead): Principal {
    const named = headers[ORG_HEADER];
    const { orgId: own } = principal;
    if (own !== undefined) {
      if (named === undefined || named === own) return principal;
      throw new GatewayError('insufficient_scope', `This session is of the org ${own}, and sees no other.`);
    }
    if (scope === 'admin' || scope === 'org') return principal;
    return { ...principal, orgId: this.#servedOrg(named), scopes: [...principal.scopes, ...OF_ORGS] };
  }

  #servedOrg(named: string | undefined): string {
    const { orgId: served } = this.#options;
    const org = named ?? served ?? 'default';
    if (!isId(org)) throw new GatewayError('invalid_request', `The header GW-Org ${ID_RULE}.`);
    if (served === undefined || org === served) return org;
    throw new GatewayError('insufficient_scope', `This gateway serves the org ${served} alone.`);
  }

  /** Undefined: over plain HTTP from another machine, where others could read what is sent. */
  #wayOf(head: ArrivalHead): Way | undefined {
    const authority = this.#authorityOf(head);
    if (authority === undefined) return undefined;
    const { host, port } = authority;
    if (this.#isSecure(head)) return { secure: true, port };
    const { remoteAddress: peer } = head;
    const from = callerIp(head, this.#options.trustedProxies);
    return [host, from, parseIp(peer)?.text ?? peer].every(isLoopbackHost) ? { secure: false, port } : undefined;
  }

  #authorityOf(head: ArrivalHead): { readonly host: string; readonly port: number } | undefined {
    return parseAuthority(head.headers['host'] ?? '', this.#isSecure(head) ? HTTPS_PORT : HTTP_PORT);
  }

  /** Over TLS to one of the ports, or to a proxy before them that says so. */
  #isSecure({ secure, headers, remoteAddress }: ArrivalHead): boolean {
    if (secure) return true;
    const said = headers['x-forwarded-proto']?.split(',', 1)[0]?.trim().toLowerCase();
    return said === 'https' && this.#options.trustedProxies.has(remoteAddress);
  }

  /** A mere name could be rebound to this machine's address by whoever owns it. */
  #isOwnHost(host: string): boolean {
    const { publicNames, covers } = this.#options;
    return isLoopbackHost(host) || parseIp(host) !== undefined || publicNames.has(host) || covers?.(host) === true;
  }
}

function notSecure(): GatewayError {
  return new GatewayError(
    'forbidden',
    'Nobody signs in over plain HTTP from another machine, where the way can be read: set GW_TLS_CERT_FILE and GW_TLS_KEY_FILE, or put a proxy of GW_TRUSTED_PROXIES before it that speaks TLS and sends X-Forwarded-Proto.',
  );
}
