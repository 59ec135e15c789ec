import { GatewayError } from '../../base/lib/gateway-error.ts';
import { when } from '../../base/lib/maybe.ts';
import { API_KEY_PREFIX, bearerOf, WORKLOAD_TOKEN_PREFIX } from '../../base/lib/own-tokens.ts';
import { ERROR_CODES } from '../../base/model/error-codes.ts';
import { shownAs, shownToRoute } from '../../inbound/normalise/shown-by.ts';
import { keyRefusal, orgOfKey } from '../../services/people/authenticator.ts';
import type { ActivePolicy } from '../../services/policy/active-policy.ts';
import { workloadKey } from '../../services/registers/org-key.ts';
import type { Authentication, Pipeline } from '../parts/call-services.ts';
import { callerOf } from '../parts/known.ts';
import type { Arrived, Claims, Parts, Proof } from '../parts/parts.ts';
import { ProxyAuthenticationRequired } from '../parts/proxy-authentication.ts';
import { deny, Refusal } from '../parts/refusal.ts';
import { defineStage } from '../parts/stage.ts';
import { suspended } from '../parts/verdict-refusal.ts';

const NOBODY: { readonly proof: Proof } = { proof: { workload: undefined, apiKey: undefined, tokenShown: false } };

/**
 * What the head of a structured call can tell, before a byte of its body is read: who it is for stands in there, but a
 * key must be one that lets somebody in, and where every caller must show something it is asked for here, so that no
 * body is held for a stranger.
 */
export const knock = defineStage({
  name: 'knock',
  reads: ['arrival'],
  makes: ['proof'],
  run: ({ arrival }, { authenticator }) => when(authenticator.stranger(arrival.head), (proof) => ({ proof })),
});

/**
 * A structured call for a workload that has a token must present that one (decision 4.5), and one with an API key be
 * for the key's org (decision 9.5).
 */
export const authenticateEnvelope = defineStage({
  name: 'authenticate',
  reads: ['arrival', 'claims', 'proof'],
  run({ arrival, claims, proof }, { authenticator }) {
    if (proof.apiKey !== undefined && proof.apiKey.org_id !== claims.orgId) return otherOrg(proof.apiKey.org_id, claims);
    const presented = shownToRoute(arrival.head).workloadToken ?? bearerOf(arrival.head);
    const verdict = authenticator.caller(claims.orgId, claims.workloadId, presented, false);
    return verdict === 'refused' ? challenge({ arrival, claims, presented }, authenticator) : undefined;
  },
});

/**
 * An API key that is shown must be valid and of the request's org, and with `GW_MANAGED_MODE` one must be shown
 * (specification, "Authentication" 2 and 3). A workload that has a token must present it (decision 4.5); with
 * `GW_PROXY_AUTH=required` every proxied caller must show the one or the other. How something missing is answered
 * depends on the door: a proxy asks with 407, the gateway's own port with 401, and inside a tunnel the answer to a
 * missing token is a recorded denial.
 */
export const authenticate = defineStage({
  name: 'authenticate',
  reads: ['arrival', 'claims'],
  makes: ['proof'],
  run({ arrival, claims }, { authenticator, workloads }) {
    const { orgId, workloadId, apiKey: verdict } = claims;
    const refusal = judgeKey(arrival, claims, authenticator);
    if (refusal) return refusal;
    const apiKey = verdict?.result === 'valid' ? verdict.key : undefined;
    const fixed = arrival.head.tunnel?.fixedWorkload;
    if (fixed !== undefined && fixed !== workloadId) {
      return deny('workload_mismatch', `This tunnel was opened for workload ${fixed}; requests inside it cannot name another.`);
    }
    const presented = tokenOf(claims, fixed !== undefined);
    switch (authenticator.caller(orgId, workloadId, presented, apiKey === undefined ? undefined : false)) {
      case 'holder':
        return {
          proof: { workload: workloadKey(workloads.get(orgId, workloadId) ?? { workload_id: workloadId }), apiKey, tokenShown: true },
        };
      case 'open': {
        const tokenShown = presented?.startsWith(WORKLOAD_TOKEN_PREFIX) === true;
        return apiKey === undefined && !tokenShown ? NOBODY : { proof: { workload: undefined, apiKey, tokenShown } };
      }
      default:
        return challenge({ arrival, claims, presented }, authenticator);
    }
  },
});

/**
 * The token that is shown for the workload. That of a tunnel is asked for again with each request inside, so that one
 * which is replaced or removed counts at once.
 */
function tokenOf({ workloadId, identity }: Claims, isFixed: boolean): string | undefined {
  const proxy = { user: identity?.proxyUser, password: identity?.proxyPassword };
  if (isFixed) return shownAs(WORKLOAD_TOKEN_PREFIX, proxy);
  return identity?.workloadToken ?? (proxy.user === workloadId ? proxy.password : undefined);
}

/** @throws GatewayError for a key that lets nobody in, and for one that is missing */
function judgeKey(arrival: Arrived, claims: Claims, authenticator: Authentication): Refusal | undefined {
  const { orgId, apiKey: verdict } = claims;
  const { fixedOrg } = arrival.head.tunnel ?? {};
  if (verdict?.result === 'valid') {
    if (verdict.key.org_id !== orgId) return otherOrg(verdict.key.org_id, claims);
  } else if (verdict !== undefined || authenticator.needsApiKey) {
    throw notLetIn(arrival, claims, authenticator);
  }
  // Of the key that was shown to open the tunnel.
  return fixedOrg === undefined || fixedOrg === orgId ? undefined : otherOrg(fixedOrg, claims);
}

function notLetIn(
  { line, head }: Arrived,
  { requestId, orgId, workloadId, apiKey: verdict, identity }: Claims,
  authenticator: Authentication,
): GatewayError {
  const reason = verdict === undefined || verdict.result === 'valid' ? 'missing_header' : verdict.result;
  const keyOrg = verdict && orgOfKey(verdict);
  authenticator.failed({ surface: 'proxy', head, presented: undefined, reason, orgId: keyOrg ?? orgId, workloadId, requestId });
  const beside = identity?.workloadToken === undefined ? '' : '; the workload token that was sent is taken beside it';
  const message = verdict === undefined ? `This gateway needs an API key (X-GW-API-Key, gwk_…)${beside}.` : keyRefusal(verdict);
  const isProxy = line === 'tunnel' || head.door === 'absolute';
  return isProxy
    ? new ProxyAuthenticationRequired(message, 'the password is an API key, gwk_...')
    : new GatewayError('unauthorized', message);
}

function otherOrg(keyOrg: string, { orgId }: Claims): Refusal {
  return deny('org_mismatch', `The API key is of org ${keyOrg}, and the request is for ${orgId}.`);
}

interface Asked {
  readonly arrival: Arrived;
  readonly claims: Claims;
  readonly presented: string | undefined;
}

function challenge({ arrival, claims, presented }: Asked, authenticator: Authentication): Refusal {
  const { requestId, orgId, workloadId } = claims;
  const { line, head } = arrival;
  authenticator.failed({ surface: line === 'direct' ? 'api' : 'proxy', head, presented, orgId, workloadId, requestId });
  const wrong = presented?.startsWith(API_KEY_PREFIX) === true ? 'an API key is not enough' : 'the one that was sent is not valid';
  const place = 'gwt_…: Authorization: Bearer, X-GW-Workload-Token, or the password of the proxy';
  const message = `Workload ${workloadId} needs its token (${place})${presented === undefined ? '' : `; ${wrong}`}.`;
  if (line === 'tunnel' || head.door === 'absolute') throw ProxyAuthenticationRequired.forWorkload(message, workloadId);
  if (head.door === 'connect') return deny('workload_token_required', message);
  throw new GatewayError('unauthorized', message);
}

/**
 * The org must be served here (decision 4.1), active (decision 4.6), and in touch with its control plane where it is
 * strict (decision 13.8); the workload must be registered for it, and allowed to come this way (specification,
 * "Workload").
 */
export const caller = defineStage({
  name: 'caller',
  reads: ['arrival', 'claims'],
  makes: ['caller'],
  run({ arrival, claims }, pipeline) {
    const { workloads } = pipeline;
    const { orgId, workloadId } = claims;
    const refusal = orgRefusal(arrival, claims, pipeline);
    if (refusal) return refusal;
    const found = workloads.get(orgId, workloadId);
    if (!found) return deny('workload_not_registered', `Workload ${workloadId} is not registered for org ${orgId}.`);
    const allowed = found.allowed_connection_types;
    if (allowed && !allowed.includes(arrival.connectionType)) {
      return deny('connection_type_not_allowed', `Workload ${workloadId} may not use ${arrival.connectionType}.`);
    }
    return { caller: { workload: found, orgAttribution: workloads.defaultAttribution(orgId) } };
  },
});

function orgRefusal({ line, head }: Arrived, { orgId, workloadId }: Claims, pipeline: Pipeline): Refusal | undefined {
  const { settings, orgs, authenticator, controlPlane } = pipeline;
  if (settings.orgId !== undefined && settings.orgId !== orgId) {
    return deny('org_mismatch', `This gateway does not serve org ${orgId}.`);
  }
  controlPlane?.awaken();
  if (!orgs.isActive(orgId)) {
    controlPlane?.checkInSoon();
    return suspended({ surface: line === 'direct' ? 'api' : 'proxy', head, orgId, workloadId }, authenticator);
  }
  return controlPlane?.barsAll === true ? unreachable() : undefined;
}

/** Past the grace period of an org that is strict (decision 13.8). */
function unreachable(): Refusal {
  const { status } = ERROR_CODES.control_plane_unreachable;
  return new Refusal({
    decision: 'error',
    status,
    reason: 'The control plane has not been reached for longer than the grace period of this org.',
    reasonCodes: ['control_plane_unreachable'],
    errorCode: 'control_plane_unreachable',
  });
}

/**
 * A caller in quarantine is refused as it was the first time, without asking policy, until a person releases it
 * (specification, "Quarantine entry"; decision 9.2). Every other request takes the policy that it is asked of: what is
 * put in force from here on counts for later ones.
 */
export const quarantine = defineStage({
  name: 'quarantine',
  reads: ['arrival', 'claims'],
  makes: ['snapshot'],
  run({ arrival, claims }, { quarantines, policies }) {
    const held = quarantines.active === 0 ? undefined : quarantines.holding(callerOf(arrival, claims));
    if (held) return new Refusal({ decision: 'quarantine', status: 403, reason: held.reason, reasonCodes: held.reason_codes });
    const active = policies.ready(claims.orgId);
    return active instanceof Promise ? active.then(snapshotOf) : snapshotOf(active);
  },
});

function snapshotOf(active: ActivePolicy): Pick<Parts, 'snapshot'> {
  return { snapshot: { active } };
}
