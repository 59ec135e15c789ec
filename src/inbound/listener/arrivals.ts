import { type UnrecordedEvent, unrecordedEvent } from '../../base/events/unrecorded.ts';
import type { Clock } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Arrival } from '../../base/model/arrival.ts';
import { sendError } from '../../surfaces/http/router.ts';
import type { CallPlace, Places } from './calls-under-way.ts';
import type { Holder } from './client-shares.ts';
import type { ListenerLimits } from './limits.ts';
import type { ClosedCounts } from './links.ts';
import type { OpenTunnels } from './open-tunnels.ts';

/** What both protocols need to turn exchanges into arrivals. */
export interface Arrivals {
  readonly clock: Clock;
  readonly limits: ListenerLimits;
  readonly tunnels: OpenTunnels;
  /** Of calls under way. */
  readonly places: Places;
  readonly counts: ClosedCounts;
  /** Never throws. */
  onArrival(arrival: Arrival): void;
  /** What came was answered with an error here. */
  onRefused?(event: UnrecordedEvent): void;
}

/** Answers a request that goes no further than this room. */
export function refuseArrival({ head, reply }: Pick<Arrival, 'head' | 'reply'>, error: GatewayError, { onRefused }: Arrivals): void {
  sendError({ head, reply }, error);
  onRefused?.(unrecordedEvent(error, { head }));
}

/**
 * Hands on an arrival whose address has no place for it, where it shows who it comes from and he has one; any other is
 * answered 503.
 * @param place left when the answer has left
 */
export function takeByHolder(arrival: Arrival, place: CallPlace, arrivals: Arrivals): void {
  const enterAs = (holder: Holder | 'own' | undefined): void => {
    if (arrival.reply.gone) return;
    if (holder === 'own' || (holder !== undefined && place.enterAs(holder))) arrivals.onArrival(arrival);
    else refuseArrival(arrival, noPlace(), arrivals);
  };
  const holder = arrivals.places.holderOf(arrival.head);
  if (holder instanceof Promise) holder.then(enterAs, () => enterAs(undefined));
  else enterAs(holder);
}

function noPlace(): GatewayError {
  return new GatewayError(
    'overloaded',
    'This client has its share of the calls under way (GW_MAX_TUNNELS); let some of them end, or try again in a moment.',
  );
}
