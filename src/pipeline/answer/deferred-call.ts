import type { EndedResponse } from '../../services/money/deferred-usage.ts';
import type { DeferredResponses } from '../parts/call-services.ts';
import type { Delivered } from '../parts/delivered.ts';
import type { LineName } from '../parts/line-name.ts';
import type { CallRoute, Content, ForwardedCall, Used } from '../parts/parts.ts';
import { assumedMetering } from './intent.ts';
import { approximated } from './used.ts';

/** Whether a call asks for a response that is made after its answer. Whatever a provider may take for a yes is one. */
export function asksDeferred(line: LineName, { operation }: CallRoute, { params }: Content): boolean {
  const rule = operation?.dialect?.deferred;
  if (rule === undefined || line === 'socket' || operation?.actionType === 'http.request') return false;
  const value = Object.hasOwn(params, rule.switch) ? params[rule.switch] : undefined;
  return value !== undefined && value !== null && value !== false;
}

/** Whether its answer tells which response it is about: one that asks for such a response, or asks later how it is. */
export function tellsOfResponse({ route, deferring }: ForwardedCall): boolean {
  return route.operation?.actionType === 'http.request' || deferring;
}

/** What was asked for has ended, whoever asked. Undefined: the answer does not say so. */
export function endedResponse({ route }: ForwardedCall, { meter }: Delivered): EndedResponse | undefined {
  const { operation, host } = route;
  if (operation?.dialect?.deferred === undefined || operation.actionType !== 'http.request') return undefined;
  const { state, usage, model } = meter ?? {};
  return state?.id !== undefined && state.hasEnded ? { host, responseId: state.id, usage, model } : undefined;
}

/**
 * The call has begun a response of which the usage is not known yet, so that what was set aside stays so. Where the answer broke off before it named the response, nobody
 * can ask for that: it is charged at its estimate, because it may run all the same.
 */
export function orDeferred(used: Used, call: ForwardedCall, delivery: Delivered, deferred: DeferredResponses): Used {
  const { hold, route, arrival } = call;
  const { operation, price, estimate } = route;
  if (operation?.dialect?.deferred === undefined || !call.deferring || !isAccepted(delivery)) return used;
  const { state, usage } = delivery.meter ?? {};
  if (state?.hasEnded || (usage !== undefined && state?.isOpen !== true)) return used;
  const nothing: Used = { ...used, usage: undefined, approximated: false };
  if (state?.id === undefined)
    return estimate ? approximated({ tokens_in: estimate.reservedIn, tokens_out: estimate.reservedOut }, nothing) : nothing;
  const begun = deferred.begin(route.host, state.id, arrival.createdAt);
  const assumed = assumedMetering(hold, route);
  if (begun && price && assumed) hold.defer(begun, price, assumed);
  return nothing;
}

function isAccepted({ status }: Delivered): boolean {
  return status !== undefined && status >= 200 && status < 300;
}
