import type { Usage } from '../base/model/usage.ts';
import type { SeenUsage } from '../outbound/connectors/seen-usage.ts';
import { asksDeferred } from './deferred-call.ts';
import type { Delivered, Exchange } from './exchange.ts';
import { SWITCHED } from './socket/socket-answer.ts';

/** Whether a cap, or a budget limit, looks at what this call costs. */
export function isWatched({ reservation, verdict }: Exchange): boolean {
  return reservation?.watched === true || verdict?.effects.usd_max !== undefined;
}

/** A followed stream that did not come to its end has cost what was seen of it, whether or not the provider came to report it (decision 6.4). */
export function takeSeen(exchange: Exchange, seen: SeenUsage | undefined): void {
  if (seen?.approximated !== true || exchange.delivery?.streamOutcome === 'complete') return;
  take(exchange, seen.usage);
}

/**
 * A call that a cap or limit watches costs something also when its answer did not say what: else leaving an option out, or leaving before the last bytes, would be a
 * way past the cap (decision 6.4). It is charged what was seen of its stream, and where nothing of the output can be seen what was set aside. What failed, what the
 * provider refused, and what is charged by other units than tokens costs nothing here.
 */
export function takeUnreported(exchange: Exchange, seen: SeenUsage | undefined): void {
  const { delivery, reservation, estimate, usage } = exchange;
  if (reservation === undefined || estimate === undefined || !isWatched(exchange) || !isAnswered(delivery)) return;
  // Some providers repeat a zero until the end.
  if (usage !== undefined && (usage.tokens_out > 0 || seen?.approximated !== true)) return;
  if (!reportsTokens(exchange) || asksDeferred(exchange)) return;
  if (seen?.approximated === true || (seen && delivery.streamOutcome === 'aborted')) take(exchange, seen.usage);
  else take(exchange, { tokens_in: estimate.reservedIn, tokens_out: estimate.reservedOut });
}

/** The provider took the call and began to answer it; on a socket there is no status that would say more than its events do. */
function isAnswered(delivery: Exchange['delivery']): delivery is Delivered {
  if (delivery?.status === undefined || delivery.failure || delivery.streamOutcome === 'error') return false;
  return delivery.status === SWITCHED || (delivery.status >= 200 && delivery.status < 300);
}

/** A format that bounds no output and reports no tokens has another measure; of one that nobody knows tokens are all that can be told. */
function reportsTokens({ operation }: Exchange): boolean {
  if (operation === undefined || operation.actionType === 'http.request') return false;
  return operation.dialect === undefined || operation.dialect.usage !== undefined;
}

function take(exchange: Exchange, usage: Usage): void {
  exchange.usage = usage;
  exchange.usageApproximated = true;
}
