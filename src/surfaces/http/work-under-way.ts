import { GatewayError } from '../../base/lib/gateway-error.ts';
import { type FullFor, Shares } from '../../base/lib/shares.ts';
import type { Principal } from '../../base/model/principal.ts';
import { REPORT_BOUNDS } from '../../base/model/work-bounds.ts';

export interface UnderWayOptions {
  /** Requests under way, of everybody together. Default: that of {@link REPORT_BOUNDS}. */
  readonly all?: number;
  /** Requests that wait for their turn, of everybody together. Default: that of {@link REPORT_BOUNDS}. */
  readonly waiting?: number;
}

/** Whose work it is. */
interface Place {
  readonly org: string;
  readonly caller: string;
}

interface Waiter {
  readonly begin: () => void;
}

/** Those of one caller, the first one first. */
interface Queue extends Place {
  readonly waiters: Set<Waiter>;
}

/**
 * How much work those who have shown a key or a token have under way at a time (decision 7.12): orgs share the places,
 * and keys those of their org. Whoever is at his share waits, in his own queue; whoever has too many waiting is told
 * so. A turn is given to one caller after the other, so that a long queue holds up nobody else.
 */
export class WorkUnderWay {
  readonly #running: Shares;
  readonly #waiting: Shares;
  /** By caller, who was given a turn last at the end. */
  readonly #queues = new Map<string, Queue>();

  constructor({ all = REPORT_BOUNDS.underWay.all, waiting = REPORT_BOUNDS.waiting.all }: UnderWayOptions = {}) {
    this.#running = new Shares(all);
    this.#waiting = new Shares(waiting);
  }

  /** Requests under way. */
  get running(): number {
    return this.#running.taken;
  }

  /** Requests that wait. */
  get waiting(): number {
    return this.#waiting.taken;
  }

  /**
   * Begins a request, at once or when its turn has come; {@link leave} ends it.
   * @param signal ends the waiting, with its reason
   * @throws GatewayError `too_many_requests`
   */
  enter(principal: Principal, signal: AbortSignal): Promise<void> | undefined {
    const place = placeOf(principal);
    const { org, caller } = place;
    const queue = this.#queues.get(caller);
    if (queue === undefined && this.#running.full(org, caller) === undefined) {
      this.#running.take(org, caller);
      return undefined;
    }
    const full = this.#waiting.full(org, caller);
    if (full !== undefined) throw new GatewayError('too_many_requests', MESSAGES[full]);
    return this.#wait(place, queue, signal);
  }

  /** What was begun has ended. */
  leave(principal: Principal): void {
    const { org, caller } = placeOf(principal);
    this.#running.give(org, caller);
    this.#next();
  }

  #wait(place: Place, known: Queue | undefined, signal: AbortSignal): Promise<void> {
    const { org, caller } = place;
    const queue: Queue = known ?? { ...place, waiters: new Set() };
    if (known === undefined) this.#queues.set(caller, queue);
    this.#waiting.take(org, caller);
    return new Promise((resolve, reject) => {
      const stop = (): void => {
        this.#forget(queue, waiter);
        reject(signal.reason instanceof Error ? signal.reason : new GatewayError('client_gone', 'The client left.'));
      };
      const waiter: Waiter = {
        begin: () => {
          signal.removeEventListener('abort', stop);
          resolve();
        },
      };
      queue.waiters.add(waiter);
      if (signal.aborted) stop();
      else signal.addEventListener('abort', stop, { once: true });
    });
  }

  #forget(queue: Queue, waiter: Waiter): void {
    queue.waiters.delete(waiter);
    this.#waiting.give(queue.org, queue.caller);
    if (queue.waiters.size === 0) this.#queues.delete(queue.caller);
  }

  /** Lets begin who may: of each caller one, and again while there is room for somebody. */
  #next(): void {
    for (let begun = true; begun; ) {
      begun = false;
      for (const queue of [...this.#queues.values()]) {
        const [waiter] = queue.waiters;
        if (waiter === undefined || this.#running.full(queue.org, queue.caller) !== undefined) continue;
        this.#forget(queue, waiter);
        // Behind all others, where more of it wait.
        if (this.#queues.delete(queue.caller)) this.#queues.set(queue.caller, queue);
        this.#running.take(queue.org, queue.caller);
        waiter.begin();
        begun = true;
      }
    }
  }
}

const MESSAGES: Readonly<Record<FullFor, string>> = {
  caller: 'Too many requests of this key are under way or wait for their turn; try again when some are answered.',
  org: 'Too many requests of this org are under way or wait for their turn; try again when some are answered.',
  all: 'Too many requests are under way or wait for their turn; try again soon.',
};

/**
 * The operator is no org, and neither are those who had to show nothing: each has a share as an org has, by a name that
 * none can have. All browsers of one person have one share.
 */
function placeOf({ kind, id, userId = id, orgId = kind === 'anyone' ? ' anyone' : '' }: Principal): Place {
  return { org: orgId, caller: `${orgId} ${kind} ${userId}` };
}
