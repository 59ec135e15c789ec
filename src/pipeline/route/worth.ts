import { namedModels } from '../../base/catalogue/named-models.ts';
import { planPrice } from '../../base/catalogue/prices/plan-price.ts';
import type { AskedModel } from '../../decide/pricing/answered-price.ts';
import { estimate, estimateCall } from '../../decide/pricing/estimate.ts';
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

/**
 * Which models a call names, what it may take and what that would cost (specification, "Cost estimation"), at the
 * prices in force when it came. Of an AI call; nothing else has one, whatever its type is called.
 */
export function worthOf(
  { arrival, claims, action, call, content, opensSocket }: Priced,
  settings: PipelineSettings,
): Pick<CallRoute, 'price' | 'estimate' | 'named'> {
  const { provider, operation, model } = call;
  const { params, headers } = content;
  const isAi = provider !== undefined && operation !== undefined && operation.actionType !== 'http.request';
  if (!isAi) return { price: undefined, estimate: undefined, named: undefined };
  const named = namedModels(operation, params, headers);
  const listed = claims.catalogue.price(provider.id, model, arrival.createdAt);
  const price = operation.plan === true ? planPrice(listed) : listed;
  if (opensSocket) return { price, estimate: undefined, named };
  const { pricingCached: cachedRates } = settings;
  const { dialect } = operation;
  const overrides = action.request.context?.estimates;
  // Nearly every call: there is nothing but the tokens of its own model.
  if (named === undefined && price.units === undefined)
    return { price, estimate: estimate(params, dialect, overrides, price, cachedRates), named };
  const priceOf = (name: string) => {
    const ofModel = claims.catalogue.price(provider.id, name, arrival.createdAt);
    return operation.plan === true ? planPrice(ofModel) : ofModel;
  };
  return { price, estimate: estimateCall({ params, dialect, overrides, price, named, priceOf, cachedRates }), named };
}

/**
 * Whether nobody can say what the call may cost, because its operation is not understood, or another model may run that
 * nobody outside of the provider knows. What a plan pays for costs nothing, understood or not.
 */
export function hidesCost({ provider, operation, price, named }: Pick<CallRoute, 'provider' | 'operation' | 'price' | 'named'>): boolean {
  if (provider === undefined || operation === undefined || price?.plan === true) return false;
  return !operation.known || named?.hidden === true;
}

/** The call as it was asked for, for the price of its answer; undefined for what has no price. */
export function askedModel({
  arrival,
  claims,
  route,
}: {
  readonly arrival: Pick<Arrived, 'createdAt'>;
  readonly claims: Claims;
  readonly route: Pick<CallRoute, 'provider' | 'operation' | 'model' | 'price' | 'named'>;
}): AskedModel | undefined {
  const { provider, operation, model, price, named } = route;
  if (provider === undefined || price === undefined) return undefined;
  return { catalogue: claims.catalogue, providerId: provider.id, operation, model, price, at: arrival.createdAt, named };
}

/**
 * Whether budgets are asked about a call. What a plan pays for takes nothing from them, and none of them refuses it
 * (decision 6.3).
 */
export function mayCost(route: Pick<CallRoute, 'provider' | 'operation' | 'price' | 'named' | 'estimate'>): boolean {
  return route.price?.plan !== true && (route.estimate !== undefined || hidesCost(route));
}
