import { GENERIC_HTTP } from '../../base/catalogue/connector-id.ts';
import type { Facts } from '../../decide/policy/facts.ts';
import { type Choice, isAnotherChoice, recheck } from '../../decide/policy/recheck.ts';
import type { Exchange, Refusal } from '../exchange.ts';
import { ExchangeFacts } from '../exchange-facts.ts';
import type { Pipeline, Stage } from '../stage.ts';
import { takeCredential } from './credential.ts';
import { refusalFrom } from './decide.ts';
import { estimateCall } from './estimate.ts';
import { takePrice, takeRoute } from './resolve.ts';

/**
 * What was selected or mutated is not what policy first saw: connector, operation, price and estimate are settled anew, and where that made it another connector,
 * credential or host, the layers about these are asked once more about the final choice (decision 5.4).
 */
export const checkAgain: Stage = {
  name: 'check again',
  run(exchange, pipeline) {
    const { active, facts, verdict } = exchange;
    if (!active || !facts || !verdict) return undefined;
    if (exchange.changedByPolicy || isOther(exchange, facts)) settleAnew(exchange, pipeline, facts);
    const refused = isOther(exchange, facts) ? recheck(active.policy, new ExchangeFacts(exchange), { before: facts, verdict }) : undefined;
    return refused ? refusalFrom(refused, exchange, pipeline) : asItsProvider(exchange, pipeline, { before: facts, verdict });
  },
};

function settleAnew(exchange: Exchange, pipeline: Pipeline, first: Facts): void {
  if (first.target_host !== exchange.host) takeRoute(exchange, pipeline, {});
  takePrice(exchange, pipeline);
  exchange.estimate = estimateCall(exchange, pipeline);
  takeCredential(exchange, pipeline);
}

/** A rule about a provider holds for all calls to its hosts: `generic_http` is no other name under which one may be reached. */
function asItsProvider(exchange: Exchange, pipeline: Pipeline, choice: Choice): Refusal | undefined {
  const { active, connectorId, provider } = exchange;
  if (!active || connectorId !== GENERIC_HTTP || provider === undefined) return undefined;
  const verdict = recheck(active.policy, new ExchangeFacts(exchange, provider.id), choice);
  return verdict && refusalFrom(verdict, exchange, pipeline);
}

function isOther({ actionType, connectorId, host, credentialId }: Exchange, first: Facts): boolean {
  return isAnotherChoice(first, { action_type: actionType, connector_id: connectorId, target_host: host, credential_id: credentialId });
}
