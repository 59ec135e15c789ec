import type { Pipeline } from '../parts/call-services.ts';
import { capRefusal, monthlyCapOf, rateRefusal, spenderOf } from '../parts/limits-of-call.ts';
import type { Parts } from '../parts/parts.ts';
import { hiddenCost, type Refusal } from '../parts/refusal.ts';
import { hidesCost, mayCost } from './worth.ts';

export type CallBeforeAsking = Pick<Parts, 'arrival' | 'claims' | 'target' | 'judgement' | 'attribution' | 'route'> &
  Partial<Pick<Parts, 'delegated'>>;

/**
 * What would refuse a call although a person had approved it, of that which the stages behind the approval ask: nobody is asked about such a call (decision 4.6). It is
 * only looked at: no token is taken, and nothing is set aside.
 * @throws GatewayError `egress_denied`
 */
export async function refusedAnyway(parts: CallBeforeAsking, { rateLimits, budgets, upstream }: Pipeline): Promise<Refusal | undefined> {
  const { arrival, claims, target, judgement, route } = parts;
  const { orgId, workloadId } = claims;
  if (target.isCall) {
    const rate = await rateLimits.look(orgId, workloadId, judgement.verdict.effects.rate_limits);
    if (rate) return rateRefusal(rate, workloadId, arrival.line);
    if (mayCost(route)) {
      const { estimate } = route;
      const isHidden = hidesCost(route);
      const pico = estimate?.reservePico ?? 0n;
      const cap = await budgets.look(spenderOf(parts), pico, monthlyCapOf(judgement));
      if (cap !== undefined && cap !== 'capped') return capRefusal(cap, pico);
      if (cap === 'capped' && isHidden) return hiddenCost();
    }
  }
  await upstream.admits({ host: route.host, port: route.port });
  return undefined;
}
