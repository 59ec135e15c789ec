/*
 * Who asks a route: by what a request shows, and by one way to judge it on every surface (specification,
 * "Authentication").
 */
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { type Maybe, when } from '../../base/lib/maybe.ts';
import { bearerOf } from '../../base/lib/own-tokens.ts';
import { sameSecret } from '../../base/lib/secret-box.ts';
import type { ArrivalHead } from '../../base/model/arrival.ts';
import type { Principal, Scope } from '../../base/model/principal.ts';

/** What a router asks before a route. */
export interface RouteAuthenticator {
  /** Who asks for something of this scope. @throws GatewayError, such as `unauthorized` */
  principal(scope: Scope, head: ArrivalHead): Maybe<Principal>;
  /** Whether a request shows a session of a browser, good or not; absent: none does. */
  showsSession?(head: ArrivalHead): boolean;
}

/** One thing that can be shown. Another kind of key is another row in a list of these. */
export interface CallerProof {
  /** For which scopes it is looked at. */
  readonly opens: readonly Scope[];
  /** What a request shows of it; undefined: nothing, and the next proof is looked at. */
  readonly shown: (head: ArrivalHead) => string | undefined;
  /** Who has shown it. @throws GatewayError when it lets nobody in: then no further proof is looked at */
  readonly judge: (shown: string, scope: Scope, head: ArrivalHead) => Maybe<Principal>;
}

/** Of whom nothing is asked. */
export const ANYONE: Principal = { kind: 'anyone', id: 'anyone', scopes: ['none'] };

/** Judges the first proof that a request shows, of those that are looked at for its scope. */
export class Proofs implements RouteAuthenticator {
  readonly #byScope = new Map<Scope, readonly CallerProof[]>();
  readonly #nothingShown: (scope: Scope, head: ArrivalHead) => Maybe<never>;

  /**
   * @param proofs in the order in which they are looked at
   * @param nothingShown throws `unauthorized`, in the words of the surface
   */
  constructor(proofs: readonly CallerProof[], nothingShown: (scope: Scope, head: ArrivalHead) => Maybe<never>) {
    for (const scope of new Set(proofs.flatMap(({ opens }) => opens))) {
      this.#byScope.set(
        scope,
        proofs.filter(({ opens }) => opens.includes(scope)),
      );
    }
    this.#nothingShown = nothingShown;
  }

  principal(scope: Scope, head: ArrivalHead): Maybe<Principal> {
    if (scope === 'none') return ANYONE;
    for (const proof of this.#byScope.get(scope) ?? []) {
      const shown = proof.shown(head);
      if (shown !== undefined) return proof.judge(shown, scope, head);
    }
    return this.#nothingShown(scope, head);
  }
}

/** A secret that is the same for all who know it. */
export interface SecretProof {
  readonly opens: readonly Scope[];
  readonly principal: Principal;
  /** Undefined: nothing is needed for its scopes. */
  readonly secret: string | undefined;
  readonly shown: (head: ArrivalHead) => string | undefined;
  /** Throws `unauthorized` for a wrong one. */
  readonly refuse: (shown: string, scope: Scope, head: ArrivalHead) => never;
}

export function secretProof({ opens, principal, secret, shown, refuse }: SecretProof): CallerProof {
  if (secret === undefined) return { opens, shown: () => '', judge: () => ANYONE };
  return { opens, shown, judge: (given, scope, head) => (sameSecret(given, secret) ? principal : refuse(given, scope, head)) };
}

/** The token of metrics. @param secret undefined: everybody may read them */
export function metricsProof(secret: string | undefined, refuse: SecretProof['refuse']): CallerProof {
  const principal: Principal = { kind: 'metrics', id: 'metrics', scopes: ['none', 'metrics'] };
  return secretProof({ opens: ['metrics'], principal, secret, shown: bearerOf, refuse });
}

/** Where people have signed in. */
export interface SignedIn {
  /** The value of its cookie that a request shows where such a cookie counts; undefined: none. */
  shown(head: ArrivalHead): string | undefined;
  /**
   * Whose session this is: a principal of kind `session`, of the one org that is asked about where the scope is of an
   * org; undefined: nobody's, or no longer.
   * @param value of the cookie
   * @throws GatewayError `misdirected_request`, `insufficient_scope` for an org that is not the person's
   */
  personOf(value: string, scope: Scope, head: ArrivalHead): Maybe<Principal | undefined>;
}

/** What a person who has signed in may be asked for; MCP and metrics are for programs. */
const OF_PEOPLE: readonly Scope[] = ['admin', 'org', 'read', 'write', 'review', 'decide', 'session'];

/** Which no form and no address can send, and no page of another origin without being asked first (Fetch standard). */
export const CONSOLE_HEADER = 'gw-console';

/**
 * Keeps every page but those of this very origin from using the cookie of a browser, which sends it whichever page
 * asks: pages at other ports of the host are of the same site, so that `SameSite` alone is not enough. Browsers say
 * where a request comes from by TLS, and on the machine itself.
 * @throws GatewayError `origin_not_allowed`
 */
export function requireOwnPage({ method, headers }: Pick<ArrivalHead, 'method' | 'headers'>): void {
  const { 'sec-fetch-site': site, [CONSOLE_HEADER]: marked } = headers;
  const isRead = method === 'GET' || method === 'HEAD';
  const isOwn = isRead ? site === undefined || site === 'same-origin' || site === 'none' : site === 'same-origin' && marked === '1';
  if (isOwn) return;
  throw new GatewayError(
    'origin_not_allowed',
    isRead
      ? 'A session is read only by a page of this gateway itself.'
      : 'A session may change something only from a page of this gateway itself, which sends GW-Console: 1.',
  );
}

/**
 * The cookie of a browser, from pages of this gateway itself alone.
 * @param ended throws `unauthorized` for a session that is over
 */
export function sessionProof(signedIn: SignedIn, ended: (scope: Scope, head: ArrivalHead) => never): CallerProof {
  return {
    opens: OF_PEOPLE,
    shown: (head) => signedIn.shown(head),
    judge: (value, scope, head) => {
      requireOwnPage(head);
      return when(signedIn.personOf(value, scope, head), (person) => {
        if (person === undefined) return ended(scope, head);
        if (person.scopes.includes(scope)) return person;
        throw new GatewayError('insufficient_scope', `This session may not do that: it needs the scope \`${scope}\`.`);
      });
    },
  };
}
