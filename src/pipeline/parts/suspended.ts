import type { ArrivalHead } from '../../base/model/arrival.ts';
import type { Authentication } from './call-services.ts';
import { deny, type Refusal } from './refusal.ts';

/**
 * What a suspended org is told on every door, whatever its clients expect of an error (specification, "Org status";
 * decision 8.1).
 */
const SUSPENDED_BODY = { error: 'org_suspended' };

/** Who is turned away because his org is not active. */
export interface SuspendedCaller {
  readonly surface: 'api' | 'proxy';
  readonly head: ArrivalHead;
  readonly orgId: string;
  readonly workloadId?: string | undefined;
}

/** The refusal of somebody whose org is not active; he is counted as not let in (specification, "Authentication" 3). */
export function suspended(caller: SuspendedCaller, authenticator: Pick<Authentication, 'failed'>): Refusal {
  authenticator.failed({ ...caller, presented: undefined, reason: 'suspended' });
  return deny('org_suspended', `The org ${caller.orgId} is suspended.`, { body: SUSPENDED_BODY });
}
