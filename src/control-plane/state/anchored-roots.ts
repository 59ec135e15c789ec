import type { Clock } from '../../base/lib/clock.ts';
import { every, type RunningJob } from '../../base/lib/every.ts';
import { messageOf } from '../../base/lib/gateway-error.ts';
import type { Logger } from '../../base/lib/log.ts';
import type { MerkleRoot } from '../../ledger/merkle-root.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import { keyIn, prefixOf } from './control-plane-spaces.ts';

/** Digits of a sequence in a key, so that keys are in order. */
const SEQUENCE_DIGITS = 15;
/** After a try that failed: from the first to the second, twice as long each time. */
const RETRY_MS = [30_000, 900_000] as const;
/** Stands for all orgs, where none of them can be tried; no org is called so. */
const ALL = '';

/** What somebody outside says of a root. */
export interface RootAnchor {
  /** Of the root. */
  readonly sequence: number;
  /** RFC 3339. */
  readonly time: string;
}

/** The newest anchor of an org. */
interface NewestAnchor extends RootAnchor {
  /** When it was stored, by our clock, milliseconds since the epoch. */
  readonly at: number;
}

/** Nothing is tried until it is over. */
interface AnchorPause {
  /** Milliseconds since the epoch. */
  readonly until: number;
  readonly lengthMs: number;
}

/** How roots are anchored. */
export interface Anchoring<A extends RootAnchor> {
  /** Milliseconds between two anchors of one org. */
  readonly intervalMs: number;
  /** Asks outside; what it answers was checked, and is kept as it is. */
  readonly anchor: (root: MerkleRoot, signal: AbortSignal) => Promise<A>;
  /** Whether an error says something of this root alone, so that others are tried at once. */
  readonly isOfOne: (error: unknown) => boolean;
}

export interface AnchoredRootsOptions<A extends RootAnchor> {
  readonly store: Pick<Store, 'commit' | 'list'>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly spaces: { readonly anchors: string; readonly heads: string };
  /** Undefined: nobody is asked, and what was anchored before is shown. */
  readonly anchoring: Anchoring<A> | undefined;
  /** What the log says. */
  readonly words: { readonly failed: string; readonly answersAgain: string; readonly broken: string };
}

/** Since the start, but for the newest. */
export interface AnchorCounts {
  readonly made: number;
  readonly failed: number;
  /** When the newest anchor of any org was stored, milliseconds since the epoch; undefined: there is none. */
  readonly newestAt: number | undefined;
}

/**
 * Has the newest root of each org anchored outside: the first at once, then one in each interval. Whoever is away there
 * delays anchors, and no root waits for one (decisions 13.17, 13.22).
 */
export class AnchoredRoots<A extends RootAnchor> {
  readonly #options: AnchoredRootsOptions<A>;
  /** Newest roots that are newer than their last anchor; what failed stands behind the others. */
  readonly #waiting = new Map<string, MerkleRoot>();
  readonly #newest = new Map<string, NewestAnchor>();
  /** After failures, by org or {@link ALL}. */
  readonly #pauses = new Map<string, AnchorPause>();
  readonly #job: RunningJob;
  readonly #ending = new AbortController();
  #made = 0;
  #failed = 0;

  private constructor(options: AnchoredRootsOptions<A>) {
    this.#options = options;
    this.#job = every(options, { everyMs: () => undefined, run: () => this.#anchorDue(), failed: options.words.broken });
  }

  /** @param newestRoots of orgs, as the store has them */
  static async open<A extends RootAnchor>(
    options: AnchoredRootsOptions<A>,
    newestRoots: AsyncIterable<MerkleRoot>,
  ): Promise<AnchoredRoots<A>> {
    const anchored = new AnchoredRoots(options);
    for (const { key, value } of await options.store.list(options.spaces.heads)) anchored.#newest.set(key, value as NewestAnchor);
    if (options.anchoring !== undefined) for await (const root of newestRoots) anchored.take(root);
    return anchored;
  }

  get counts(): AnchorCounts {
    let newestAt: number | undefined;
    for (const { at } of this.#newest.values()) newestAt = Math.max(newestAt ?? at, at);
    return { made: this.#made, failed: this.#failed, newestAt };
  }

  /** A root was signed. */
  take(root: MerkleRoot): void {
    const { anchoring } = this.#options;
    if (anchoring === undefined) return;
    this.#waiting.set(root.org_id, root);
    const waitMs = this.#waitOf(root, anchoring.intervalMs);
    if (waitMs !== undefined) this.#job.within(waitMs);
  }

  /** Anchors of an org behind the root of a sequence, in order. @param limit at least 1 */
  async list(orgId: string, after: number, limit: number): Promise<readonly A[]> {
    const page = { prefix: prefixOf(orgId), after: keyIn(orgId, digits(after)), limit };
    return (await this.#options.store.list(this.#options.spaces.anchors, page)).map(({ value }) => value as A);
  }

  async close(): Promise<void> {
    this.#ending.abort();
    await this.#job.stop();
  }

  async #anchorDue(): Promise<void> {
    const { anchoring } = this.#options;
    if (anchoring === undefined) return;
    for (const root of [...this.#waiting.values()]) {
      if (this.#ending.signal.aborted) return;
      const waitMs = this.#waitOf(root, anchoring.intervalMs);
      if (waitMs === undefined) this.#forget(root);
      if (waitMs === 0) await this.#anchor(root, anchoring);
    }
    for (const root of this.#waiting.values()) this.#job.within(this.#waitOf(root, anchoring.intervalMs) ?? 0);
  }

  /** Milliseconds until its anchor is due, and may be tried; undefined: it has one. */
  #waitOf({ org_id: orgId, sequence }: MerkleRoot, intervalMs: number): number | undefined {
    const newest = this.#newest.get(orgId);
    if (newest !== undefined && newest.sequence >= sequence) return undefined;
    const now = this.#options.clock.now();
    const waits = [ALL, orgId].map((id) => leftOf(this.#pauses.get(id), now));
    // A clock that was set back makes nobody wait longer than an interval.
    if (newest !== undefined) waits.push(leftOf({ until: newest.at + intervalMs, lengthMs: intervalMs }, now));
    return Math.max(...waits);
  }

  async #anchor(root: MerkleRoot, { anchor }: Anchoring<A>): Promise<void> {
    const { clock, log, store, words } = this.#options;
    try {
      const made = await anchor(root, this.#ending.signal);
      const newest: NewestAnchor = { sequence: made.sequence, time: made.time, at: clock.now() };
      await store.commit(undefined, this.#stored(root.org_id, made, newest));
      this.#made++;
      this.#newest.set(root.org_id, newest);
      this.#forget(root);
      if (this.#pauses.delete(ALL)) log.info({}, words.answersAgain);
      this.#pauses.delete(root.org_id);
    } catch (error) {
      if (!this.#ending.signal.aborted) this.#putOff(root, error);
    }
  }

  #putOff(root: MerkleRoot, error: unknown): void {
    const { clock, log, anchoring, words } = this.#options;
    const { org_id: orgId } = root;
    const id = anchoring?.isOfOne(error) === true ? orgId : ALL;
    const before = this.#pauses.get(id);
    this.#failed++;
    // One line for each time it breaks.
    if (before === undefined) log.warn({ err: error, org_id: orgId, reason: messageOf(error) }, words.failed);
    const [shortest, longest] = RETRY_MS;
    const lengthMs = before === undefined ? shortest : Math.min(before.lengthMs * 2, longest);
    this.#pauses.set(id, { until: clock.now() + lengthMs, lengthMs });
    // Behind the others: whoever fails for one root for ever keeps none of another org waiting.
    const latest = this.#waiting.get(orgId);
    if (latest === undefined) return;
    this.#waiting.delete(orgId);
    this.#waiting.set(orgId, latest);
  }

  /** Unless a newer root has come meanwhile. */
  #forget(root: MerkleRoot): void {
    if (this.#waiting.get(root.org_id)?.sequence === root.sequence) this.#waiting.delete(root.org_id);
  }

  #stored(orgId: string, anchor: A, newest: NewestAnchor): Effect[] {
    const { spaces } = this.#options;
    return [
      { op: 'put', space: spaces.anchors, key: keyIn(orgId, digits(anchor.sequence)), value: anchor },
      { op: 'put', space: spaces.heads, key: orgId, value: newest },
    ];
  }
}

/** Milliseconds; a clock that was set back makes it no longer than it was. */
function leftOf(pause: AnchorPause | undefined, now: number): number {
  return pause === undefined ? 0 : Math.min(pause.lengthMs, Math.max(0, pause.until - now));
}

function digits(sequence: number): string {
  return String(sequence).padStart(SEQUENCE_DIGITS, '0');
}
