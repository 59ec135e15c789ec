import type { GatewayError } from '../../base/lib/gateway-error.ts';
import { Sha256 } from '../../base/lib/sha256.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import type { CapReached } from './cap-reached.ts';
import type { Delivered } from './delivered.ts';

/** What a WebSocket answered has the status with which it was opened: a call on it has none of its own. */
export const SWITCHED = 101;

/** The answer to one call on a WebSocket: the events that belong to it. */
export class SocketAnswer implements Delivered {
  readonly status = SWITCHED;
  readonly started = true;
  readonly meter = undefined;
  stopped: CapReached | undefined;
  readonly answer = undefined;
  headLatencyMs: number | undefined;
  times: Delivered['times'];
  responseBytes = 0;
  streamOutcome: ExecutionRecord['stream_outcome'] = 'aborted';
  failure: GatewayError | undefined;
  clientGone = false;
  readonly #hash = new Sha256();
  #sha256: string | undefined;

  /** Complete when the call has ended. */
  get responseSha256(): string | undefined {
    if (this.responseBytes === 0) return undefined;
    this.#sha256 ??= this.#hash.hex();
    return this.#sha256;
  }

  add(payload: Uint8Array): void {
    this.responseBytes += payload.length;
    this.#hash.update(payload);
  }

  /** Nothing waits here: the end of a call is passed on by its socket. */
  release(): void {}

  abandon(): void {}
}
