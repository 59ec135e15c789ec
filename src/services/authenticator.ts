import type { Events } from '../base/events/bus.ts';
import type { AuthFailureEvent } from '../base/events/events.ts';
import { requestLine, shown } from '../base/events/unrecorded.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { sameSecret } from '../base/lib/secret.ts';
import type { ArrivalHead } from '../base/model/arrival.ts';
import type { Principal, Scope } from '../base/model/principal.ts';
import { WORKLOAD_TOKEN_PREFIX, type WorkloadService } from './workloads.ts';

const API_KEY_PREFIX = 'gwk_';

/** One thing that someone can show for one of the gateway's own routes, and who he is then. Another kind of key is another row, not another branch. */
interface Key {
  readonly principal: Principal;
  /** Undefined: nothing is needed for its scopes. */
  readonly secret: string | undefined;
  /** What a request shows for it. */
  readonly shown: (head: ArrivalHead) => string | undefined;
}

export interface AuthenticatorOptions {
  readonly adminToken: string;
  readonly metricsToken: string | undefined;
  readonly workloads: Pick<WorkloadService, 'hasToken' | 'tokenMatches' | 'holderOf'>;
  /** `GW_PROXY_AUTH=required`: every caller must show the token of a workload. */
  readonly required: boolean;
  /** Of the gateway, where nobody has named another. */
  readonly orgId: string;
  readonly events: Events;
  /** Address of the caller, without port. */
  callerIp(head: ArrivalHead): string;
}

/** What a caller of AI has shown for the workload that it names: its token, nothing where nothing is needed, or not what is needed. */
export type CallerVerdict = 'holder' | 'open' | 'refused';

/** Someone was not let in. */
export interface Failure {
  readonly surface: AuthFailureEvent['surface'];
  readonly head: ArrivalHead;
  readonly presented: string | undefined;
  /** Default: that nothing was shown, or that it is not valid. */
  readonly reason?: AuthFailureEvent['reason'];
  readonly orgId?: string | undefined;
  readonly workloadId?: string | undefined;
}

const ANYONE: Principal = { kind: 'anyone', id: 'anyone', scopes: ['none'] };

/**
 * The one place where it is judged what somebody shows to be let in: callers of AI on every door (decision 4.5), and whoever asks the gateway's own routes
 * (specification, "Authentication"). Each failure is told and counted here.
 */
export class Authenticator {
  readonly #options: AuthenticatorOptions;
  readonly #keys: readonly Key[];

  constructor(options: AuthenticatorOptions) {
    this.#options = options;
    this.#keys = [
      {
        principal: { kind: 'admin', id: 'admin', scopes: ['none', 'admin'] },
        secret: options.adminToken,
        shown: (head) => head.headers['gw-admin-token'] ?? bearerOf(head),
      },
      { principal: { kind: 'metrics', id: 'metrics', scopes: ['none', 'metrics'] }, secret: options.metricsToken, shown: bearerOf },
    ];
  }

  /** Who asks for something of this scope. @throws GatewayError `unauthorized` */
  principal(scope: Scope, head: ArrivalHead): Principal {
    if (scope === 'none') return ANYONE;
    let presented: string | undefined;
    for (const { principal, secret, shown: shownBy } of this.#keys) {
      if (!principal.scopes.includes(scope)) continue;
      if (secret === undefined) return ANYONE;
      const key = shownBy(head);
      if (key !== undefined && sameSecret(key, secret)) return principal;
      presented ??= key;
    }
    this.failed({ surface: scope, head, presented });
    throw new GatewayError('unauthorized', `This needs the ${scope} token.`);
  }

  /**
   * A workload that has a token must show it; with `GW_PROXY_AUTH=required` every caller must show one.
   * @param workloadId that the caller names, undefined when it names none
   * @param required false: another one was shown before
   */
  caller(workloadId: string | undefined, presented: string | undefined, required = this.#options.required): CallerVerdict {
    const { workloads } = this.#options;
    if (workloadId === undefined || !workloads.hasToken(workloadId)) return required ? 'refused' : 'open';
    return presented !== undefined && workloads.tokenMatches(workloadId, presented) ? 'holder' : 'refused';
  }

  /**
   * Who calls the structured API, as far as the head tells: the workload that he calls for stands in a body that nobody has read yet.
   * @returns whose token was shown; undefined where none is needed
   * @throws GatewayError `unauthorized`
   */
  stranger(head: ArrivalHead): string | undefined {
    const presented = bearerOf(head);
    const failure = { surface: 'api', head, presented } as const;
    if (presented?.startsWith(API_KEY_PREFIX)) this.refuseApiKey(failure);
    const workload = presented?.startsWith(WORKLOAD_TOKEN_PREFIX) ? this.#options.workloads.holderOf(presented) : undefined;
    if (workload !== undefined || !this.#options.required) return workload;
    this.failed(failure);
    throw new GatewayError(
      'unauthorized',
      `A structured call needs a workload's token (Authorization: Bearer)${presented === undefined ? '' : '; the one that was sent is not valid'}.`,
    );
  }

  /** No API key exists until they can be made; one that is presented all the same is not valid, and must not pass for no key at all. @throws GatewayError `unauthorized` */
  refuseApiKey(failure: Failure): void {
    if (failure.presented === undefined) return;
    this.failed(failure);
    throw new GatewayError('unauthorized', 'This API key is not known.');
  }

  /** Tells of somebody who was not let in, and counts him. */
  failed({ surface, head, presented, reason, orgId, workloadId }: Failure): void {
    const { events, callerIp } = this.#options;
    if (!events.hears('authFailure')) return;
    events.emit('authFailure', {
      reason: reason ?? (presented === undefined ? 'missing_header' : 'invalid_key'),
      orgId: orgId ?? this.#options.orgId,
      surface,
      callerIp: callerIp(head),
      request: requestLine(head),
      ...(workloadId === undefined ? {} : { workloadId: shown(workloadId) }),
    });
  }
}

/** The token of `Authorization: Bearer`; undefined where there is none. */
export function bearerOf(head: ArrivalHead): string | undefined {
  return /^bearer (.*)$/i.exec(head.headers['authorization'] ?? '')?.[1]?.trim();
}
