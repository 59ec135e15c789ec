import type { Clock } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Logger } from '../../base/lib/log.ts';
import type { MerkleRoot } from '../../ledger/merkle-root.ts';
import type { Leaves } from '../../storage/contract/leaves.ts';
import type { Store } from '../../storage/contract/store.ts';
import { type Inclusion, OrgLedger, type RootSigner, signedLeaves } from '../ledger/org-ledger.ts';

/** Where the leaves of orgs are. */
export interface LeafPlace {
  /** Whether an org has ever handed in a leaf. */
  has(orgId: string): Promise<boolean>;
  /** @param atLeast so many have been signed for @throws Error when fewer can be read */
  open(orgId: string, atLeast: number): Promise<Leaves>;
}

export interface OrgLedgersOptions {
  readonly store: Store;
  readonly place: LeafPlace;
  readonly signer: RootSigner;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The ledgers of all orgs; one is opened when it is first asked for, and those that have leaves at the start, so that what waits there gets its root. */
export class OrgLedgers {
  readonly #options: OrgLedgersOptions;
  readonly #opening = new Map<string, Promise<OrgLedger>>();
  readonly #open = new Set<OrgLedger>();
  #closed = false;

  private constructor(options: OrgLedgersOptions) {
    this.#options = options;
  }

  static async open(options: OrgLedgersOptions, orgIds: readonly string[]): Promise<OrgLedgers> {
    const ledgers = new OrgLedgers(options);
    try {
      for (const orgId of orgIds) if (await options.place.has(orgId)) await ledgers.#ledger(orgId);
    } catch (error) {
      await ledgers.close();
      throw error;
    }
    return ledgers;
  }

  /** Hashes of all orgs that are under no root yet. */
  get pending(): number {
    let pending = 0;
    for (const ledger of this.#open) pending += ledger.pending;
    return pending;
  }

  /** Takes hashes of 32 bytes; when it has resolved they are never forgotten. */
  async submit(orgId: string, hashes: readonly Uint8Array[]): Promise<void> {
    await (await this.#ledger(orgId)).submit(hashes);
  }

  async inclusion(orgId: string, hash: Uint8Array): Promise<Inclusion> {
    return (await this.#existing(orgId))?.inclusion(hash) ?? { status: 'unknown' };
  }

  async roots(orgId: string, after: number, limit: number): Promise<readonly MerkleRoot[]> {
    return (await this.#existing(orgId))?.roots(after, limit) ?? [];
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const opening of this.#opening.values()) await opening.then((ledger) => ledger.close()).catch(() => undefined);
  }

  /** Who only asks makes no file. */
  async #existing(orgId: string): Promise<OrgLedger | undefined> {
    if (!this.#opening.has(orgId) && !(await this.#options.place.has(orgId))) return undefined;
    return this.#ledger(orgId);
  }

  #ledger(orgId: string): Promise<OrgLedger> {
    if (this.#closed) return Promise.reject(new GatewayError('shutting_down', 'The control plane is stopping; try again.'));
    const known = this.#opening.get(orgId);
    if (known !== undefined) return known;
    const opening = this.#openOne(orgId);
    this.#opening.set(orgId, opening);
    // The next one who asks tries again.
    opening.catch(() => this.#opening.delete(orgId));
    return opening;
  }

  async #openOne(orgId: string): Promise<OrgLedger> {
    const { store, place, signer, clock, log } = this.#options;
    const leaves = await place.open(orgId, await signedLeaves(store, orgId));
    try {
      const ledger = await OrgLedger.open({ orgId, store, leaves, signer, clock, log });
      this.#open.add(ledger);
      return ledger;
    } catch (error) {
      await leaves.close();
      throw error;
    }
  }
}
