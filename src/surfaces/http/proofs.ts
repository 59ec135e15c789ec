/*
 * Who asks a route: by what a request shows, and by one way to judge it on every surface (specification,
 * "Authentication").
 */
import { cookieIn } from '../../base/lib/cookie.ts';
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
  /** Name of the cookie that a browser has. */
  readonly cookie: string;
  /**
   * Whose session this is: a principal of kind `session`; undefined: nobody's, or no longer.
   * @param value of the cookie
   */
  personOf(value: string): Maybe<Principal | undefined>;
}

/** What a person who has signed in may be asked for; MCP and metrics are for programs. */
const OF_PEOPLE: readonly Scope[] = ['admin', 'org', 'read', 'write', 'review', 'decide'];

/**
 * The cookie of a browser. A browser sends it whichever page asks, so that what changes something is taken from pages
 * of this very origin alone; browsers say so only by TLS, and on the machine itself.
 * @param ended throws `unauthorized` for a session that is over
 */
export function sessionProof({ cookie, personOf }: SignedIn, ended: (scope: Scope, head: ArrivalHead) => never): CallerProof {
  return {
    opens: OF_PEOPLE,
    shown: ({ headers }) => cookieIn(headers['cookie'], cookie),
    judge: (value, scope, head) => {
      const isRead = head.method === 'GET' || head.method === 'HEAD';
      if (!isRead && head.headers['sec-fetch-site'] !== 'same-origin')
        throw new GatewayError('origin_not_allowed', 'A session may change something only from a page of this gateway itself.');
      return when(personOf(value), (person) => {
        if (person === undefined) return ended(scope, head);
        if (person.scopes.includes(scope)) return person;
        throw new GatewayError('insufficient_scope', `This session may not do that: it needs the scope \`${scope}\`.`);
      });
    },
  };
}
