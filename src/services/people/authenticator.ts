import type { Events } from '../../base/events/bus.ts';
import type { AuthFailureEvent } from '../../base/events/events.ts';
import { requestLine, shown } from '../../base/events/unrecorded.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { requestIdOf } from '../../base/lib/ids.ts';
import { type Maybe, when } from '../../base/lib/maybe.ts';
import {
  bearerOf,
  holdsOwnToken,
  MANAGEMENT_KEY_PREFIX,
  MCP_KEY_PREFIX,
  placeOfToken,
  WORKLOAD_TOKEN_PREFIX,
} from '../../base/lib/own-tokens.ts';
import type { ArrivalHead } from '../../base/model/arrival.ts';
import type { ApiKey } from '../../base/model/keys.ts';
import { type ManagementKeyKind, scopeLacked } from '../../base/model/keys.ts';
import { ADMIN_PROGRAM_HEADER, ADMIN_USER_HEADER, type Principal, type Scope } from '../../base/model/principal.ts';
import type { Workload } from '../../base/model/workload.ts';
import { shownToRoute } from '../../inbound/normalise/shown-by.ts';
import { ANYONE, type CallerProof, metricsProof, Proofs, type SignedIn, secretProof, sessionProof } from '../../surfaces/http/proofs.ts';
import { workloadKey } from '../registers/org-key.ts';
import type { ApiKeyService, ApiKeyVerdict } from './api-keys.ts';
import { type ManagementKeyService, type ManagementKeyVerdict, principalOfKey } from './management-keys.ts';
import type { WorkloadService } from './workloads.ts';
import type { WrongKeys } from './wrong-keys.ts';

export interface AuthenticatorOptions {
  readonly adminToken: string;
  readonly metricsToken: string | undefined;
  readonly apiKeys: Pick<ApiKeyService, 'judge'>;
  readonly managementKeys: Pick<ManagementKeyService, 'judge'>;
  readonly wrongKeys: Pick<WrongKeys, 'answerable'>;
  /** Where people sign in; absent: nobody can, and no cookie lets anybody in. */
  readonly signedIn?: SignedIn;
  readonly workloads: Pick<WorkloadService, 'hasToken' | 'tokenMatches' | 'holderOf'>;
  /** `GW_PROXY_AUTH=required`: every caller must show the token of a workload, or an API key. */
  readonly required: boolean;
  /** `GW_MANAGED_MODE`: every caller must show an API key. */
  readonly managed: boolean;
  /** Of the gateway, where nobody has named another. */
  readonly orgId: string;
  readonly events: Events;
  /** Address of the caller, without port. */
  callerIp(head: ArrivalHead): string;
}

/**
 * What a caller of AI has shown for the workload that it names: its token, nothing where nothing is needed, or not what
 * is needed.
 */
export type CallerVerdict = 'holder' | 'open' | 'refused';

/** What the head of a structured call has shown. */
export interface Stranger {
  /** Key of the workload whose token it was. */
  readonly workload: string | undefined;
  readonly apiKey: ApiKey | undefined;
  /** Whether a token of a workload was shown, nobody's included. */
  readonly tokenShown: boolean;
}

/** Someone was not let in. */
export interface Failure {
  readonly surface: AuthFailureEvent['surface'];
  readonly head: ArrivalHead;
  readonly presented: string | undefined;
  /** Default: that nothing was shown, or that it is not valid. */
  readonly reason?: AuthFailureEvent['reason'];
  readonly orgId?: string | undefined;
  readonly workloadId?: string | undefined;
  /** Default: that of a request of which nothing is known. */
  readonly requestId?: string | undefined;
}

/**
 * The one place where it is judged what somebody shows to be let in: callers of AI on every door (decision 4.5), and
 * whoever asks the gateway's own routes (specification, "Authentication"). Each failure is told and counted here.
 */
export class Authenticator {
  readonly #options: AuthenticatorOptions;
  readonly #proofs: Proofs;

  constructor(options: AuthenticatorOptions) {
    this.#options = options;
    const { adminToken, metricsToken, signedIn } = options;
    const refuse = (shownToken: string, scope: Scope, head: ArrivalHead): never => this.#refuseToken(scope, head, shownToken);
    const admin = secretProof({
      opens: ['admin', 'org', 'sign_in'],
      principal: { kind: 'admin', id: 'admin', scopes: ['none', 'caller', 'admin', 'org'] },
      secret: adminToken,
      shown: (head) => head.headers['gw-admin-token'] ?? bearerOf(head),
      refuse,
    });
    const proofs: CallerProof[] = [
      { opens: ['org', 'caller'], shown: (head) => shownToRoute(head).apiKey, judge: (key, _scope, head) => this.#byApiKey(key, head) },
      { opens: ['sign_in'], shown: managementKeyIn, judge: (key, scope, head) => this.#byManagementKey('management', key, scope, head) },
      { ...admin, judge: (token, scope, head) => when(admin.judge(token, scope, head), (principal) => withSession(principal, head)) },
      // A caller's own bearer may be a key of its provider: the admin token is looked for in its own header alone.
      { opens: ['caller'], shown: ({ headers }) => headers['gw-admin-token'], judge: admin.judge },
      {
        opens: ['caller'],
        shown: (head) => shownToRoute(head).workloadToken,
        judge: (token, scope, head) => this.#byWorkloadToken(token, scope, head),
      },
      { opens: ['caller'], shown: () => (options.required || options.managed ? undefined : ''), judge: () => ANYONE },
      metricsProof(metricsToken, refuse),
      { opens: ['mcp'], shown: bearerOf, judge: (key, scope, head) => this.#byManagementKey('mcp', key, scope, head) },
      { opens: BY_KEY, shown: bearerOf, judge: (key, scope, head) => this.#byManagementKey('management', key, scope, head) },
    ];
    if (signedIn) proofs.push(sessionProof(signedIn, (scope, head) => this.#sessionEnded(scope, head)));
    // A browser that opens the console asks whether somebody has signed in: that nobody has is no failure.
    proofs.push({ opens: ['session'], shown: () => '', judge: () => ANYONE });
    this.#proofs = new Proofs(proofs, (scope, head) => this.#nothingShown(scope, head));
  }

  /**
   * Who asks for something of this scope.
   * @throws GatewayError `unauthorized`, `insufficient_scope`, `too_many_attempts`, `key_lookup_failed`
   */
  principal(scope: Scope, head: ArrivalHead): Maybe<Principal> {
    return this.#proofs.principal(scope, head);
  }

  /** Whether a request shows a session of a browser, good or not. */
  showsSession(head: ArrivalHead): boolean {
    return this.#options.signedIn?.shown(head) !== undefined;
  }

  #nothingShown(scope: Scope, head: ArrivalHead): Maybe<never> {
    if (OF_TOKENS.includes(scope)) return this.#refuseToken(scope, head, undefined);
    return this.#refuseKey(scope === 'mcp' ? 'mcp' : 'management', { head, presented: undefined, verdict: { result: 'invalid_key' } });
  }

  #refuseToken(scope: Scope, head: ArrivalHead, presented: string | undefined): never {
    this.failed({ surface: scope === 'metrics' ? 'metrics' : 'admin', head, presented });
    throw new GatewayError('unauthorized', `This needs the ${NEEDED[scope] ?? `${scope} token`}${sentInstead(presented)}.`);
  }

  #sessionEnded(scope: Scope, head: ArrivalHead): never {
    const surface = scope === 'admin' || scope === 'org' ? 'admin' : scope === 'session' ? 'console' : 'management';
    this.failed({ surface, head, presented: undefined, reason: 'expired' });
    throw new GatewayError('unauthorized', 'This session is over: sign in again.');
  }

  async #byApiKey(presented: string, head: ArrivalHead): Promise<Principal> {
    const verdict = await this.apiKey(presented, this.#options.callerIp(head));
    if (verdict.result === 'valid')
      return { kind: 'api_key', id: verdict.key.id, orgId: verdict.key.org_id, scopes: ['none', 'caller', 'org'] };
    this.failed({ surface: 'api', head, presented, reason: verdict.result, orgId: orgOfKey(verdict) });
    throw new GatewayError('unauthorized', keyRefusal(verdict));
  }

  #byWorkloadToken(presented: string, scope: Scope, head: ArrivalHead): Principal {
    const holder = this.holderOf(presented);
    if (holder === undefined) return this.#refuseToken(scope, head, presented);
    const { workload_id: id, org_id: orgId = this.#options.orgId } = holder;
    return { kind: 'workload', id, orgId, scopes: ['none', 'caller'] };
  }

  #byManagementKey(kind: ManagementKeyKind, presented: string, scope: Scope, head: ArrivalHead): Maybe<Principal> {
    const judged: Maybe<ManagementKeyVerdict> = this.#options.managementKeys.judge(kind, presented);
    return when(judged, (verdict) => {
      if (verdict.result !== 'valid') return this.#refuseKey(kind, { head, presented, verdict });
      const principal = principalOfKey(verdict.key);
      const { scopes } = principal;
      // Whatever it opens, it opens in a browser, too.
      if (scope !== 'sign_in' && !scopes.includes(scope)) throw new GatewayError('insufficient_scope', scopeLacked(scopes, scope, 'this'));
      return principal;
    });
  }

  async #refuseKey(
    kind: ManagementKeyKind,
    {
      head,
      presented,
      verdict,
    }: { head: ArrivalHead; presented: string | undefined; verdict: Exclude<ManagementKeyVerdict, { result: 'valid' }> },
  ): Promise<never> {
    const reason = presented === undefined ? 'missing_header' : verdict.result;
    this.failed({ surface: kind, head, presented, reason, orgId: verdict.result === 'invalid_key' ? undefined : verdict.key.org_id });
    if (presented !== undefined) await this.#options.wrongKeys.answerable(this.#options.callerIp(head));
    throw new GatewayError('unauthorized', managementRefusal(kind, presented, verdict));
  }

  /**
   * A workload that has a token must show it; with `GW_PROXY_AUTH=required` every caller must show one.
   * @param workloadId that the caller names, undefined when it names none
   * @param required false: another one was shown before
   */
  caller(orgId: string, workloadId: string | undefined, presented: string | undefined, required = this.#options.required): CallerVerdict {
    const { workloads } = this.#options;
    if (workloadId === undefined || !workloads.hasToken(orgId, workloadId)) return required ? 'refused' : 'open';
    return presented !== undefined && workloads.tokenMatches(orgId, workloadId, presented) ? 'holder' : 'refused';
  }

  /**
   * Judges an API key that a caller has shown; at once when it is one in use.
   * @param from his address
   * @throws GatewayError `key_lookup_failed`
   */
  apiKey(presented: string, from: string): ApiKeyVerdict | Promise<ApiKeyVerdict> {
    return this.#options.apiKeys.judge(presented, from);
  }

  /** Whether an API key is to be shown on every door (`GW_MANAGED_MODE`). */
  get needsApiKey(): boolean {
    return this.#options.managed;
  }

  /** The workload whose token this is. */
  holderOf(token: string): Workload | undefined {
    return this.#options.workloads.holderOf(token);
  }

  /**
   * Who calls the structured API, as far as the head tells: the workload that he calls for stands in a body that nobody
   * has read yet.
   * @returns whose token and which key was shown; neither where nothing is needed
   * @throws GatewayError `unauthorized`, `key_lookup_failed`
   */
  stranger(head: ArrivalHead): Stranger | Promise<Stranger> {
    const { apiKey: key, workloadToken: token } = shownToRoute(head);
    const holder = token === undefined ? undefined : this.holderOf(token);
    const shown = { workload: holder && workloadKey(holder), tokenShown: token !== undefined };
    if (key === undefined) {
      if (!this.needsApiKey && (holder !== undefined || !this.#options.required)) return { ...shown, apiKey: undefined };
      throw this.#notLetIn({ surface: 'api', head, presented: bearerOf(head) ?? token });
    }
    return when(this.apiKey(key, this.#options.callerIp(head)), (verdict) => this.#known(verdict, shown, head));
  }

  #known(verdict: ApiKeyVerdict, shown: Omit<Stranger, 'apiKey'>, head: ArrivalHead): Stranger {
    if (verdict.result === 'valid') return { ...shown, apiKey: verdict.key };
    throw this.#notLetIn({ surface: 'api', head, presented: undefined, reason: verdict.result, orgId: orgOfKey(verdict) }, verdict);
  }

  #notLetIn(failure: Failure, verdict?: ApiKeyVerdict): GatewayError {
    this.failed(failure);
    if (verdict) return new GatewayError('unauthorized', keyRefusal(verdict));
    const needed = this.needsApiKey ? 'an API key' : "a workload's token or an API key";
    const place = placeOfToken(failure.presented);
    const isToken = failure.presented?.startsWith(WORKLOAD_TOKEN_PREFIX) === true;
    const wrong = place === undefined || isToken ? 'not valid' : place;
    const sent =
      failure.presented === undefined
        ? ''
        : `; what was sent is ${isToken && this.needsApiKey ? 'a workload token, which is taken beside it' : wrong}`;
    return new GatewayError('unauthorized', `A structured call needs ${needed} (Authorization: Bearer)${sent}.`);
  }

  /** Tells of somebody who was not let in, and counts him. */
  failed({ surface, head, presented, reason, orgId, workloadId, requestId = requestIdOf(head.rawHeaders) }: Failure): void {
    const { events, callerIp } = this.#options;
    if (!events.hears('authFailure')) return;
    events.emit('authFailure', {
      requestId,
      reason: reason ?? (presented === undefined ? 'missing_header' : 'invalid_key'),
      orgId: orgId ?? this.#options.orgId,
      surface,
      callerIp: callerIp(head),
      request: requestLine(head),
      ...(workloadId === undefined ? {} : { workloadId: shown(workloadId) }),
    });
  }
}

/** What a scope needs that has no token of its own. */
const NEEDED: Readonly<Partial<Record<Scope, string>>> = {
  org: 'admin token or an API key of the org',
  caller: "call's own API key or workload token",
  sign_in: 'admin token or a management key',
};

/** What is refused in the words of a token that was not shown. */
const OF_TOKENS: readonly Scope[] = ['admin', 'org', 'caller', 'metrics', 'sign_in'];

/** A management key, where the admin token may stand as well. */
function managementKeyIn(head: ArrivalHead): string | undefined {
  const shownKey = bearerOf(head);
  return shownKey?.startsWith(MANAGEMENT_KEY_PREFIX) === true ? shownKey : undefined;
}

/** What a management key can open. */
const BY_KEY: readonly Scope[] = ['read', 'write', 'review', 'decide'];

const PROGRAM = /^[\x21-\x7e]{1,128}$/;
const USER = /^[\x20-\x7e]{1,256}$/;

/**
 * The admin token, with the program that works with it and whom that says to work for, where it says so (decision 9.6):
 * a hint, which nobody has proven. What is none is passed over.
 */
function withSession(principal: Principal, { headers }: ArrivalHead): Principal {
  const { [ADMIN_PROGRAM_HEADER]: program, [ADMIN_USER_HEADER]: user } = headers;
  if (program === undefined || !PROGRAM.test(program) || holdsOwnToken(program)) return principal;
  const isUser = user !== undefined && USER.test(user) && !holdsOwnToken(user);
  return { ...principal, session: { program, ...(isUser ? { user } : {}) } };
}

/** Somebody who shows one of our keys or tokens in the wrong place is told where it belongs. */
function sentInstead(presented: string | undefined): string {
  const place = placeOfToken(presented);
  return place === undefined ? '' : `; what was sent is ${place}`;
}

/** Why a key lets nobody in, in words for the person who has it. */
export function keyRefusal({ result }: ApiKeyVerdict): string {
  switch (result) {
    case 'revoked':
      return 'This API key was revoked.';
    case 'expired':
      return 'This API key has expired.';
    default:
      return 'This API key is not known.';
  }
}

/** Names the key that this surface takes, since there are several kinds. */
function managementRefusal(kind: ManagementKeyKind, presented: string | undefined, { result }: ManagementKeyVerdict): string {
  const needed = kind === 'mcp' ? 'an MCP key (Authorization: Bearer mcpk_…)' : 'a management key (Authorization: Bearer mgk_…)';
  if (presented === undefined) return `This needs ${needed}.`;
  const isOfKind = presented.startsWith(kind === 'mcp' ? MCP_KEY_PREFIX : MANAGEMENT_KEY_PREFIX);
  if (result === 'invalid_key')
    return `This needs ${needed}${(isOfKind ? '' : sentInstead(presented)) || '; what was sent is none that is known here'}.`;
  return result === 'revoked' ? 'This key was revoked.' : 'This key has expired.';
}

/** Whose key it is or was; undefined for one that nobody knows. */
export function orgOfKey(verdict: ApiKeyVerdict): string | undefined {
  return verdict.result === 'invalid_key' ? undefined : verdict.key.org_id;
}
