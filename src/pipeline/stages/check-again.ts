import { recheck } from '../../decide/policy/recheck.ts';
import type { Stage } from '../stage.ts';
import { factsOf, refusalFrom } from './decide.ts';
import { estimateCall } from './estimate.ts';
import { takePrice, takeRoute } from './resolve.ts';

/**
 * What was selected or mutated is not what policy first saw: connector, operation, price and estimate are settled anew, and the connectors, credentials
 * and targets layers are asked once more about the final choice (decision 5.4).
 */
export const checkAgain: Stage = {
  name: 'check again',
  run(exchange, pipeline) {
    const { active, facts } = exchange;
    const asItWas = facts?.connector_id === exchange.connectorId && facts?.target_host === exchange.host && !exchange.changedByPolicy;
    if (asItWas || !active) return undefined;
    if (facts?.target_host !== exchange.host) takeRoute(exchange, pipeline, {});
    takePrice(exchange, pipeline);
    exchange.estimate = estimateCall(exchange);
    const verdict = recheck(active.policy, factsOf(exchange));
    return verdict && refusalFrom(verdict);
  },
};
