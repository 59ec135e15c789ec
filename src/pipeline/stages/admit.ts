import { GatewayError } from '../../base/lib/gateway-error.ts';
import { refuseLoop } from '../parts/refusal.ts';
import { defineStage } from '../parts/stage.ts';

/** Refuses what cannot be recorded (decision 7.10) and what went through this gateway before (decision 3.13). */
export const admit = defineStage({
  name: 'admit',
  reads: ['arrival'],
  run({ arrival }, { settings, store }) {
    if (!store.writable) {
      throw new GatewayError('record_store_unavailable', 'Records cannot be written at the moment, so nothing is forwarded.');
    }
    refuseLoop(arrival.head.rawHeaders, settings.nodeId);
    return undefined;
  },
});
