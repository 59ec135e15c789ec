import { recheck } from '../../decide/policy/recheck.ts';
import type { Exchange } from '../exchange.ts';
import { ExchangeFacts } from '../exchange-facts.ts';
import type { Stage } from '../stage.ts';
import { takeCredential } from './credential.ts';
import { refusalFrom } from './decide.ts';
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
    if (!active || (isAsItWas(exchange) && !exchange.changedByPolicy)) return undefined;
    if (facts?.target_host !== exchange.host) takeRoute(exchange, pipeline, {});
    takePrice(exchange, pipeline);
    exchange.estimate = estimateCall(exchange, pipeline);
    takeCredential(exchange, pipeline);
    const verdict = recheck(active.policy, new ExchangeFacts(exchange));
    return verdict && refusalFrom(verdict, exchange, pipeline);
  },
};

function isAsItWas({ facts, connectorId, host, credentialId }: Exchange): boolean {
  return facts?.connector_id === connectorId && facts?.target_host === host && facts?.credential_id === credentialId;
}
