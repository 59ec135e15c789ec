import { GatewayError } from './gateway-error.ts';

/**
 * Why a call is not begun, or is ended before it is complete: the gateway stops (`GW_DRAIN_TIMEOUT`), and another may
 * be there in a moment.
 */
export function stopping(): GatewayError {
  return new GatewayError('shutting_down', 'The gateway is stopping; try again.');
}

/** What asks a program to end; a terminal that is closed sends SIGHUP. */
export const STOP_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;
