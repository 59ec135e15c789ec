import { takeResponse } from '../deferred-call.ts';
import type { Delivered } from '../exchange.ts';
import type { Pipeline, Stage } from '../stage.ts';
import { tellOfClientCertificate } from '../tunnel-call.ts';
import { takeSeen, takeUnreported } from '../unreported-usage.ts';

/** Takes tokens and model from what the answer's meter saw, of a broken answer too; then ends the line when the call failed. */
export const meter: Stage = {
  name: 'meter',
  run(exchange, pipeline) {
    const { delivery } = exchange;
    exchange.usage = delivery?.meter?.usage;
    exchange.answeredModel = delivery?.meter?.model;
    takeSeen(exchange, delivery?.meter?.seen);
    if (delivery) takeResponse(exchange, delivery, pipeline);
    takeUnreported(exchange, delivery?.meter?.seen);
    if (delivery?.failure) refuseFailed(delivery, exchange.host, pipeline);
    return undefined;
  },
};

function refuseFailed({ failure, started }: Delivered, host: string, { events }: Pipeline): void {
  tellOfClientCertificate(failure, host, events);
  // A form that goes on otherwise than was decided is a denial, however far its answer had come.
  if (failure && (!started || failure.code === 'ambiguous_body')) throw failure;
}
