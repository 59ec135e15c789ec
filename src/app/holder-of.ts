import { type Maybe, when } from '../base/lib/maybe.ts';
import type { ArrivalHead } from '../base/model/arrival.ts';
import type { Holder } from '../inbound/listener/client-shares.ts';
import { holderOfTunnel } from '../inbound/listener/open-tunnels.ts';
import { readIdentity } from '../inbound/normalise/identity.ts';
import { EXECUTE } from '../operations/served-elsewhere.ts';
import type { Authentication } from '../pipeline/parts/call-services.ts';
import type { Router } from '../surfaces/http/router.ts';

/**
 * Who has shown by a head who he is, for his share of the calls under way (decision 7.12): the API key, or the workload
 * of the token. `own`: it asks for a route of the gateway itself.
 * @throws GatewayError for headers that say nothing
 */
export function holderOf(
  head: ArrivalHead,
  router: Router,
  authenticator: Pick<Authentication, 'apiKey' | 'holderOf'>,
): Maybe<Holder | 'own' | undefined> {
  const path = head.rawTarget.split('?', 1)[0] ?? '';
  if (head.door === 'origin' && path !== EXECUTE.path && router.owns(path, head.trafficClass === 'ambient')) return 'own';
  const fixed = head.tunnel === undefined ? undefined : holderOfTunnel(head.tunnel);
  if (fixed !== undefined) return fixed;
  const { apiKey, workloadToken: token } = readIdentity(head);
  if (apiKey !== undefined) {
    return when(authenticator.apiKey(apiKey, head.remoteAddress), (verdict) =>
      verdict.result === 'valid' ? { org: `org ${verdict.key.org_id}`, caller: verdict.key.id } : undefined,
    );
  }
  const workload = token === undefined ? undefined : authenticator.holderOf(token);
  if (workload === undefined) return undefined;
  const { workload_id: fixedWorkload, org_id: workloadOrg } = workload;
  return holderOfTunnel({ fixedWorkload, ...(workloadOrg === undefined ? {} : { workloadOrg }) });
}
