import type { Clock } from '../../base/lib/clock.ts';
import { every, type RunningJob } from '../../base/lib/every.ts';
import { GatewayError, messageOf } from '../../base/lib/gateway-error.ts';
import type { Logger } from '../../base/lib/log.ts';
import { CONTROL_PLANE_BOUNDS } from '../../base/model/control-plane-bounds.ts';
import type { ConsistencyProof } from '../../ledger/consistency-proof.ts';
import type { MerkleRoot } from '../../ledger/merkle-root.ts';
import type { LeafPlace } from '../../storage/contract/leaves.ts';
import type { Store } from '../../storage/contract/store.ts';
import { cutsOf, type Inclusion, newestRootOf, OrgLedger, type RootSigners, rootsOf, signedLeaves } from '../ledger/org-ledger.ts';
import { dueRestore, type RestoreDeclaration } from '../ledger/restore-declaration.ts';

/**
 * So many ledgers may be open, beside those that are in use or have hashes without a root; the one that was used least
 * recently is closed.
 */
export const MOST_OPEN_LEDGERS = CONTROL_PLANE_BOUNDS.openLedgers.all;
/** A ledger that nobody has used for so long is closed. */
const IDLE_MS = 600_000;
/**
 * A ledger that could not be opened is not tried again before: its whole file is read for that. Twice as long each
 * time, from the first to the second.
 */
const ASIDE_MS = [1_000, 60_000] as const;
/** By org: the newest root that a gateway has shown. */
const BEHIND = 'ledger_behind';
/** How often it is looked which could be closed: while there are too many, and otherwise. */
const LOOK_AGAIN_MS = { crowded: 1_000, otherwise: 60_000 };

const BEHIND_TEXT =
  'The ledger is an older copy of what was signed: nothing is taken until the restore is declared (gw control-plane restored).';

interface Shown {
  readonly sequence: number;
}

export interface OrgLedgersOptions {
  readonly store: Store;
  readonly place: LeafPlace;
  readonly signers: RootSigners;
  readonly clock: Clock;
  readonly log: Logger;
  /** That the data of the control plane were restored; undefined: nobody has said so. */
  readonly restore?: RestoreDeclaration | undefined;
  /** Told of each root when it is stored. */
  readonly signed?: (root: MerkleRoot) => void;
}

/** A ledger that is open or about to be. */
interface OpenLedger {
  readonly opening: Promise<OrgLedger>;
  ledger: OrgLedger | undefined;
  /** Calls that are under way. */
  users: number;
  /** Monotonic. */
  usedAt: number;
}

/**
 * The ledgers of all orgs. One is opened when it is asked for, and closed when nobody has used it for ten minutes; at
 * the start only those are opened whose leaves have no root yet, or that are not what they should be. A bounded number
 * is open at a time.
 */
export class OrgLedgers {
  readonly #options: OrgLedgersOptions;
  /** The least recently used comes first. */
  readonly #open = new Map<string, OpenLedger>();
  /** Each file has one writer: who wants a ledger that is being closed waits for its end. */
  readonly #closing = new Map<string, Promise<void>>();
  /** Those that could not be opened, and until when they are not tried again, monotonic. */
  readonly #aside = new Map<string, { readonly until: number; readonly pause: number; readonly why: string }>();
  readonly #job: RunningJob;
  /** Orgs whose gateways have shown a root that is newer than all that is here, and its sequence (decision 13.23). */
  readonly #behind = new Map<string, number>();
  #closed = false;

  private constructor(options: OrgLedgersOptions) {
    this.#options = options;
    this.#job = every(options, {
      everyMs: () => this.#lookAgainMs(),
      run: () => this.#closeUnused(),
      failed: 'ledgers that nobody uses could not be closed',
    });
  }

  static async open(options: OrgLedgersOptions, orgIds: readonly string[]): Promise<OrgLedgers> {
    const ledgers = new OrgLedgers(options);
    const { place, store } = options;
    for (const orgId of orgIds) await ledgers.#rememberBehind(orgId);
    for (const orgId of orgIds) {
      try {
        const signed = await signedLeaves(store, orgId);
        const isThere = await place.has(orgId);
        const isDue = signed > 0 && (await ledgers.#isRestoreDue(orgId));
        if (!isDue && (isThere ? !(await place.differs(orgId, signed)) : signed === 0)) continue;
        // Before anybody can ask: a restore that nothing shows looks like a fork.
        await ledgers.#with(orgId, (ledger) => (isDue ? ledger.closeSoon() : Promise.resolve()));
      } catch (error) {
        // Of this org alone: the others are served, and so is everything else of it.
        ledgers.#setAside(orgId, error);
      }
    }
    return ledgers;
  }

  /** When the restore that the ledgers take up was declared, milliseconds since the epoch; undefined: none was. */
  get restoredAt(): number | undefined {
    const { restore } = this.#options;
    return restore === undefined ? undefined : Date.parse(restore.at);
  }

  /** The newest root of an org, and the one of its last restore; undefined: there is none. Also of one set aside. */
  async ends(orgId: string): Promise<{ readonly newest: MerkleRoot | undefined; readonly restore: MerkleRoot | undefined }> {
    const { store } = this.#options;
    const cut = (await cutsOf(store, orgId)).at(-1);
    const [restore] = cut === undefined ? [] : await rootsOf(store, orgId, cut.sequence - 1, 1);
    return { newest: await newestRootOf(store, orgId), restore };
  }

  /**
   * A gateway has shown a root that this control plane has signed. One that is newer than all that is here proves that
   * the data, of all orgs, are an older copy: nothing is signed until somebody declares that.
   * @param root whose signature was checked
   */
  async shown(orgId: string, { sequence }: MerkleRoot): Promise<void> {
    const { store, log } = this.#options;
    const newest = (await newestRootOf(store, orgId))?.sequence ?? 0;
    if (sequence <= Math.max(newest, this.#behind.get(orgId) ?? 0)) return;
    if (this.#behind.size === 0)
      log.error(
        { org_id: orgId, newest_sequence: newest, shown_sequence: sequence },
        'a gateway has shown a root that this control plane has signed and does not have: its data folder is an older copy. Nothing is signed, for no org, until it is stopped, the restore is declared (gw control-plane restored), and it is started again',
      );
    this.#behind.set(orgId, sequence);
    await store.commit(undefined, [{ op: 'put', space: BEHIND, key: orgId, value: { sequence } satisfies Shown }]);
  }

  /** Orgs whose gateways know a newer root than there is here. */
  get behindCount(): number {
    return this.#behind.size;
  }

  /** Whether somebody has shown that the data are an older copy. */
  get isBehind(): boolean {
    return this.#behind.size > 0;
  }

  /** What was shown before this start, unless a restore that was declared since goes on behind it. */
  async #rememberBehind(orgId: string): Promise<void> {
    const { store, restore } = this.#options;
    const shown = ((await store.get(BEHIND, orgId)) as Shown | undefined)?.sequence;
    if (shown === undefined) return;
    const newest = (await newestRootOf(store, orgId))?.sequence ?? 0;
    const due = dueRestore(restore, newest, await cutsOf(store, orgId));
    if ((due?.sequence ?? newest) < shown) this.#behind.set(orgId, shown);
  }

  async #isRestoreDue(orgId: string): Promise<boolean> {
    const { store, restore } = this.#options;
    return restore !== undefined && dueRestore(restore, 0, await cutsOf(store, orgId)) !== undefined;
  }

  /** Ledgers that could not be opened. */
  get asideCount(): number {
    return this.#aside.size;
  }

  /** Hashes of all orgs that are under no root yet. */
  get pending(): number {
    let pending = 0;
    for (const { ledger } of this.#open.values()) pending += ledger?.pending ?? 0;
    return pending;
  }

  /** How many are open. */
  get openCount(): number {
    return this.#open.size;
  }

  /** Takes hashes of 32 bytes; when it has resolved they are never forgotten. */
  async submit(orgId: string, hashes: readonly Uint8Array[]): Promise<void> {
    if (this.isBehind) throw new GatewayError('record_store_unavailable', BEHIND_TEXT);
    return this.#with(orgId, (ledger) => ledger.submit(hashes));
  }

  async inclusion(orgId: string, hash: Uint8Array): Promise<Inclusion> {
    if (!(await this.#exists(orgId))) return { status: 'unknown' };
    return this.#with(orgId, (ledger) => ledger.inclusion(hash));
  }

  /** @param first at most `second` @throws GatewayError as {@link OrgLedger.consistency} */
  async consistency(orgId: string, first: number, second: number): Promise<ConsistencyProof> {
    if (!(await this.#exists(orgId))) throw new GatewayError('not_found', `There is no root of the org ${orgId} yet.`);
    return this.#with(orgId, (ledger) => ledger.consistency(first, second));
  }

  /** Also of a ledger that is set aside. */
  roots(orgId: string, after: number, limit: number): Promise<readonly MerkleRoot[]> {
    return rootsOf(this.#options.store, orgId, after, limit);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#job.stop();
    for (const { opening } of this.#open.values()) await opening.then((ledger) => ledger.close()).catch(() => undefined);
    await Promise.all(this.#closing.values());
  }

  /** Who only asks makes no file. */
  async #exists(orgId: string): Promise<boolean> {
    return this.#open.has(orgId) || (await signedLeaves(this.#options.store, orgId)) > 0 || (await this.#options.place.has(orgId));
  }

  /** Does something with the ledger of an org, which stays open meanwhile. */
  async #with<T>(orgId: string, use: (ledger: OrgLedger) => Promise<T>): Promise<T> {
    if (this.#closed) throw new GatewayError('shutting_down', 'The control plane is stopping; try again.');
    const aside = this.#aside.get(orgId);
    if (aside !== undefined && this.#options.clock.monotonic() < aside.until) throw setAside(orgId, aside.why);
    const one = this.#open.get(orgId) ?? this.#begin(orgId);
    one.users++;
    // Behind all others.
    this.#open.delete(orgId);
    this.#open.set(orgId, one);
    try {
      return await use(await this.#opened(orgId, one));
    } finally {
      one.users--;
      one.usedAt = this.#options.clock.monotonic();
      // The next one who asks tries again.
      if (one.ledger === undefined && this.#open.get(orgId) === one) this.#open.delete(orgId);
      if (one.ledger?.isBroken === true && one.users === 0 && this.#open.get(orgId) === one) this.#closeOne(orgId, one.ledger);
      this.#closeUnused();
    }
  }

  /** @throws GatewayError `record_store_unavailable` for one that cannot be opened */
  async #opened(orgId: string, { opening }: OpenLedger): Promise<OrgLedger> {
    let ledger: OrgLedger;
    try {
      ledger = await opening;
    } catch (error) {
      this.#setAside(orgId, error);
      throw setAside(orgId, messageOf(error), error);
    }
    if (this.#aside.delete(orgId)) this.#options.log.info({ org_id: orgId }, 'the ledger of an org that was set aside is served again');
    return ledger;
  }

  #setAside(orgId: string, error: unknown): void {
    if (this.#closed) return;
    const cause = error instanceof GatewayError && error.cause !== undefined ? error.cause : error;
    const why = messageOf(cause);
    const before = this.#aside.get(orgId);
    if (before?.why !== why)
      this.#options.log.error(
        { err: cause, org_id: orgId, reason: why },
        'the ledger of an org cannot be opened and is set aside: its hashes wait at its gateways, and all else goes on. It is tried again when it is asked for',
      );
    const [shortest, longest] = ASIDE_MS;
    const pause = before === undefined ? shortest : Math.min(before.pause * 2, longest);
    this.#aside.set(orgId, { until: this.#options.clock.monotonic() + pause, pause, why });
  }

  #begin(orgId: string): OpenLedger {
    const opening = (this.#closing.get(orgId) ?? Promise.resolve()).then(() => this.#openOne(orgId));
    const one: OpenLedger = { opening, ledger: undefined, users: 0, usedAt: this.#options.clock.monotonic() };
    opening.then(
      (ledger) => {
        one.ledger = ledger;
      },
      // Told by whoever waits for it.
      () => undefined,
    );
    return one;
  }

  async #openOne(orgId: string): Promise<OrgLedger> {
    const { store, place, signers, clock, log, restore, signed } = this.#options;
    const leaves = await place.open(orgId, await signedLeaves(store, orgId));
    try {
      return await OrgLedger.open({
        orgId,
        store,
        leaves,
        signers,
        clock,
        log,
        restore,
        isHeld: () => this.isBehind,
        ...(signed && { signed }),
      });
    } catch (error) {
      await leaves.close();
      throw error;
    }
  }

  /** Closes those that are too many or too long unused, and looks again while there are any. */
  #closeUnused(): void {
    const now = this.#options.clock.monotonic();
    for (const [orgId, one] of this.#open) {
      if (this.#open.size <= MOST_OPEN_LEDGERS && now - one.usedAt < IDLE_MS) break;
      if (one.users === 0 && one.ledger?.pending === 0) this.#closeOne(orgId, one.ledger);
    }
    const ms = this.#lookAgainMs();
    if (ms !== undefined) this.#job.within(ms);
  }

  #lookAgainMs(): number | undefined {
    if (this.#open.size === 0) return undefined;
    return LOOK_AGAIN_MS[this.#open.size > MOST_OPEN_LEDGERS ? 'crowded' : 'otherwise'];
  }

  #closeOne(orgId: string, ledger: OrgLedger): void {
    this.#open.delete(orgId);
    const over = ledger
      .close()
      .catch((error: unknown) => this.#options.log.warn({ err: error, org_id: orgId }, 'the ledger of an org was not closed in order'))
      .finally(() => this.#closing.delete(orgId));
    this.#closing.set(orgId, over);
  }
}

function setAside(orgId: string, why: string, cause?: unknown): GatewayError {
  return new GatewayError('record_store_unavailable', `The ledger of the org ${orgId} is set aside: ${why}`, { cause });
}
