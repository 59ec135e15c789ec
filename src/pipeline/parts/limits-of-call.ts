import { usdFromPico } from '../../base/lib/money.ts';
import { ERROR_CODES } from '../../base/model/error-codes.ts';
import { BUDGET_EXCEEDED } from '../../decide/policy/judge-caps.ts';
import type { CapExceeded, RateRefusal, Refused, Spender, UnavailableRefusal } from '../../services/money/allowance.ts';
import { capAttributes, capCode, overBudget, recordedBudget } from './cap-reached.ts';
import type { LineName } from './line-name.ts';
import type { Claims, Parts } from './parts.ts';
import { deny, Refusal, statusOf } from './refusal.ts';

type Spending = Pick<Parts, 'claims' | 'attribution' | 'route'> & Partial<Pick<Parts, 'delegated'>>;

/** Whom a call's cost is counted for. */
export function spenderOf({ claims, attribution, route, delegated }: Spending): Spender {
  return {
    orgId: claims.orgId,
    workloadId: claims.workloadId,
    projectId: attribution.project_id ?? '',
    connectorId: route.connectorId,
    providerId: route.provider?.id,
    delegations: delegated?.caps,
  };
}

/** What a call is told that asks for more than it may take. @param pico what it may cost */
export function limitRefusal(refused: Refused, pico: bigint, { workloadId }: Claims, line: LineName): Refusal {
  if (refused.kind === 'rate') return rateRefusal(refused, workloadId, line);
  if (refused.kind === 'unavailable') return unavailable(refused);
  if (refused.kind === 'requests') return deny('monthly_request_limit_exceeded', 'monthly_request_limit_exceeded');
  return capRefusal(refused, pico);
}

/** Nobody knows whether a cap would be passed. */
function unavailable({ retryAfterSeconds }: UnavailableRefusal): Refusal {
  return new Refusal({
    decision: 'error',
    status: ERROR_CODES.limits_unavailable.status,
    reason: `What a cap leaves for this call cannot be asked for at the moment.`,
    reasonCodes: ['limits_unavailable'],
    errorCode: 'limits_unavailable',
    retryAfterSeconds,
  });
}

/** Every refusal for money is 403 `budget_exceeded` (decision 6.2); the code and the trace say which cap it was. */
function capRefusal(cap: CapExceeded, reservePico: bigint): Refusal {
  const traceAttributes = { cost_estimate_usd: usdFromPico(reservePico), ...capAttributes(cap) };
  const budget = recordedBudget(cap, reservePico);
  return deny(capCode(cap), BUDGET_EXCEEDED, { detail: overBudget(reservePico, cap), traceAttributes, budget });
}

/** A bucket is empty (decision 6.1). */
function rateRefusal({ rule, retryAfterSeconds }: RateRefusal, workloadId: string, line: LineName): Refusal {
  const limit = rule ? `${rule.requests_per_minute} requests per minute (rule "${rule.rule_id}")` : 'its rate limit';
  return new Refusal({
    decision: 'rate_limit',
    status: statusOf('rate_limit', line),
    reason: `The workload ${workloadId} is above ${limit}.`,
    reasonCodes: ['rate_limited'],
    retryAfterSeconds,
  });
}
