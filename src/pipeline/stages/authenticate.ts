import { GatewayError } from '../../base/lib/gateway-error.ts';
import { bearerOf } from '../../services/authenticator.ts';
import type { Authentication } from '../parts/call-services.ts';
import type { Arrived, Claims } from '../parts/parts.ts';
import { deny, type Refusal } from '../parts/refusal.ts';
import { defineStage } from '../parts/stage.ts';

const NOBODY = { proof: { workload: undefined } };

/**
 * What the head of a structured call can tell, before a byte of its body is read: who it is for stands in there, but with `GW_PROXY_AUTH=required` some workload's token
 * must be shown, so that no body is held for a stranger.
 */
export const knock = defineStage({
  name: 'knock',
  reads: ['arrival'],
  makes: ['proof'],
  run: ({ arrival }, { authenticator }) => ({ proof: { workload: authenticator.stranger(arrival.head) } }),
});

/** A structured call for a workload that has a token must present that one (decision 4.5). */
export const authenticateEnvelope = defineStage({
  name: 'authenticate',
  reads: ['arrival', 'claims'],
  run({ arrival, claims }, { authenticator }) {
    const presented = bearerOf(arrival.head);
    const verdict = authenticator.caller(claims.workloadId, presented, false);
    return verdict === 'refused' ? challenge({ arrival, claims, presented }, authenticator) : undefined;
  },
});

/**
 * A workload that has a token must present it (decision 4.5); with `GW_PROXY_AUTH=required` every proxied caller must. How a missing token is
 * answered depends on the door: a proxy asks with 407, the gateway's own port with 401, and inside a tunnel the answer is a recorded denial.
 */
export const authenticate = defineStage({
  name: 'authenticate',
  reads: ['arrival', 'claims'],
  makes: ['proof'],
  run({ arrival, claims }, { authenticator }) {
    const { workloadId, identity, orgId } = claims;
    authenticator.refuseApiKey({ surface: 'proxy', head: arrival.head, presented: identity?.apiKey, orgId, workloadId });
    const fixed = arrival.head.tunnel?.fixedWorkload;
    if (fixed !== undefined) {
      if (fixed === workloadId) return { proof: { workload: fixed } };
      return deny('workload_mismatch', `This tunnel was opened for workload ${fixed}; requests inside it cannot name another.`);
    }
    const presented = identity?.workloadToken ?? (identity?.proxyUser === workloadId ? identity.proxyPassword : undefined);
    switch (authenticator.caller(workloadId, presented)) {
      case 'holder':
        return { proof: { workload: workloadId } };
      case 'open':
        return NOBODY;
      default:
        return challenge({ arrival, claims, presented }, authenticator);
    }
  },
});

interface Asked {
  readonly arrival: Arrived;
  readonly claims: Claims;
  readonly presented: string | undefined;
}

function challenge({ arrival, claims, presented }: Asked, authenticator: Authentication): Refusal {
  const { orgId, workloadId } = claims;
  const { line, head } = arrival;
  authenticator.failed({ surface: line === 'direct' ? 'api' : 'proxy', head, presented, orgId, workloadId });
  const message = `Workload ${workloadId} needs its token${presented === undefined ? '' : '; the one that was sent is not valid'}.`;
  if (line === 'tunnel' || head.door === 'absolute') throw new GatewayError('proxy_authentication_required', message);
  if (head.door === 'connect') return deny('workload_token_required', message);
  throw new GatewayError('unauthorized', message);
}
