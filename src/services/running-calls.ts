import type { EventBus } from '../base/events/bus.ts';
import type { QuarantineCaller, QuarantineService } from './quarantines.ts';

interface Running {
  readonly caller: QuarantineCaller;
  readonly end: () => void;
}

const NOT_WATCHED = (): void => undefined;

/** Calls under way that are ended when their caller is put into quarantine (`GW_QUARANTINE_RUNNING=end`); else nobody is watched, and nothing kept. */
export class RunningCalls {
  readonly #quarantines: Pick<QuarantineService, 'active' | 'holding'>;
  readonly #ends: boolean;
  readonly #running = new Set<Running>();

  /** @param ends false: nobody is ended, and nobody watched */
  constructor(quarantines: Pick<QuarantineService, 'active' | 'holding'>, events: Pick<EventBus, 'subscribe'>, ends: boolean) {
    this.#quarantines = quarantines;
    this.#ends = ends;
    if (ends) events.subscribe(['callerHeld'], () => this.#endHeld());
  }

  /**
   * @param end called once when the caller is held; at once when he is already
   * @returns what ends the watch
   */
  watch(caller: QuarantineCaller, end: () => void): () => void {
    if (!this.#ends) return NOT_WATCHED;
    const running = { caller, end };
    this.#running.add(running);
    // Between the question at its beginning and here it may have happened.
    if (this.#quarantines.active > 0 && this.#quarantines.holding(caller)) this.#end(running);
    return () => void this.#running.delete(running);
  }

  #endHeld(): void {
    for (const running of [...this.#running]) if (this.#quarantines.holding(running.caller)) this.#end(running);
  }

  #end(running: Running): void {
    this.#running.delete(running);
    running.end();
  }
}
