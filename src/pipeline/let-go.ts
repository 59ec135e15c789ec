import { asksDeferred } from './deferred-call.ts';
import type { Exchange } from './exchange.ts';
import { observed } from './record-of.ts';

const NOTHING = {};

/**
 * Lets go of what was read of a body, once the call is on its way: text and params are several times as large as the bytes, and an answer may take an hour. What is
 * asked of them later is found out now. The bytes that are sent are the net room's from here on.
 */
export function letGoOfBody(exchange: Exchange): void {
  const { sendBytes, upload, request, held } = exchange;
  exchange.deferring = asksDeferred(exchange);
  exchange.observed = observed(exchange);
  upload?.settle(exchange.params);
  exchange.facts = undefined;
  exchange.aiBody = undefined;
  exchange.form = undefined;
  exchange.bytes = undefined;
  exchange.plain = undefined;
  exchange.params = NOTHING;
  exchange.changes = [];
  if (request) exchange.request = { ...request, action: { ...request.action, params: NOTHING } };
  exchange.sendBytes = undefined;
  // The beginning of a form is held until it is sent.
  if (!upload) held?.keep(sendBytes?.length ?? 0);
}
