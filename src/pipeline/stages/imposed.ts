import { defineStage } from '../parts/stage.ts';

/** Takes over a refusal that was settled before the line began: all that is left to do is to record it. */
export const imposed = defineStage({
  name: 'imposed',
  reads: ['arrival'],
  run: ({ arrival }) => arrival.imposed,
});
