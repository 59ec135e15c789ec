import type { Asker } from '../../operations/tools.ts';
import { errorText, RPC, RpcError, type RpcRequest } from './json-rpc.ts';

/** Why what was asked for is not answered. */
const CANCELLED = new RpcError(RPC.cancelled, 'The request was cancelled.');

/**
 * Requests of clients that are not answered yet, by the session that they are of, so that `notifications/cancelled`
 * finds them. What only reads ends when it is cancelled, and when its client leaves; a change that has begun is not
 * stopped, since nobody could say how far it has come. A request without a session is cancelled by closing its
 * connection.
 */
export class RequestsUnderWay {
  readonly #running = new Map<string, AbortController>();

  /** Requests that can be cancelled. */
  get size(): number {
    return this.#running.size;
  }

  /**
   * Answers a request for somebody.
   * @param session names where its id is known; undefined: it cannot be cancelled by name
   * @param answer is given who asks, with a signal of this request alone
   */
  async answered<T extends { readonly text: string }>(
    session: string | undefined,
    { id }: RpcRequest,
    asker: Asker,
    answer: (asker: Asker) => Promise<T>,
  ): Promise<T | { readonly text: string; readonly failed: number }> {
    const controller = new AbortController();
    const leave = (): void => controller.abort(asker.signal?.reason);
    if (asker.signal?.aborted === true) leave();
    else asker.signal?.addEventListener('abort', leave, { once: true });
    const name = session === undefined ? undefined : nameOf(session, id);
    if (name !== undefined) this.#running.set(name, controller);
    try {
      const answered = await answer({ ...asker, signal: controller.signal });
      return controller.signal.reason === CANCELLED ? { text: errorText(id, CANCELLED), failed: CANCELLED.code } : answered;
    } finally {
      asker.signal?.removeEventListener('abort', leave);
      if (name !== undefined && this.#running.get(name) === controller) this.#running.delete(name);
    }
  }

  /** Cancels a request of a session; nothing happens where there is none of this id. */
  cancel(session: string, id: unknown): void {
    if (typeof id === 'string' || typeof id === 'number') this.#running.get(nameOf(session, id))?.abort(CANCELLED);
  }
}

/** A number and a text of the same digits are two ids (JSON-RPC 2.0). */
function nameOf(session: string, id: string | number): string {
  return `${session} ${typeof id} ${id}`;
}
