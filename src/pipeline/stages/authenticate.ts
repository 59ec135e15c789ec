import { requestLine, shown } from '../../base/events/unrecorded.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { WORKLOAD_TOKEN_PREFIX } from '../../services/workloads.ts';
import type { Arrived, Claims } from '../parts/parts.ts';
import { deny, type Refusal } from '../parts/refusal.ts';
import type { Pipeline } from '../parts/services.ts';
import { defineStage } from '../parts/stage.ts';

const API_KEY_PREFIX = 'gwk_';
const NOBODY = { proof: { workload: undefined } };

/**
 * What the head of a structured call can tell, before a byte of its body is read: who it is for stands in there, but with `GW_PROXY_AUTH=required` some workload's token
 * must be shown, so that no body is held for a stranger.
 */
export const knock = defineStage({
  name: 'knock',
  reads: ['arrival'],
  makes: ['proof'],
  run({ arrival }, pipeline) {
    const { workloads, settings } = pipeline;
    const presented = bearer(arrival.head.headers['authorization']);
    refuseApiKey({ arrival }, pipeline, presented?.startsWith(API_KEY_PREFIX) ? presented : undefined);
    const workload = presented?.startsWith(WORKLOAD_TOKEN_PREFIX) ? workloads.holderOf(presented) : undefined;
    if (settings.proxyAuth !== 'required' || workload !== undefined) return { proof: { workload } };
    tellOfFailure({ arrival }, pipeline, presented);
    throw new GatewayError(
      'unauthorized',
      `A structured call needs a workload's token (Authorization: Bearer)${presented === undefined ? '' : '; the one that was sent is not valid'}.`,
    );
  },
});

/** A structured call for a workload that has a token must present that one (decision 4.5). */
export const authenticateEnvelope = defineStage({
  name: 'authenticate',
  reads: ['arrival', 'claims'],
  run({ arrival, claims }, pipeline) {
    const { workloadId } = claims;
    if (!pipeline.workloads.hasToken(workloadId)) return undefined;
    const presented = bearer(arrival.head.headers['authorization']);
    if (presented !== undefined && pipeline.workloads.tokenMatches(workloadId, presented)) return undefined;
    return challenge({ arrival, claims }, pipeline, presented);
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
  run({ arrival, claims }, pipeline) {
    const { workloads, settings } = pipeline;
    const { workloadId, identity } = claims;
    refuseApiKey({ arrival, claims }, pipeline, identity?.apiKey);
    const fixed = arrival.head.tunnel?.fixedWorkload;
    if (fixed !== undefined) {
      if (fixed === workloadId) return { proof: { workload: fixed } };
      return deny('workload_mismatch', `This tunnel was opened for workload ${fixed}; requests inside it cannot name another.`);
    }
    const presented = identity?.workloadToken ?? (identity?.proxyUser === workloadId ? identity.proxyPassword : undefined);
    if (workloads.hasToken(workloadId)) {
      if (presented === undefined || !workloads.tokenMatches(workloadId, presented))
        return challenge({ arrival, claims }, pipeline, presented);
      return { proof: { workload: workloadId } };
    }
    return settings.proxyAuth === 'required' ? challenge({ arrival, claims }, pipeline, presented) : NOBODY;
  },
});

interface Asked {
  readonly arrival: Arrived;
  readonly claims?: Claims;
}

/** No API key exists until they can be made; one that is presented all the same is not valid, and must not pass for no key at all. */
function refuseApiKey(asked: Asked, pipeline: Pipeline, presented: string | undefined): void {
  if (presented === undefined) return;
  tellOfFailure(asked, pipeline, presented);
  throw new GatewayError('unauthorized', 'This API key is not known.');
}

function bearer(header: string | undefined): string | undefined {
  return header !== undefined && /^bearer /i.test(header) ? header.slice(7).trim() : undefined;
}

function tellOfFailure({ arrival, claims }: Asked, { events, settings }: Pipeline, presented: string | undefined): void {
  const { line, head, callerIp } = arrival;
  if (!events.hears('authFailure')) return;
  events.emit('authFailure', {
    reason: presented === undefined ? 'missing_header' : 'invalid_key',
    orgId: claims?.orgId ?? settings.orgId ?? 'default',
    surface: line === 'direct' ? 'api' : 'proxy',
    callerIp,
    request: requestLine(head),
    // On the structured API it stands in a body that was not read for a stranger.
    ...(claims === undefined ? {} : { workloadId: shown(claims.workloadId) }),
  });
}

function challenge(asked: Required<Asked>, pipeline: Pipeline, presented: string | undefined): Refusal {
  tellOfFailure(asked, pipeline, presented);
  const { arrival, claims } = asked;
  const message = `Workload ${claims.workloadId} needs its token${presented === undefined ? '' : '; the one that was sent is not valid'}.`;
  if (arrival.line === 'tunnel' || arrival.head.door === 'absolute') throw new GatewayError('proxy_authentication_required', message);
  if (arrival.head.door === 'connect') return deny('workload_token_required', message);
  throw new GatewayError('unauthorized', message);
}
