import type { SpendAsk } from '../../services/money/allowance.ts';
import type { Pipeline } from '../parts/call-services.ts';
import { limitRefusal, spenderOf } from '../parts/limits-of-call.ts';
import type { Parts } from '../parts/parts.ts';
import { hiddenCost, type Refusal } from '../parts/refusal.ts';
import { hidesCost, mayCost } from './worth.ts';

export type CallBeforeAsking = Pick<Parts, 'arrival' | 'claims' | 'target' | 'judgement' | 'attribution' | 'route'> &
  Partial<Pick<Parts, 'delegated'>>;

/** The money that is to be set aside for a call; undefined for one that takes nothing from budgets. */
export function spendAsk(parts: Omit<CallBeforeAsking, 'arrival' | 'target'>): SpendAsk | undefined {
  const { route, judgement } = parts;
  if (!mayCost(route)) return undefined;
  return {
    spender: spenderOf(parts),
    pico: String(route.estimate?.reservePico ?? 0n),
    monthlyCapUsd: judgement.verdict.effects.monthly_usd_max,
  };
}

/**
 * What would refuse a call although a person had approved it, of that which the stages after the approval ask: nobody
 * is asked about such a call (decision 4.6). It is only looked at: no token is taken, and nothing is set aside.
 * @throws GatewayError `egress_denied`
 */
export async function refusedAnyway(parts: CallBeforeAsking, { allowance, upstream }: Pipeline): Promise<Refusal | undefined> {
  const { arrival, claims, target, judgement, route } = parts;
  if (target.isCall) {
    const { orgId, workloadId } = claims;
    const rate = { rules: judgement.verdict.effects.rate_limits };
    const { refused, capped } = await allowance.peek({ orgId, workloadId, rate, spend: spendAsk(parts) });
    if (refused) return limitRefusal(refused, route.estimate?.reservePico ?? 0n, claims, arrival.line);
    if (capped && hidesCost(route)) return hiddenCost();
  }
  await upstream.admits({ host: route.host, port: route.port });
  return undefined;
}
