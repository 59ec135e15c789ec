/*
 * What a caller shows to be let in, and where it may stand (decisions 4.5, 9.5). The keys and tokens of this gateway
 * begin with what they are, so each is found wherever a client has room for it; whether it lets anybody in is asked
 * elsewhere.
 */
import { parseBasic } from '../../base/lib/basic-credentials.ts';
import { AUTH_HEADERS } from '../../base/lib/header-rules.ts';
import { API_KEY_PREFIX, bearerOf, isOwnToken, shownToken, tokensInHeaders, WORKLOAD_TOKEN_PREFIX } from '../../base/lib/own-tokens.ts';
import type { ArrivalHead } from '../../base/model/arrival.ts';

/** User name and password of `Proxy-Authorization: Basic`. */
export interface ProxyCredentials {
  readonly user: string | undefined;
  readonly password: string | undefined;
}

/** What a proxy is shown before anything is connected. */
export interface ShownToProxy extends ProxyCredentials {
  /** In a header of this gateway; a workload's token in one stands for the password. */
  readonly apiKey: string | undefined;
}

/** What a call shows. */
export interface ShownKeys {
  readonly apiKey: string | undefined;
  readonly workloadToken: string | undefined;
  /** Of the CONNECT or of this request; empty ones say nothing. */
  readonly proxy: ProxyCredentials;
}

/**
 * What a proxied request shows: in a header of this gateway, in a header in which a provider takes its key, in the
 * CONNECT of its tunnel, or in the credentials of the proxy.
 * @param byHeader what `providerHeaderToken` found
 */
export function shownBy(head: ArrivalHead, byHeader = providerHeaderToken(head)): ShownKeys {
  const proxy = proxyCredentials(head);
  const named = tokensInHeaders(head.headers);
  const provider = { user: byHeader, password: undefined };
  return {
    apiKey: named.apiKey ?? shownAs(API_KEY_PREFIX, provider) ?? head.tunnel?.apiKey ?? shownAs(API_KEY_PREFIX, proxy),
    workloadToken: named.workloadToken ?? shownAs(WORKLOAD_TOKEN_PREFIX, provider) ?? shownAs(WORKLOAD_TOKEN_PREFIX, proxy),
    proxy,
  };
}

/**
 * What a request to a route of the gateway's own shows: in a header of this gateway, else as a bearer token that begins
 * as one of ours.
 */
export function shownToRoute(head: ArrivalHead): Omit<ShownKeys, 'proxy'> {
  const named = tokensInHeaders(head.headers);
  const bearer = bearerOf(head);
  return {
    apiKey: named.apiKey ?? (bearer?.startsWith(API_KEY_PREFIX) ? bearer : undefined),
    workloadToken: named.workloadToken ?? (bearer?.startsWith(WORKLOAD_TOKEN_PREFIX) ? bearer : undefined),
  };
}

/** What a CONNECT, or a request with a whole URL, shows before it is a call. */
export function shownToProxy(
  headers: Parameters<typeof tokensInHeaders>[0],
  credentials: Partial<ProxyCredentials> | undefined,
): ShownToProxy {
  const { apiKey, workloadToken } = tokensInHeaders(headers);
  return { user: credentials?.user, password: credentials?.password || workloadToken, apiKey };
}

/** A client that was not changed shows a key of this gateway where it would show the provider's. */
export function providerHeaderToken({ headers }: ArrivalHead): string | undefined {
  for (const name of AUTH_HEADERS) {
    const value = headers[name];
    const token = value === undefined ? undefined : shownToken(value);
    if (token !== undefined) return token;
  }
  return undefined;
}

/** A user name that is a key or a token names no workload: what is recorded must not hold it. */
export function namedBy({ user }: ProxyCredentials): string | undefined {
  return user === '' || (user !== undefined && isOwnToken(user)) ? undefined : user;
}

/** The key or token of this kind in a proxy's credentials; some clients have room for the user name alone. */
export function shownAs(prefix: string, { user, password }: ProxyCredentials): string | undefined {
  if (password?.startsWith(prefix)) return password;
  return user?.startsWith(prefix) ? user : undefined;
}

/** Empty ones say nothing. */
function proxyCredentials(head: ArrivalHead): ProxyCredentials {
  const { proxyUser, proxyPassword } = head.tunnel ?? {};
  const basic = head.door === 'absolute' ? parseBasic(head.headers['proxy-authorization']) : undefined;
  return { user: (proxyUser ?? basic?.user) || undefined, password: (proxyPassword ?? basic?.password) || undefined };
}
