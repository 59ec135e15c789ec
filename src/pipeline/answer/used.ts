import type { Price } from '../../base/catalogue/types.ts';
import type { Usage } from '../../base/model/usage.ts';
import { unitsWithoutRate } from '../../decide/pricing/cost.ts';
import type { SeenUsage } from '../../outbound/connectors/seen-usage.ts';
import type { Delivered } from '../parts/delivered.ts';
import type { Hold } from '../parts/hold.ts';
import type { ForwardedCall, Judgement, Used } from '../parts/parts.ts';
import { SWITCHED } from '../parts/socket-answer.ts';

/** A call whose answer is over. */
export type AnsweredCall = Pick<ForwardedCall, 'judgement' | 'route' | 'hold' | 'deferring'>;

/** Whether a cap, or a budget limit, looks at what this call costs. */
export function isWatched({ hold, judgement }: { readonly hold: Hold; readonly judgement: Judgement }): boolean {
  return hold.grant?.watched === true || judgement.verdict.effects.usd_max !== undefined;
}

/** A followed stream that did not come to its end has cost what was seen of it, whether or not the provider came to report it (decision 6.4). */
export function orSeen(used: Used, seen: SeenUsage | undefined, delivery: Delivered): Used {
  if (seen?.approximated !== true || delivery.streamOutcome === 'complete') return used;
  return approximated(seen.usage, used);
}

/**
 * A call that a cap or limit watches costs something also when its answer did not say what: else leaving an option out, or leaving before the last bytes, would be a
 * way past the cap (decision 6.4). It is charged what was seen of its stream, and where nothing of the output can be seen what was set aside. What failed, what the
 * provider refused, and what is charged by other units than tokens costs nothing here.
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

/** The provider took the call and began to answer it; on a socket there is no status that would say more than its events do. */
function isAnswered({ status, failure, streamOutcome, meter }: Delivered): boolean {
  if (status === undefined || failure || streamOutcome === 'error' || meter?.outcome === 'error') return false;
  return status === SWITCHED || (status >= 200 && status < 300);
}

/** A format that bounds no output and reports no tokens has another measure; of one that nobody knows tokens are all that can be told. */
function reportsTokens({ route: { operation } }: AnsweredCall): boolean {
  if (operation === undefined || operation.actionType === 'http.request') return false;
  const { dialect } = operation;
  if (dialect === undefined) return true;
  return dialect.usage !== undefined && !dialect.usage.optional && dialect.usage.tokensIn.paths.length > 0;
}
