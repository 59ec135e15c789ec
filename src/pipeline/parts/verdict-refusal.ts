import { type Maybe, when } from '../../base/lib/maybe.ts';
import { permits } from '../../base/model/reason-codes.ts';
import type { Verdict } from '../../decide/policy/verdict.ts';
import type { RefusalDetail } from '../../inbound/reply/envelope.ts';
import type { Allowance, Peeked } from '../../services/money/allowance.ts';
import type { LineName } from './line-name.ts';
import type { Claims } from './parts.ts';
import { Refusal, statusOf } from './refusal.ts';

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
