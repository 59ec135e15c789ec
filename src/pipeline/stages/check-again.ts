import { recheck } from '../../decide/policy/recheck.ts';
import { ExchangeFacts } from '../exchange-facts.ts';
import { deny } from '../refusals.ts';
import type { Stage } from '../stage.ts';
import { carriesKey } from './connector-and-credential.ts';
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
    const asItWas = facts?.connector_id === exchange.connectorId && facts?.target_host === exchange.host && !exchange.changedByPolicy;
    if (asItWas || !active) return undefined;
    if (facts?.target_host !== exchange.host) takeRoute(exchange, pipeline, {});
    takePrice(exchange, pipeline);
    exchange.estimate = estimateCall(exchange);
    const verdict = recheck(active.policy, new ExchangeFacts(exchange));
    if (verdict) return refusalFrom(verdict, exchange, pipeline);
    // The only keys there are yet are the callers' own, and a key goes to no host but its connector's (decision 6.9).
    if (facts?.connector_id === exchange.connectorId || !carriesKey(exchange)) return undefined;
    return deny('no_credential_candidate', `Policy moves this call to ${exchange.connectorId}, where the key that it carries must not go.`);
  },
};
