import { GENERIC_HTTP } from '../../base/catalogue/connector-id.ts';
import { recheck } from '../../decide/policy/recheck.ts';
import type { Exchange, Refusal } from '../exchange.ts';
import { ExchangeFacts } from '../exchange-facts.ts';
import type { Pipeline, Stage } from '../stage.ts';
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
    if (!active) return undefined;
    if (isAsItWas(exchange) && !exchange.changedByPolicy) return asItsProvider(exchange, pipeline);
    if (facts?.target_host !== exchange.host) takeRoute(exchange, pipeline, {});
    takePrice(exchange, pipeline);
    exchange.estimate = estimateCall(exchange, pipeline);
    takeCredential(exchange, pipeline);
    const verdict = recheck(active.policy, new ExchangeFacts(exchange));
    return verdict ? refusalFrom(verdict, exchange, pipeline) : asItsProvider(exchange, pipeline);
  },
};

/** A rule about a provider holds for all calls to its hosts: `generic_http` is no other name under which one may be reached. */
function asItsProvider(exchange: Exchange, pipeline: Pipeline): Refusal | undefined {
  const { active, connectorId, provider } = exchange;
  if (!active || connectorId !== GENERIC_HTTP || provider === undefined) return undefined;
  const verdict = recheck(active.policy, new ExchangeFacts(exchange, provider.id));
  return verdict && refusalFrom(verdict, exchange, pipeline);
}

function isAsItWas({ facts, connectorId, host, credentialId }: Exchange): boolean {
  return facts?.connector_id === connectorId && facts?.target_host === host && facts?.credential_id === credentialId;
}
