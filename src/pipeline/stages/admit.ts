import { GatewayError } from '../../base/lib/gateway-error.ts';
import { seenVia } from '../../outbound/net/header-filter.ts';
import type { Stage } from '../stage.ts';

/** Refuses what cannot be recorded (decision 7.10) and what went through this gateway before (decision 3.13). */
export const admit: Stage = {
  name: 'admit',
  run(exchange, { settings, store }) {
    if (!store.writable) {
      throw new GatewayError('record_store_unavailable', 'Records cannot be written at the moment, so nothing is forwarded.');
    }
    if (seenVia(exchange.head.rawHeaders, settings.nodeId)) {
      throw new GatewayError('loop_detected', 'This request has already passed this gateway.');
    }
    return undefined;
  },
};
