import type { SeenUsage } from '../../outbound/connectors/seen-usage.ts';
import { takeResponse } from '../deferred-call.ts';
import type { Delivered, Exchange } from '../exchange.ts';
import type { Pipeline, Stage } from '../stage.ts';
import { tellOfClientCertificate } from '../tunnel-call.ts';

/** Takes tokens and model from what the answer's meter saw, of a broken answer too; then ends the line when the call failed. */
export const meter: Stage = {
  name: 'meter',
  run(exchange, pipeline) {
    const { delivery } = exchange;
    exchange.usage = delivery?.meter?.usage;
    exchange.answeredModel = delivery?.meter?.model;
    takeSeen(exchange, delivery?.meter?.seen);
    if (delivery) takeResponse(exchange, delivery, pipeline);
    if (delivery?.failure) refuseFailed(delivery, exchange.host, pipeline);
    return undefined;
  },
};

/** A followed stream that did not come to its end has cost what was seen of it, whether or not the provider came to report it (decision 6.4). */
export function takeSeen(exchange: Exchange, seen: SeenUsage | undefined): void {
  if (seen?.approximated !== true || exchange.delivery?.streamOutcome === 'complete') return;
  exchange.usage = seen.usage;
  exchange.usageApproximated = true;
}

function refuseFailed({ failure, started }: Delivered, host: string, { events }: Pipeline): void {
  tellOfClientCertificate(failure, host, events);
  // A form that goes on otherwise than was decided is a denial, however far its answer had come.
  if (failure && (!started || failure.code === 'ambiguous_body')) throw failure;
}
