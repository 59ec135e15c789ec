import { namesModelsBeside } from '../../base/catalogue/reading.ts';
import type { AskedModel } from '../../decide/pricing/answered-price.ts';
import { estimate as estimateTokens } from '../../decide/pricing/estimate.ts';
import type { PipelineSettings } from '../parts/call-services.ts';
import type { Arrived, CallRoute, Claims, Content, ReceivedAction, WireCall } from '../parts/parts.ts';

export interface Priced {
  readonly arrival: Arrived;
  readonly claims: Claims;
  readonly action: ReceivedAction;
  readonly call: WireCall;
  readonly content: Content;
  /** A handshake costs nothing; what is asked for on the socket is estimated call by call. */
  readonly opensSocket: boolean;
}

/** What a call may take and what that would cost (specification, "Cost estimation"), at the price in force when it came. Of an AI call; nothing else has one, whatever its type is called. */
export function worthOf(
  { arrival, claims, action, call, content, opensSocket }: Priced,
  settings: PipelineSettings,
): Pick<CallRoute, 'price' | 'estimate'> {
  const { provider, operation, model } = call;
  const isAi = provider !== undefined && operation !== undefined && operation.actionType !== 'http.request';
  const price = isAi ? claims.catalogue.price(provider.id, model, arrival.createdAt) : undefined;
  if (!price || !operation || opensSocket) return { price, estimate: undefined };
  const given = action.request.context?.estimates;
  return { price, estimate: estimateTokens(content.params, operation.dialect, given, price, settings.pricingCached) };
}

/** Whether nobody can say what the call may cost, because its operation is not understood or another model than the one that it names may answer. */
export function hidesCost({ provider, operation }: WireCall, { params }: Content): boolean {
  if (provider === undefined || operation === undefined) return false;
  return !operation.known || namesModelsBeside(operation, params);
}

/** The call as it was asked for, for the price of its answer; undefined for what has no price. */
export function askedModel({
  arrival,
  claims,
  route,
}: {
  readonly arrival: Pick<Arrived, 'createdAt'>;
  readonly claims: Claims;
  readonly route: Pick<CallRoute, 'provider' | 'operation' | 'model' | 'price'>;
}): AskedModel | undefined {
  const { provider, operation, model, price } = route;
  if (provider === undefined || price === undefined) return undefined;
  return { catalogue: claims.catalogue, providerId: provider.id, operation, model, price, at: arrival.createdAt };
}
