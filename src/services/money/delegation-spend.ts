import { CONTROL_BOUNDS } from '../../base/model/org-bounds.ts';
import { delegationSpendKey, SPEND_DELEGATION } from '../../storage/contract/counter-spaces.ts';
import type { Store } from '../../storage/contract/store.ts';
import type { DelegationCap } from './allowance.ts';
import type { CapHolding } from './cap-holding.ts';

/** Delegations of which nothing is under way that are remembered all the same. */
const MAX_IDLE: number = CONTROL_BOUNDS.idleDelegations.all;

/** Name of the window of a delegation's budget: it begins at 0 and never ends. */
export const LIFE = 'life';

/**
 * What was spent under one delegation over its life, and what calls that are under way have set aside. Pico-dollars.
 */
export class DelegationSpend {
  settled: bigint;
  reserved = 0n;
  /** Reservations that are neither settled nor given back. */
  open = 0;
  /** Of what is settled, the part whose records are not stored yet. */
  unstored = 0n;
  /** What this node holds of it, where nodes share caps. */
  shared: CapHolding | undefined;

  constructor(settled: bigint) {
    this.settled = settled;
  }

  /** What was spent under it by all nodes. */
  get spent(): bigint {
    return this.shared === undefined ? this.settled : this.settled + this.shared.elsewhere(LIFE, 0);
  }

  /** Whichever hour it is: it counts for the whole life. */
  add(_hour: number, pico: bigint): void {
    if (this.shared !== undefined) this.shared.count(pico);
    this.settled += pico;
  }

  /** All of it is in the store. */
  get isIdle(): boolean {
    return this.open === 0 && this.unstored === 0n && this.shared === undefined;
  }
}

/**
 * Spend of delegations, read from the counter that is committed with the records when one is first used: there may be
 * many, and each is used for a while. What calls under way hold stays in memory, so that a counter is only read while
 * nobody adds to it.
 */
export class DelegationBook {
  readonly #store: Pick<Store, 'counter'>;
  readonly #known = new Map<string, DelegationSpend>();
  readonly #loading = new Map<string, Promise<unknown>>();
  #sweepAt = MAX_IDLE;

  constructor(store: Pick<Store, 'counter'>) {
    this.#store = store;
  }

  /** Undefined: nobody has asked for it yet, and nothing is under way. */
  find(orgId: string, delegationId: string): DelegationSpend | undefined {
    return this.#known.get(delegationSpendKey(orgId, delegationId));
  }

  /** @returns a promise while the store has to be asked for one of them; undefined when all are known */
  load(orgId: string, caps: readonly DelegationCap[]): Promise<unknown> | undefined {
    const missing = caps.map(({ delegationId }) => delegationSpendKey(orgId, delegationId)).filter((key) => !this.#known.has(key));
    return missing.length === 0 ? undefined : Promise.all(missing.map((key) => this.#loading.get(key) ?? this.#read(key)));
  }

  #read(key: string): Promise<unknown> {
    const read = this.#store
      .counter(SPEND_DELEGATION, key)
      .then(({ cost_pico: spent = 0n }) => {
        if (this.#known.size >= this.#sweepAt) this.#sweep();
        this.#known.set(key, new DelegationSpend(spent));
      })
      .finally(() => this.#loading.delete(key));
    this.#loading.set(key, read);
    return read;
  }

  #sweep(): void {
    for (const [key, spend] of this.#known) if (spend.isIdle) this.#known.delete(key);
    this.#sweepAt = Math.max(MAX_IDLE, this.#known.size * 2);
  }
}
