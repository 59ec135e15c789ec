import { GatewayError } from '../../base/lib/gateway-error.ts';
import { SigningRequestError } from '../pki/signing-request.ts';
import { ProtocolError, type ProtocolFault } from '../proto/protocol-error.ts';
import type { CountedCall } from '../state/control-plane-counts.ts';

/** Counts calls by method and how they ended, and says by which fault of the protocol they failed. */
export class CountedCalls {
  readonly #counts = new Map<string, { readonly method: string; readonly result: string; count: number }>();

  list(): readonly CountedCall[] {
    return [...this.#counts.values()];
  }

  /** @throws ProtocolError; anything else is a fault of ours */
  async run<T>(method: string, call: () => Promise<T>): Promise<T> {
    try {
      const answer = await call();
      this.#count(method, 'OK');
      return answer;
    } catch (error) {
      const fault = faultFor(error);
      this.#count(method, fault instanceof ProtocolError ? fault.fault : 'INTERNAL');
      throw fault;
    }
  }

  /** A call that ended before anything carried it out. */
  refused(method: string, fault: ProtocolFault): void {
    this.#count(method, fault);
  }

  #count(method: string, result: string): void {
    const key = `${method} ${result}`;
    const counted = this.#counts.get(key);
    if (counted === undefined) this.#counts.set(key, { method, result, count: 1 });
    else counted.count += 1;
  }
}

function faultFor(error: unknown): unknown {
  if (error instanceof SigningRequestError) return new ProtocolError('INVALID_ARGUMENT', `csr: ${error.message}`, { cause: error });
  if (!(error instanceof GatewayError)) return error;
  const { code, message } = error;
  if (code === 'conflict')
    return new ProtocolError('UNAVAILABLE', 'something else has changed this at the same time; try again', { cause: error });
  if (code === 'too_many_attempts') return new ProtocolError('RESOURCE_EXHAUSTED', message, { cause: error });
  if (code === 'record_store_unavailable' || code === 'shutting_down') return new ProtocolError('UNAVAILABLE', message, { cause: error });
  return error;
}
