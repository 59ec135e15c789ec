import type { Stage } from '../stage.ts';

/** Takes tokens and model from what the answer's meter saw. */
export const meter: Stage = {
  name: 'meter',
  run(exchange) {
    const seen = exchange.delivery?.meter;
    exchange.usage = seen?.usage;
    exchange.answeredModel = seen?.model;
    return undefined;
  },
};
