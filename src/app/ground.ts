import type { CatalogueInForce } from '../base/catalogue/catalogue-in-force.ts';
import type { EventBus } from '../base/events/bus.ts';
import type { Destination } from '../base/events/destination.ts';
import type { Clock } from '../base/lib/clock.ts';
import type { Logger } from '../base/lib/log.ts';
import type { SecretBox } from '../base/lib/secret-box.ts';
import type { ClockWatch } from '../services/keeper/clock-watch.ts';
import type { Leases } from '../services/keeper/lease.ts';
import type { Allowance } from '../services/money/allowance.ts';
import type { Store } from '../storage/contract/store.ts';
import type { Cluster } from '../storage/drivers/open-store.ts';
import type { WaysOut } from './ways-out.ts';

/** What services stand on. */
export interface Ground {
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: EventBus;
  readonly store: Store;
  /** Undefined where this gateway is the only one that has its store. */
  readonly cluster: Cluster | undefined;
  readonly catalogues: CatalogueInForce;
  /** Encrypts what is secret at rest. */
  readonly box: SecretBox;
  readonly clockWatch: ClockWatch;
  readonly leases: Leases;
  /** The name of this process as one that writes to the store. */
  readonly writer: string;
  /** Where durable events go, beside channels and destinations that people have made. */
  readonly destinations: readonly Destination[];
  /** Stands before the allowance of this process. */
  readonly allowance?: ((opened: Allowance) => Allowance) | undefined;
  readonly waysOut: WaysOut;
}
