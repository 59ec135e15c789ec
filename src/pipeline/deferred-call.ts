import type { Delivered, Exchange } from './exchange.ts';
import type { Pipeline } from './stage.ts';

/** Whether the call asks for a response that is made after its answer. Whatever a provider may take for a yes is one. */
export function asksDeferred({ door, operation, params, deferring }: Exchange): boolean {
  if (deferring !== undefined) return deferring;
  const rule = operation?.dialect?.deferred;
  if (rule === undefined || door === 'socket' || operation?.actionType === 'http.request') return false;
  const value = Object.hasOwn(params, rule.switch) ? params[rule.switch] : undefined;
  return value !== undefined && value !== null && value !== false;
}

/** Whether its answer tells which response it is about: one that asks for such a response, or asks later how it is. */
export function tellsOfResponse(exchange: Exchange): boolean {
  return exchange.operation?.actionType === 'http.request' || asksDeferred(exchange);
}

/** Takes from an answer what it says of a response that is, or was, made after the answer to its call. */
export function takeResponse(exchange: Exchange, delivery: Delivered, pipeline: Pipeline): void {
  const { operation } = exchange;
  if (operation?.dialect?.deferred === undefined) return;
  if (operation.actionType === 'http.request') takeEnd(exchange, delivery);
  else if (asksDeferred(exchange) && isAccepted(delivery)) takeBeginning(exchange, delivery, pipeline);
}

/** What was asked for has ended, whoever asked. */
function takeEnd(exchange: Exchange, { meter }: Delivered): void {
  const { state, usage, model } = meter ?? {};
  if (state?.id !== undefined && state.hasEnded) {
    exchange.ended = { host: exchange.host, responseId: state.id, usage, model };
  }
}

/**
 * The call has begun a response of which the usage is not known yet, so that what was set aside stays so. Where the answer broke off before it named the response, nobody
 * can ask for that: it is charged at its estimate, because it may run all the same.
 */
function takeBeginning(exchange: Exchange, { meter }: Delivered, { deferred }: Pipeline): void {
  const { state, usage } = meter ?? {};
  if (state?.hasEnded || (usage !== undefined && state?.isOpen !== true)) return;
  exchange.usage = undefined;
  exchange.usageApproximated = false;
  if (state?.id !== undefined) {
    exchange.deferred = deferred.begin(exchange, state.id);
  } else if (exchange.estimate) {
    exchange.usage = { tokens_in: exchange.estimate.reservedIn, tokens_out: exchange.estimate.reservedOut };
    exchange.usageApproximated = true;
  }
}

function isAccepted({ status }: Delivered): boolean {
  return status !== undefined && status >= 200 && status < 300;
}
