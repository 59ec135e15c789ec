import type { Pipeline } from '../parts/call-services.ts';
import type { CallRoute, Claims } from '../parts/parts.ts';
import { type Refusal, stopped } from '../parts/refusal.ts';
import { defineStage } from '../parts/stage.ts';

/** Nobody whose calls are stopped is asked anything more, nor given an earlier answer again. */
export const refuseStopped = defineStage({
  name: 'stops',
  reads: ['claims'],
  run: ({ claims }, { stops }) => (stops.any ? refusalBy(stops, claims, undefined) : undefined),
});

/**
 * No call goes to a provider or a model that is stopped: as it would be sent, so that a call which policy leads
 * elsewhere goes on.
 */
export const refuseStoppedPlace = defineStage({
  name: 'stopped place',
  reads: ['claims', 'route'],
  run: ({ claims, route }, { stops }) => (stops.any ? refusalBy(stops, claims, route) : undefined),
});

function refusalBy(stops: Pipeline['stops'], { orgId, workloadId }: Claims, place: CallRoute | undefined): Refusal | undefined {
  const stop = stops.holding({ orgId, workloadId, place });
  return stop && stopped(stop);
}
