import type { Clock } from '../base/lib/clock.ts';
import type { Logger } from '../base/lib/log.ts';
import { Lru } from '../base/lib/lru.ts';
import { SealError, type Sealed, type SecretBox } from '../base/lib/secret-box.ts';
import type { Effect, Store } from '../storage/contract/store.ts';

const CALLS = 'idempotent_call';
/** Entities of this space are sealed texts. */
export const RESULTS = 'idempotent_result';
const EXPIRY = 'idempotent_expiry';
/** How long a key is remembered (decision 6.7). */
const KEEP_MS = 24 * 3_600_000;
const SWEEP_EVERY_MS = 10 * 60_000;
const SWEPT_AT_ONCE = 500;
/** Keys whose first result must not be replaced by that of a call that ran at the same time. */
const RECENT_KEYS = 10_000;
/** Digits of a time in a key, so that keys sort by it. */
const TIME_DIGITS = 15;

/** What a caller was answered, apart from the record. */
export interface KeptCall {
  readonly record_id: string;
  /** SHA-256 of the action as it was received, and of the place where it goes: what was executed belongs to it alone. */
  readonly action_hash: string;
  /** Of a refusal: SHA-256 of all of the request, which alone is told it again. Absent in refusals from before it was kept, which are told nobody. */
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
}

/** Answers of calls with an idempotency key, kept for 24 h; the provider's text only encrypted, and apart from the record (decision 6.7). */
export class IdempotencyService {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #box: SecretBox;
  readonly #mayExpire: () => boolean;
  readonly #recent = new Lru<string, Recent>({ max: RECENT_KEYS });
  #cancelSweep: () => void = () => undefined;

  /** @param options.mayExpire false while the clock is in doubt: then nothing is removed for its age */
  constructor(options: { store: Store; clock: Clock; log: Logger; box: SecretBox; mayExpire?: () => boolean }) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#log = options.log;
    this.#box = options.box;
    this.#mayExpire = options.mayExpire ?? (() => true);
    this.#sweepLater();
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
   * What is committed with the record of a call. Of calls that ran at the same time with one key the first one that was executed counts; of refusals, which have executed
   * nothing, the last.
   */
  keep(orgId: string, key: string, call: Omit<KeptCall, 'expires_at'>, result: Uint8Array | undefined): readonly Effect[] {
    const at = entityKey(orgId, key);
    const now = this.#clock.now();
    const first = this.#recent.get(at);
    if (first?.isExecuted === true && first.expiresAt > now) return [];
    const expiresAt = now + KEEP_MS;
    this.#recent.set(at, { expiresAt, isExecuted: call.result !== undefined });
    const effects: Effect[] = [
      { op: 'put', space: CALLS, key: at, value: { ...call, expires_at: expiresAt } },
      { op: 'put', space: EXPIRY, key: `${String(expiresAt).padStart(TIME_DIGITS, '0')}|${at}`, value: true },
    ];
    if (result) effects.push({ op: 'put', space: RESULTS, key: at, value: this.#box.seal(result, resultContext(at)) });
    return effects;
  }

  /** What {@link keep} returned could not be stored: the next answer is kept. */
  forget(orgId: string, key: string): void {
    this.#recent.delete(entityKey(orgId, key));
  }

  close(): Promise<void> {
    this.#cancelSweep();
    return Promise.resolve();
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
    for (;;) {
      const oldest = await this.#store.list(EXPIRY, { limit: SWEPT_AT_ONCE });
      const over = oldest.filter(({ key }) => Number(key.slice(0, TIME_DIGITS)) <= this.#clock.now());
      const effects: Effect[] = [];
      for (const { key } of over) effects.push({ op: 'delete', space: EXPIRY, key }, ...(await this.#removal(key.slice(TIME_DIGITS + 1))));
      if (effects.length > 0) await this.#store.commit(undefined, effects);
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
