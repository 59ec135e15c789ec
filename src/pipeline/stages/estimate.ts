import { namesModelsBeside } from '../../base/catalogue/reading.ts';
import { estimate as estimateTokens } from '../../decide/pricing/estimate.ts';
import type { Exchange } from '../exchange.ts';
import type { Pipeline, Stage } from '../stage.ts';

/** How many tokens the call may take and what they would cost (specification, "Cost estimation"). */
export const estimate: Stage = {
  name: 'estimate',
  run(exchange, pipeline) {
    exchange.estimate = estimateCall(exchange, pipeline);
    return undefined;
  },
};

/** Whether nobody can say what the call may cost, because its operation is not understood or another model than the one that it names may answer. */
export function hidesCost({ provider, operation, params }: Exchange): boolean {
  if (provider === undefined || operation === undefined) return false;
  return !operation.known || namesModelsBeside(operation, params);
}

export function estimateCall(exchange: Exchange, { settings }: Pipeline): Exchange['estimate'] {
  const { price, operation, request } = exchange;
  // A handshake costs nothing; what is asked for on the socket is estimated call by call.
  if (!price || !operation || exchange.opensSocket) return undefined;
  return estimateTokens(exchange.params, operation.dialect, request?.context?.estimates, price, settings.pricingCached);
}
