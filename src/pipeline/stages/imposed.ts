import type { Stage } from '../stage.ts';

/** Takes over a refusal that was settled before the line began: all that is left to do is to record it. */
export const imposed: Stage = {
  name: 'imposed',
  run: (exchange) => exchange.imposed,
};
