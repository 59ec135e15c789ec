import { GatewayError } from '../../base/lib/gateway-error.ts';
import { refuseLoop } from '../refusals.ts';
import type { Stage } from '../stage.ts';

/** Refuses what cannot be recorded (decision 7.10) and what went through this gateway before (decision 3.13). */
export const admit: Stage = {
  name: 'admit',
  run(exchange, { settings, store }) {
    if (!store.writable) {
      throw new GatewayError('record_store_unavailable', 'Records cannot be written at the moment, so nothing is forwarded.');
    }
    refuseLoop(exchange.head.rawHeaders, settings.nodeId);
    return undefined;
  },
};
