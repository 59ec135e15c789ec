import type { ArrivalHead } from '../../base/model/arrival.ts';
import type { Pipeline } from '../parts/call-services.ts';
import { orgOfWorkload, saidBy } from './caller-org.ts';

/** What is asked for who passes undecided. */
type Registers = Pick<Pipeline, 'orgs' | 'workloads' | 'settings' | 'authenticator'>;

/**
 * The org for which nobody is let pass, of something that policy is not asked about (decision 4.6): that of the
 * gateway, and those that its head names by header, API key or workload. Undefined: all of them are served.
 * @param shownOrg the org of the API key, or of the token of a workload, that was shown
 */
export function barredOrg(head: ArrivalHead, registers: Registers, shownOrg = shownFor(head)): string | undefined {
  const { orgs, workloads, settings } = registers;
  const said = saidBy(head);
  const { orgId: named = shownOrg } = said;
  const workloadId = head.tunnel?.fixedWorkload ?? said.workloadId;
  const orgIn = (org: string): string | undefined => (workloadId === undefined ? undefined : workloads.get(org, workloadId)?.org_id);
  const ofWorkload = named === undefined ? orgOfWorkload(head, said, registers) : orgIn(named);
  // Whoever names another org passes through the gateway of this one all the same.
  const own = settings.orgId ?? (named === undefined && ofWorkload === undefined ? 'default' : undefined);
  const isBarred = (org: string | undefined): org is string => org !== undefined && !orgs.isActive(org);
  return [own, named, shownOrg, ofWorkload].find(isBarred);
}

/** What the tunnel was opened with. */
function shownFor({ tunnel }: ArrivalHead): string | undefined {
  return tunnel?.fixedOrg ?? tunnel?.workloadOrg;
}
