import { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import type { ArrivalHead } from '../../../src/base/model/arrival.ts';

/** A head as the listener hands it over; every member can be replaced. */
export function head(members: Partial<ArrivalHead> & { readonly headers?: Record<string, string> } = {}): ArrivalHead {
  const headers = { host: '127.0.0.1:7080', ...members.headers };
  return {
    door: 'origin',
    trafficClass: 'developer',
    method: 'POST',
    rawTarget: '/v1/chat/completions',
    rawHeaders: Object.entries(headers).flat(),
    httpVersion: '1.1',
    secure: false,
    remoteAddress: '127.0.0.1',
    startedAt: 0,
    ...members,
    headers,
  };
}

/** The code of the GatewayError that a call ends in, or its result. */
export function codeOr<T>(call: () => T): T | string {
  try {
    return call();
  } catch (error) {
    if (error instanceof GatewayError) return error.code;
    throw error;
  }
}
