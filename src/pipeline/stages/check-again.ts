import { GENERIC_HTTP } from '../../base/catalogue/connector-id.ts';
import { pathOnly } from '../../inbound/normalise/path.ts';
import { recheck } from '../../decide/policy/recheck.ts';
import type { Stage } from '../stage.ts';
import { factsOf, refusalFrom } from './decide.ts';
import { estimateCall } from './estimate.ts';

/**
 * What was selected or mutated is not what policy first saw: connector, operation, price and estimate are settled anew, and the connectors, credentials
 * and targets layers are asked once more about the final choice (decision 5.4).
 */
export const checkAgain: Stage = {
  name: 'check again',
  run(exchange, pipeline) {
    const { active, facts, provider } = exchange;
    const asItWas = facts?.connector_id === exchange.connectorId && facts?.target_host === exchange.host && !exchange.changedByPolicy;
    if (asItWas || !active) return undefined;
    exchange.connectorId = provider?.id ?? GENERIC_HTTP;
    if (provider) {
      exchange.operation = pipeline.catalogue.operation(provider, exchange.method, pathOnly(exchange.path));
      if (!exchange.request) exchange.actionType = exchange.operation.actionType;
      exchange.price = pipeline.catalogue.price(provider.id, exchange.sendModel);
    }
    exchange.estimate = estimateCall(exchange);
    const verdict = recheck(active.policy, factsOf(exchange, pipeline));
    return verdict && refusalFrom(verdict);
  },
};
