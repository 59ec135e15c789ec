import type { ArrivalHead } from '../../base/model/arrival.ts';
import type { LineGround } from '../parts/call-services.ts';
import { callerOrg, saidBy } from './caller-org.ts';

/** Whose traffic something counts as of which nobody is asked who sends it. */
export interface Sender {
  readonly orgId: string;
  readonly workloadId: string;
}

/**
 * As it would be of a call (decisions 4.1, 4.4), but with the names of registered workloads alone: what names another,
 * or none, is of the workload of the org defaults.
 * @param shownOrg of what was shown to the proxy
 */
export function senderOf(
  head: ArrivalHead,
  pipeline: Pick<LineGround, 'workloads' | 'settings' | 'authenticator'>,
  shownOrg?: string,
): Sender {
  const { workloads, authenticator } = pipeline;
  const orgId = shownOrg ?? callerOrg(head, pipeline);
  const { workloadId: said, workloadToken: token } = saidBy(head);
  const named = head.tunnel?.fixedWorkload ?? said ?? (token === undefined ? undefined : authenticator.holderOf(token)?.workload_id);
  const isKnown = named !== undefined && workloads.get(orgId, named) !== undefined;
  return { orgId, workloadId: isKnown ? named : workloads.defaultWorkloadId(orgId) };
}
