import type { Operation, Provider } from '../../base/catalogue/types.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { when } from '../../base/lib/maybe.ts';
import { shorten } from '../../base/lib/text.ts';
import { actionMethod } from '../../inbound/normalise/envelope-rules.ts';
import { type ProxiedIdentity, readIdentity, refuseTokenInAddress } from '../../inbound/normalise/identity.ts';
import { pathOnly } from '../../inbound/normalise/path.ts';
import { resolveTarget } from '../../inbound/normalise/target.ts';
import type { ApiKeyVerdict } from '../../services/people/api-keys.ts';
import type { Pipeline } from '../parts/call-services.ts';
import { nowhere } from '../parts/known.ts';
import type { Arrived, Claims, OpenedSocket, SocketCall, Target } from '../parts/parts.ts';
import { refuseLoop, webSocketRefusal } from '../parts/refusal.ts';
import { defineStage, EndedWith } from '../parts/stage.ts';

/** Refuses what cannot be recorded (decision 7.10) and what went through this gateway before (decision 3.13). */
export const admit = defineStage({
  name: 'admit',
  reads: ['arrival'],
  run({ arrival }, { settings, store }) {
    if (!store.writable) {
      throw new GatewayError('record_store_unavailable', 'Records cannot be written at the moment, so nothing is forwarded.');
    }
    refuseLoop(arrival.head.rawHeaders, settings.nodeId);
    return undefined;
  },
});

/**
 * Who calls, as the head of a proxied request says it (specification, "Transparent proxy mode"). On the structured API
 * that stands in the body. An API key says for which org, so it is looked up here; whether it lets anybody in is judged
 * behind.
 */
export const identify = defineStage({
  name: 'identify',
  reads: ['arrival'],
  makes: ['claims'],
  run({ arrival }, pipeline) {
    refuseTokenInAddress(arrival.head, pipeline.settings.adminToken);
    const identity = readIdentity(arrival.head);
    if (identity.apiKey === undefined) return { claims: claimsOf(arrival, identity, undefined, pipeline) };
    return when(pipeline.authenticator.apiKey(identity.apiKey, arrival.callerIp), (verdict) => ({
      claims: claimsOf(arrival, identity, verdict, pipeline),
    }));
  },
});

function claimsOf(
  { head, recordId, catalogue }: Arrived,
  identity: ProxiedIdentity,
  apiKey: ApiKeyVerdict | undefined,
  { settings, workloads, authenticator }: Pipeline,
): Claims {
  const keyOrg = apiKey?.result === 'valid' ? apiKey.key.org_id : head.tunnel?.fixedOrg;
  const { workloadToken, workloadId } = identity;
  const holder = workloadToken === undefined ? undefined : authenticator.holderOf(workloadToken);
  const holderOrg = workloadId === undefined || workloadId === holder?.workload_id ? holder?.org_id : undefined;
  const orgId = identity.orgId ?? keyOrg ?? head.org ?? head.tunnel?.org ?? holderOrg ?? settings.orgId ?? 'default';
  return {
    requestId: recordId,
    orgId,
    catalogue: catalogue.forOrg(orgId),
    workloadId: workloadId ?? holder?.workload_id ?? workloads.defaultWorkloadId(orgId),
    callerId: identity.callerId,
    attribution: identity.attribution,
    delegationId: identity.delegationId,
    idempotencyKey: undefined,
    identity,
    apiKey,
  };
}

/**
 * Where a proxied request goes, as its head says it. A refusal that was settled before the line began ends it here: all
 * that is left to do is to record it.
 */
export const aim = defineStage({
  name: 'aim',
  reads: ['arrival', 'claims'],
  makes: ['target'],
  run({ arrival, claims }) {
    const begun = throughTunnel(arrival);
    try {
      const target = targetOf(begun, arrival, claims);
      return arrival.imposed ? new EndedWith(arrival.imposed, { target }) : { target };
    } catch (error) {
      // The CONNECT's authority is known even when what came through it turns out to be misdirected.
      if (error instanceof GatewayError) return new EndedWith(error, { target: begun });
      throw error;
    }
  },
});

function targetOf(begun: Target, arrival: Arrived, claims: Claims): Target {
  if (arrival.line === 'tunnel') return { ...begun, isCall: false };
  return arrival.socketCall ? onSocket(begun, arrival.socketCall) : named(begun, arrival, claims);
}

function throughTunnel({ head }: Arrived): Target {
  const { tunnel, secure, method } = head;
  const { host = '', port = 443 } = tunnel?.authority ?? {};
  return { ...nowhere(method), host, port, tls: tunnel === undefined || secure || port !== 80 };
}

function named(begun: Target, { head, reply }: Arrived, { catalogue }: Claims): Target {
  // Upper case on every door, so that no rule about a method is passed by another spelling: h2 takes any.
  const method = actionMethod(head.method);
  if (method === undefined) throw new GatewayError('invalid_request', `${shorten(head.method)} is not a method that is forwarded.`);
  const { host, port, tls, path, provider } = resolveTarget(head, catalogue);
  if (provider === undefined) return { ...begun, method, host, port, tls, path };
  const upgrade = reply?.switchProtocols !== undefined;
  const operation = catalogue.operation(provider, method, pathOnly(path), upgrade);
  const opensSocket = upgrade && isMetered(operation);
  // To an AI host only where its calls can be metered; elsewhere it is a call as any other, and relayed (decision
  // 3.12).
  if (!opensSocket && /\bwebsocket\b/i.test(head.headers['upgrade'] ?? '')) throw webSocketRefusal();
  return { method, host, port, tls, path, provider, operation, actionType: operation.actionType, opensSocket, isCall: !opensSocket };
}

function isMetered({ websocket, dialect }: Operation): boolean {
  return websocket && dialect?.socket !== undefined;
}

/** The calls of a socket go where its handshake went. */
function onSocket(begun: Target, { opened, operation, settingsOnly }: SocketCall): Target {
  const { host, port, tls, path, provider } = placeOf(opened);
  const method = actionMethod(begun.method) ?? begun.method;
  return { ...begun, method, host, port, tls, path, provider, operation, actionType: operation.actionType, isCall: !settingsOnly };
}

function placeOf({ route }: OpenedSocket): Pick<Target, 'host' | 'port' | 'tls' | 'path'> & { readonly provider: Provider | undefined } {
  return route;
}
