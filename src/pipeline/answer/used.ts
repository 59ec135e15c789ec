import type { Price } from '../../base/catalogue/types.ts';
import type { Usage } from '../../base/model/usage.ts';
import { unitsWithoutRate } from '../../decide/pricing/cost.ts';
import type { SeenUsage } from '../../outbound/connectors/seen-usage.ts';
import type { EndedResponse } from '../../services/money/deferred-usage.ts';
import type { DeferredResponses } from '../parts/call-services.ts';
import type { Delivered } from '../parts/delivered.ts';
import type { Hold } from '../parts/hold.ts';
import type { LineName } from '../parts/line-name.ts';
import type { CallRoute, Content, ForwardedCall, Judgement, Used } from '../parts/parts.ts';
import { SWITCHED } from '../parts/socket-answer.ts';
import { assumedMetering } from './intent.ts';

/** A call whose answer is over. */
export type AnsweredCall = Pick<ForwardedCall, 'judgement' | 'route' | 'hold' | 'deferring'>;

/** Whether a cap, or a budget limit, looks at what this call costs. */
export function isWatched({ hold, judgement }: { readonly hold: Hold; readonly judgement: Judgement }): boolean {
  return hold.grant?.watched === true || judgement.verdict.effects.usd_max !== undefined;
}

/**
 * A followed stream that did not come to its end has cost what was seen of it, whether or not the provider came to
 * report it (decision 6.4).
 */
export function orSeen(used: Used, seen: SeenUsage | undefined, delivery: Delivered): Used {
  if (seen?.approximated !== true || delivery.streamOutcome === 'complete') return used;
  return approximated(seen.usage, used);
}

/**
 * A call that a cap or limit watches costs something also when its answer did not say what: else leaving an option out,
 * or leaving before the last bytes, would be a way past the cap (decision 6.4). It is charged what was seen of its
 * stream, and where nothing of the output can be seen what was set aside. What failed, what the provider refused, and
 * what is charged by other units than tokens costs nothing here.
 */
export function orUnreported(used: Used, call: AnsweredCall, delivery: Delivered, seen: SeenUsage | undefined): Used {
  const { route, hold } = call;
  const { estimate } = route;
  if (hold.grant === undefined || estimate === undefined || !isWatched(call) || !isAnswered(delivery)) return used;
  const { usage } = used;
  // Some providers repeat a zero until the end.
  if (usage !== undefined && !isWithoutPrice(usage, route.price) && (usage.tokens_out > 0 || seen?.approximated !== true)) return used;
  if (!reportsTokens(call) || call.deferring) return used;
  if (seen?.approximated === true || (seen && delivery.streamOutcome === 'aborted')) return approximated(seen.usage, used);
  return approximated({ tokens_in: estimate.reservedIn, tokens_out: estimate.reservedOut }, used);
}

/** Counted in units alone, none of which has a rate: that says no more of its cost than nothing. */
function isWithoutPrice(usage: Usage, price: Price | undefined): boolean {
  const { tokens_in: tokensIn, tokens_out: tokensOut, units = {} } = usage;
  if (price === undefined || tokensIn + tokensOut > 0 || usage.units === undefined) return false;
  return unitsWithoutRate(usage, price)?.length === Object.keys(units).length;
}

/** The gateway's own count, in place of one that the provider has not given. */
export function approximated(usage: Usage, { model }: Used): Used {
  return { usage, approximated: true, model };
}

/**
 * The provider took the call and began to answer it; on a socket there is no status that would say more than its events
 * do.
 */
function isAnswered({ status, failure, streamOutcome, meter }: Delivered): boolean {
  if (status === undefined || failure || streamOutcome === 'error' || meter?.outcome === 'error') return false;
  return status === SWITCHED || (status >= 200 && status < 300);
}

/**
 * A format that bounds no output and reports no tokens has another measure; of one that nobody knows tokens are all
 * that can be told.
 */
function reportsTokens({ route: { operation } }: AnsweredCall): boolean {
  if (operation === undefined || operation.actionType === 'http.request') return false;
  const { dialect } = operation;
  if (dialect === undefined) return true;
  return dialect.usage !== undefined && !dialect.usage.optional && dialect.usage.tokensIn.paths.length > 0;
}

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
 * The call has begun a response of which the usage is not known yet, so that what was set aside stays so. Where the
 * answer broke off before it named the response, nobody can ask for that: it is charged at its estimate, because it may
 * run all the same.
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
