import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Stage } from '../stage.ts';

/** A key that would not be honoured must not be taken: the caller would believe that a retry is safe (decisions, head: nothing fails open). */
export const replay: Stage = {
  name: 'replay',
  run(exchange) {
    if (exchange.request?.idempotency_key === undefined) return undefined;
    const details = [{ path: 'idempotency_key', message: 'is not supported yet; leave it out' }];
    throw new GatewayError('not_supported_yet', 'Idempotent replay is not part of this version.', { details });
  },
};
