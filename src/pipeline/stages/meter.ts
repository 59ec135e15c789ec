import type { Delivered } from '../exchange.ts';
import type { Pipeline, Stage } from '../stage.ts';
import { tellOfClientCertificate } from '../tunnel-call.ts';

/** Ends the line when the call failed; else takes tokens and model from what the answer's meter saw. */
export const meter: Stage = {
  name: 'meter',
  run(exchange, pipeline) {
    const { delivery } = exchange;
    if (delivery?.failure) refuseFailed(delivery, exchange.host, pipeline);
    exchange.usage = delivery?.meter?.usage;
    exchange.answeredModel = delivery?.meter?.model;
    return undefined;
  },
};

function refuseFailed({ failure, started }: Delivered, host: string, { events }: Pipeline): void {
  tellOfClientCertificate(failure, host, events);
  // A form that goes on otherwise than was decided is a denial, however far its answer had come.
  if (failure && (!started || failure.code === 'ambiguous_body')) throw failure;
}
