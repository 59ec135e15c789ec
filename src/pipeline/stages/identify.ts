import { when } from '../../base/lib/maybe.ts';
import { type ProxiedIdentity, readIdentity, refuseTokenInAddress } from '../../inbound/normalise/identity.ts';
import type { ApiKeyVerdict } from '../../services/people/api-keys.ts';
import type { Pipeline } from '../parts/call-services.ts';
import type { Arrived, Claims } from '../parts/parts.ts';
import { defineStage } from '../parts/stage.ts';

/**
 * Who calls, as the head of a proxied request says it (specification, "Transparent proxy mode"). On the structured API that stands in the body. An API key says for which
 * org, so it is looked up here; whether it lets anybody in is judged behind.
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
