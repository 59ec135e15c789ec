import { when } from '../../base/lib/maybe.ts';
import { roughMicros } from '../../base/lib/money.ts';
import { type RiskRequest, riskTarget } from '../../decide/risk/risk-profile.ts';
import type { Pipeline } from '../parts/call-services.ts';
import { callerOf } from '../parts/known.ts';
import type { CallRoute, PolicySnapshot } from '../parts/parts.ts';
import { defineStage } from '../parts/stage.ts';

const NONE = { risk: undefined };

/** How unusual the request is for its caller, right before policy is asked (decisions 4.6, 9.3). */
export const risk = defineStage({
  name: 'risk',
  reads: ['arrival', 'claims', 'snapshot', 'offer'],
  makes: ['risk'],
  run({ arrival, claims, snapshot, offer }, pipeline, control) {
    if (!isScored(snapshot, pipeline)) return NONE;
    return when(pipeline.risks.score(callerOf(arrival, claims), arrival.recordId, requestOf(offer, pipeline.clock.now())), (scored) => {
      control.settle(scored);
      return { risk: scored.risk };
    });
  },
});

function isScored({ active }: PolicySnapshot, { risks, shadow }: Pipeline): boolean {
  const { scores } = risks;
  return scores === 'where asked' ? active.policy.readsRisk || shadow?.readsRisk === true : scores;
}

function requestOf({ host, actionType, estimate }: CallRoute, at: number): RiskRequest {
  return {
    at,
    target: riskTarget(host, actionType),
    promptTokens: estimate?.tokensIn ?? 0,
    costMicros: roughMicros(estimate?.costPico ?? 0n),
  };
}
