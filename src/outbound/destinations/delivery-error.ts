import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { FailureReason } from '../../base/model/export-destination.ts';

interface DeliveryErrorOptions {
  readonly retryable: boolean;
  /** How long the receiver wants to be left alone, milliseconds. */
  readonly retryAfterMs?: number | undefined;
  /** Not something that this receiver has done: it does not count as a try. */
  readonly uncounted?: boolean;
}

/** Why something could not be delivered. `message` names neither paths nor queries nor secrets. */
export class DeliveryError extends Error {
  override readonly name = 'DeliveryError';
  readonly reason: FailureReason;
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;
  readonly uncounted: boolean;

  constructor(reason: FailureReason, message: string, { retryable, retryAfterMs, uncounted = false }: DeliveryErrorOptions) {
    super(message);
    this.reason = reason;
    this.retryable = retryable;
    this.retryAfterMs = retryAfterMs;
    this.uncounted = uncounted;
  }
}

const BY_CODE: Readonly<Record<string, FailureReason>> = {
  egress_denied: 'egress_denied',
  upstream_timeout: 'timeout',
  upstream_tls: 'tls_error',
};

/** Any failure on the way out, as a delivery has it. */
export function deliveryError(error: unknown): DeliveryError {
  if (error instanceof DeliveryError) return error;
  if (error instanceof GatewayError) {
    return new DeliveryError(BY_CODE[error.code] ?? 'unreachable', error.message, {
      retryable: error.code !== 'egress_denied',
      uncounted: error.code === 'shutting_down',
    });
  }
  return new DeliveryError('unreachable', 'It could not be sent.', { retryable: true });
}

/** The gateway stops: what is under way is tried again by the next start. */
export function stoppedDelivery(): DeliveryError {
  return new DeliveryError('unreachable', 'The gateway is stopping.', { retryable: true, uncounted: true });
}
