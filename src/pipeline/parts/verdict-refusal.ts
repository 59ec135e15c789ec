import { type Maybe, when } from '../../base/lib/maybe.ts';
import type { ArrivalHead } from '../../base/model/arrival.ts';
import { permits } from '../../base/model/reason-codes.ts';
import type { Verdict } from '../../decide/policy/verdict.ts';
import type { RefusalDetail } from '../../inbound/reply/envelope.ts';
import type { Allowance, Peeked } from '../../services/money/allowance.ts';
import type { Authentication, Pipeline } from './call-services.ts';
import { callerOf } from './known.ts';
import type { LineName } from './line-name.ts';
import type { Arrived, Claims } from './parts.ts';
import { deny, Refusal, statusOf } from './refusal.ts';
import type { Control } from './stage.ts';

/** What the caller is told of a verdict that does not permit his call. */
export function refusalFrom(verdict: Verdict, line: LineName, { orgId, workloadId }: Claims, allowance: Allowance): Maybe<Refusal> {
  const decision = permits(verdict.decision) ? 'deny' : verdict.decision;
  const rate = { rules: verdict.effects.rate_limits, alone: true as const };
  const wait = decision === 'rate_limit' ? allowance.peek({ orgId, workloadId, rate }) : undefined;
  return when(
    wait,
    (peeked: Peeked | undefined) =>
      new Refusal({
        decision,
        status: statusOf(decision, line),
        reason: verdict.reason ?? defaultReason(verdict),
        reasonCodes: verdict.reason_codes,
        retryAfterSeconds: peeked?.refused?.kind === 'rate' ? peeked.refused.retryAfterSeconds : undefined,
        detail: verdict.model === undefined ? undefined : aboutModel(verdict.model),
      }),
  );
}

/** Of a call that names several, so that its caller sees which of them it was. */
function aboutModel(model: string): RefusalDetail {
  return { path: 'action.models', message: `Policy was asked about the model "${model}", which this call also names.` };
}

function defaultReason(verdict: Verdict): string {
  if (verdict.decision === 'require_attribution') {
    const missing = verdict.reason_codes.filter((code) => code.startsWith('missing:')).map((code) => code.slice('missing:'.length));
    return `require_attribution: ${missing.join(', ')} required`;
  }
  return verdict.reason_codes[0] ?? verdict.decision;
}

/**
 * Where policy puts the caller aside he is held from now on, and the entry is stored with the record (decision 9.2).
 */
export function holdCaller(
  { reason, reasonCodes, decision }: Refusal,
  { arrival, claims }: { readonly arrival: Arrived; readonly claims: Claims },
  { quarantines }: Pick<Pipeline, 'quarantines'>,
  control: Control,
): void {
  if (decision !== 'quarantine') return;
  const entry = quarantines.hold(callerOf(arrival, claims), { reason, reason_codes: reasonCodes });
  if (entry) control.settle(entry);
}

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
