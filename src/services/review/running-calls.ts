import type { EventBus } from '../../base/events/bus.ts';
import { Roster, type Seat } from '../../base/lib/roster.ts';
import type { QuarantineCaller, QuarantineService } from './quarantines.ts';

interface Running {
  readonly caller: QuarantineCaller;
  readonly end: () => void;
}

const NOT_WATCHED = (): void => undefined;

/**
 * Calls under way that are ended when their caller is put into quarantine (`GW_QUARANTINE_RUNNING=end`); else nobody is
 * watched, and nothing kept.
 */
export class RunningCalls {
  readonly #quarantines: Pick<QuarantineService, 'active' | 'holding'>;
  readonly #ends: boolean;
  readonly #running = new Roster<Running>();

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
    const seat = this.#running.add({ caller, end });
    // Between the question at its beginning and here it may have happened.
    if (this.#quarantines.active > 0 && this.#quarantines.holding(caller)) this.#end(seat);
    return () => void this.#running.remove(seat);
  }

  #endHeld(): void {
    for (const seat of this.#running.seats()) if (this.#quarantines.holding(seat.value.caller)) this.#end(seat);
  }

  #end(seat: Seat<Running>): void {
    this.#running.remove(seat);
    seat.value.end();
  }
}
