import type { EventBus } from '../../base/events/bus.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { Roster, type Seat } from '../../base/lib/roster.ts';
import type { QuarantineCaller, QuarantineService } from './quarantines.ts';
import type { StoppableCall, StopService } from './stops.ts';

/** What a call under way is known by. */
export interface CallUnderWay extends StoppableCall, Omit<QuarantineCaller, 'callerIp'> {
  /** Undefined of what passes undecided: that is nobody's whom quarantine could hold. */
  readonly callerIp: string | undefined;
}

interface Running {
  readonly call: CallUnderWay;
  readonly end: (why: GatewayError) => void;
}

interface RunningOptions {
  readonly quarantines: Pick<QuarantineService, 'active' | 'holding'>;
  readonly stops: Pick<StopService, 'any' | 'holding'>;
  readonly events: Pick<EventBus, 'subscribe'>;
  /** Whether a call is ended whose caller is put into quarantine (`GW_QUARANTINE_RUNNING=end`). */
  readonly endsHeld: boolean;
}

/** Also the reason code of an answer that had begun. */
export const QUARANTINED_WHILE_RUNNING = 'quarantined_while_running';
/** Of calls that are refused, too. */
export const CALLS_STOPPED = 'stopped';

/** Calls under way, which end when a stop holds them, or their caller is put into quarantine. */
export class RunningCalls {
  readonly #options: RunningOptions;
  readonly #running = new Roster<Running>();

  constructor(options: RunningOptions) {
    this.#options = options;
    options.events.subscribe(['callsStopped'], () => this.#endHeld());
    if (options.endsHeld) options.events.subscribe(['callerHeld'], () => this.#endHeld());
  }

  /**
   * @param end called once, with what the call ends with, when it is held; at once when it is already
   * @returns what ends the watch
   */
  watch(call: CallUnderWay, end: (why: GatewayError) => void): () => void {
    const seat = this.#running.add({ call, end });
    // Between the question at its beginning and here it may have happened.
    const { stops, quarantines, endsHeld } = this.#options;
    if (stops.any || (endsHeld && quarantines.active > 0)) this.#judge(seat);
    return () => void this.#running.remove(seat);
  }

  #endHeld(): void {
    for (const seat of this.#running.seats()) this.#judge(seat);
  }

  #judge(seat: Seat<Running>): void {
    const { call, end } = seat.value;
    const why = this.#whyHeld(call);
    if (why !== undefined && this.#running.remove(seat)) end(why);
  }

  #whyHeld(call: CallUnderWay): GatewayError | undefined {
    const { stops, quarantines, endsHeld } = this.#options;
    const stop = stops.any ? stops.holding(call) : undefined;
    if (stop !== undefined) return new GatewayError(CALLS_STOPPED, `This call was stopped while it was under way: ${stop.reason}`);
    const { orgId, workloadId, callerId, callerIp } = call;
    if (!endsHeld || callerIp === undefined || !quarantines.holding({ orgId, workloadId, callerId, callerIp })) return undefined;
    return new GatewayError(QUARANTINED_WHILE_RUNNING, 'The caller was put into quarantine while this call was under way.');
  }
}
