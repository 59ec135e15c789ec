import type { Clock } from '../../base/lib/clock.ts';
import type { Logger } from '../../base/lib/log.ts';
import { Lru } from '../../base/lib/lru.ts';
import { SealError, type Sealed, type SecretBox } from '../../base/lib/secret-box.ts';
import { Shares } from '../../base/lib/shares.ts';
import { CONTROL_BOUNDS } from '../../base/model/org-bounds.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import { counterPages, entityPages } from '../../storage/contract/store-pages.ts';
import { unlessConflict } from '../registers/commit.ts';
import { ALL_LAID_DOWN, type LaidDown, type ShareCaller, sharerOf } from '../registers/sharers.ts';

const CALLS = 'idempotent_call';
/** Entities of this space are sealed texts. */
export const RESULTS = 'idempotent_result';
const EXPIRY = 'idempotent_expiry';
/** How long a key is remembered (decision 6.7). */
const KEEP_MS = 24 * 3_600_000;
const SWEEP_EVERY_MS = 10 * 60_000;
const SWEPT_AT_ONCE = 500;
/** How much an org has of both, by its name: counted in the commits that keep and remove. */
const KEPT = 'idempotent_kept';
/** A full share is told of once in so long. */
const TELL_EVERY_MS = 60_000;
/** Keys whose first result must not be replaced by that of a call that ran at the same time. */
const RECENT_KEYS = 10_000;
/** Digits of a time in a key, so that keys sort by it. */
const TIME_DIGITS = 15;

/** What a caller was answered, apart from the record. */
export interface KeptCall {
  readonly record_id: string;
  /**
   * SHA-256 of the action as it was received, and of the place where it goes: what was executed belongs to it alone.
   */
  readonly action_hash: string;
  /**
   * Of a refusal: SHA-256 of all of the request, which alone is told it again. Absent in refusals from before it was
   * kept, which are told nobody.
   */
  readonly whole_hash?: string;
  /** Of the answer to the caller. */
  readonly status: number;
  /** Milliseconds since the epoch. */
  readonly expires_at: number;
  /** Members of the decision trace that the record does not have. */
  readonly trace: Readonly<Record<string, string>>;
  /** Undefined for a refusal. */
  readonly result?: KeptResult;
  /** What a refusal says beside its reason. */
  readonly detail?: { readonly path: string; readonly message: string };
}

export interface KeptResult {
  readonly upstream_status: number;
  readonly content_type: string;
  /** The raw event stream, not the body of an envelope. */
  readonly stream: boolean;
  /** False when it was larger than is kept. */
  readonly whole: boolean;
}

interface Recent {
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
  readonly isExecuted: boolean;
  readonly places: Places;
}

/** What one kept key takes. JSON data. */
interface Places {
  /** The org whose share it takes. */
  readonly share: string;
  /** Who has it of that share; absent in what a version before shares of callers has kept. */
  readonly caller?: string;
  readonly bytes: number;
}

export interface IdempotencyOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly box: SecretBox;
  /** False while the clock is in doubt: then nothing is removed for its age. */
  readonly mayExpire?: () => boolean;
  /**
   * Which orgs and workloads somebody has laid down: those that nobody has share one part of the places. Default: all.
   */
  readonly known?: LaidDown;
  readonly maxKeys?: number;
  readonly maxBytes?: number;
}

/**
 * Answers of calls with an idempotency key, kept for 24 h; the provider's text only encrypted, and apart from the
 * record (decision 6.7).
 */
export class IdempotencyService {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #box: SecretBox;
  readonly #mayExpire: () => boolean;
  readonly #known: LaidDown;
  readonly #keys: Shares;
  readonly #bytes: Shares;
  /** Monotonic milliseconds. */
  #toldAt = Number.NEGATIVE_INFINITY;
  readonly #recent = new Lru<string, Recent>({ max: RECENT_KEYS });
  #cancelSweep: () => void = () => undefined;
  /** Ends when it is known what each caller has from before the start. Fails never. */
  #naming: Promise<void> = Promise.resolve();
  #closed = false;

  private constructor(options: IdempotencyOptions) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#log = options.log;
    this.#box = options.box;
    this.#mayExpire = options.mayExpire ?? (() => true);
    this.#known = options.known ?? ALL_LAID_DOWN;
    this.#keys = new Shares(options.maxKeys ?? CONTROL_BOUNDS.idempotencyKeys.all);
    this.#bytes = new Shares(options.maxBytes ?? CONTROL_BOUNDS.idempotentBytes.all);
  }

  /** Reads how much each org has. @throws Error when the store cannot be read */
  static async open(options: IdempotencyOptions): Promise<IdempotencyService> {
    const service = new IdempotencyService(options);
    for await (const page of counterPages(options.store, KEPT)) {
      for (const { key, amounts } of page) {
        const share = decodeURIComponent(key);
        service.#keys.take(share, undefined, Number(amounts['keys'] ?? 0n));
        service.#bytes.take(share, undefined, Number(amounts['bytes'] ?? 0n));
      }
    }
    service.#naming = service
      .#nameCallers(options.clock.now() + KEEP_MS)
      .catch((error: unknown) =>
        options.log.warn(
          { err: error },
          'who has kept idempotent answers before the start could not be read; shares of callers count from now on',
        ),
      );
    service.#sweepLater();
    return service;
  }

  /** The answer that is kept for a key of an org; undefined when there is none, or its time is over. */
  async find(orgId: string, key: string): Promise<KeptCall | undefined> {
    const kept = (await this.#store.get(CALLS, entityKey(orgId, key))) as KeptCall | undefined;
    return kept && kept.expires_at > this.#clock.now() ? kept : undefined;
  }

  /** The provider's bytes of a kept call; undefined when they were not kept, or cannot be read any more. */
  async result(orgId: string, key: string): Promise<Buffer | undefined> {
    const at = entityKey(orgId, key);
    const sealed = (await this.#store.get(RESULTS, at)) as Sealed | undefined;
    if (sealed === undefined) return undefined;
    try {
      return this.#box.open(sealed, resultContext(at));
    } catch (error) {
      if (!(error instanceof SealError)) throw error;
      this.#log.warn({ err: error }, 'the kept result of an idempotent call cannot be read');
      return undefined;
    }
  }

  /**
   * What is committed with the record of a call. Of calls that ran at the same time with one key the first one that was
   * executed counts; of refusals, which have executed nothing, the last. Where the share of an org, or of this caller
   * in it, is full of bytes, that it was executed is kept and its answer is not; where it is full of keys nothing is
   * (decision 7.12).
   */
  keep(who: ShareCaller, key: string, call: Omit<KeptCall, 'expires_at'>, result: Uint8Array | undefined): readonly Effect[] {
    const { orgId } = who;
    const at = entityKey(orgId, key);
    const now = this.#clock.now();
    const first = this.#recent.get(at);
    if (first?.isExecuted === true && first.expiresAt > now) return [];
    const { org: share, caller } = sharerOf(who, this.#known);
    if (this.#keys.full(share, caller) !== undefined) {
      this.#tellFull(share, caller);
      return [];
    }
    const isWhole = result !== undefined && this.#bytes.full(share, caller, result.byteLength) === undefined;
    if (result !== undefined && !isWhole) this.#tellFull(share, caller);
    const places: Places = { share, caller, bytes: isWhole ? result.byteLength : 0 };
    const expiresAt = now + KEEP_MS;
    this.#recent.set(at, { expiresAt, isExecuted: call.result !== undefined, places });
    this.#take(places);
    const told = isWhole || call.result === undefined ? call.result : { ...call.result, whole: false };
    const value: KeptCall = { ...call, ...(told === undefined ? {} : { result: told }), expires_at: expiresAt };
    const effects: Effect[] = [
      { op: 'put', space: CALLS, key: at, value },
      { op: 'put', space: EXPIRY, key: `${String(expiresAt).padStart(TIME_DIGITS, '0')}|${at}`, value: places },
      { op: 'add', space: KEPT, key: encodeURIComponent(share), amounts: { keys: 1n, bytes: BigInt(places.bytes) } },
    ];
    if (isWhole) effects.push({ op: 'put', space: RESULTS, key: at, value: this.#box.seal(result, resultContext(at)) });
    return effects;
  }

  /**
   * Names the callers of what the orgs have from before the start.
   * @param until of which time the last of it is over, epoch milliseconds
   */
  async #nameCallers(until: number): Promise<void> {
    for await (const page of entityPages(this.#store, EXPIRY)) {
      for (const { key, value } of page) {
        if (this.#closed || Number(key.slice(0, TIME_DIGITS)) > until) return;
        const { share, caller, bytes } = value as Partial<Places>;
        if (share === undefined || caller === undefined) continue;
        this.#keys.name(share, caller);
        this.#bytes.name(share, caller, bytes);
      }
    }
  }

  #take({ share, caller, bytes }: Places): void {
    this.#keys.take(share, caller);
    this.#bytes.take(share, caller, bytes);
  }

  #give({ share, caller, bytes }: Places): void {
    this.#keys.give(share, caller);
    this.#bytes.give(share, caller, bytes);
  }

  #tellFull(share: string, caller: string): void {
    const now = this.#clock.monotonic();
    if (now - this.#toldAt < TELL_EVERY_MS) return;
    this.#toldAt = now;
    this.#log.warn(
      { org_id: share, caller },
      'an org, or this caller of it, has as many idempotent answers as are kept for a day; further ones are not kept',
    );
  }

  /** What {@link keep} returned could not be stored: the next answer is kept. */
  forget(orgId: string, key: string): void {
    const at = entityKey(orgId, key);
    const recent = this.#recent.peek(at);
    if (recent !== undefined) this.#give(recent.places);
    this.#recent.delete(at);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelSweep();
    await this.#naming;
  }

  #sweepLater(): void {
    this.#cancelSweep = this.#clock.after(SWEEP_EVERY_MS, () => {
      this.sweep()
        .catch((error: unknown) => this.#log.warn({ err: error }, 'old idempotency keys could not be removed'))
        .finally(() => this.#sweepLater());
    });
  }

  /** Removes what is older than 24 h. */
  async sweep(): Promise<void> {
    if (!this.#mayExpire()) return;
    // What is removed before its caller is named would be named for good.
    await this.#naming;
    for (;;) {
      const oldest = await this.#store.entities(EXPIRY, { limit: SWEPT_AT_ONCE });
      const over = oldest.filter(({ key }) => Number(key.slice(0, TIME_DIGITS)) <= this.#clock.now());
      const effects: Effect[] = [];
      for (const { key } of over) effects.push({ op: 'delete', space: EXPIRY, key }, ...(await this.#removal(key.slice(TIME_DIGITS + 1))));
      // What a version before shares has kept was not counted.
      const places = over.flatMap(({ value }) => (value === true ? [] : [value as Places]));
      effects.push(
        ...places.map(({ share, bytes }): Effect => {
          return { op: 'add', space: KEPT, key: encodeURIComponent(share), amounts: { keys: -1n, bytes: -BigInt(bytes) } };
        }),
      );
      const expect = over.map(({ key, version }) => ({ space: EXPIRY, key, version }));
      // Else another sweep, here or at another writer, has taken them: each is given back once.
      if (effects.length > 0 && !(await unlessConflict(this.#store.commit(undefined, effects, expect)))) return;
      for (const one of places) this.#give(one);
      if (over.length < SWEPT_AT_ONCE) return;
    }
  }

  /** Nothing where the key has been used again since: the answer that it has now stays for its own 24 h. */
  async #removal(at: string): Promise<readonly Effect[]> {
    const kept = (await this.#store.get(CALLS, at)) as KeptCall | undefined;
    if (kept !== undefined && kept.expires_at > this.#clock.now()) return [];
    return [
      { op: 'delete', space: CALLS, key: at },
      { op: 'delete', space: RESULTS, key: at },
    ];
  }
}

/** Ids are visible ASCII (decision 4.7); encoded, so that the separator only ever separates. */
function entityKey(orgId: string, key: string): string {
  return `${encodeURIComponent(orgId)}|${encodeURIComponent(key)}`;
}

/** Where a sealed result belongs. */
export function resultContext(entity: string): string {
  return `idempotent:${entity}`;
}
