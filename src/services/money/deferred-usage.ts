import type { CurrentCatalogue } from '../../base/catalogue/catalogue-in-force.ts';
import type { Price } from '../../base/catalogue/types.ts';
import type { Events } from '../../base/events/bus.ts';
import type { UsageOutcome } from '../../base/events/events.ts';
import { uuidv7 } from '../../base/lib/ids.ts';
import type { Logger } from '../../base/lib/log.ts';
import { Lru } from '../../base/lib/lru.ts';
import type { Maybe } from '../../base/lib/maybe.ts';
import { picoFromUsd } from '../../base/lib/money.ts';
import { Shares } from '../../base/lib/shares.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { CONTROL_BOUNDS } from '../../base/model/org-bounds.ts';
import type { Usage } from '../../base/model/usage.ts';
import { chargedFor } from '../../decide/pricing/answered-price.ts';
import type { UnhashedRecord } from '../../record/canonical-record.ts';
import { meteringFrom, type RecordMetering } from '../../record/metering.ts';
import type { Effect } from '../../storage/contract/store.ts';
import type { Leases } from '../keeper/lease.ts';
import { unlessConflict } from '../registers/commit.ts';
import { STRANGERS } from '../registers/sharers.ts';
import { type CostGround, spenderOfRecord, storeCost, takeRegardless } from './record-cost.ts';

const SPACE = 'deferred_usage';
/** How long the end of a response is waited for. */
const KEEP_MS = 24 * 3_600_000;
const SWEEP_EVERY_MS = 10 * 60_000;
/**
 * Ends that are remembered: no response is charged twice, and none nothing that ended before the stream of its call
 * did.
 */
const MAX_ENDED = CONTROL_BOUNDS.endedResponses.all;

const REASONS = {
  reported: { code: 'usage_settled', text: 'The response to an earlier call ended after its answer; this is what it cost.' },
  assumed: {
    code: 'usage_assumed',
    text: 'Nobody asked for the response to an earlier call; it is charged at what was set aside for it.',
  },
} as const;

/** A response that was begun, from when its answer is known. */
export interface DeferredCall {
  readonly key: string;
  /** Of the record that will say what it cost. */
  readonly usageRecordId: string;
}

/** What is kept of it until it has ended. */
export interface Deferral {
  readonly call: DeferredCall;
  /** In force when the call came. */
  readonly price: Price;
  /** What it is charged if nothing is ever heard of it. */
  readonly assumed: RecordMetering;
  /** Of the call, epoch milliseconds. */
  readonly completedAt: number;
}

/** What a caller was told who asked for a response that has ended. */
export interface EndedResponse {
  /** That told it. */
  readonly host: string;
  readonly responseId: string;
  /** Undefined: it was cancelled or failed, and the provider reports nothing. */
  readonly usage: Usage | undefined;
  readonly model: string | undefined;
}

/** The entity that stands for a response until it has ended. */
interface Kept {
  /** The writer that waits for it; absent in what a version before owners has stored. */
  readonly owner?: string;
  /** The record that it will have if nothing is ever heard of it. */
  readonly record: UnhashedRecord;
  /** In force when the call came. */
  readonly price: Price;
  readonly expires_at: number;
}

interface Waiting {
  /** What stays set aside. */
  readonly grant: string;
  readonly expiresAt: number;
  /** The org whose share of the places it takes. */
  readonly share: string;
}

interface Ground extends CostGround {
  readonly events: Events;
  readonly log: Logger;
  /** Of a writer that has announced itself. */
  readonly leases: Pick<Leases, 'isShared' | 'holder' | 'writers'>;
  /** `GW_PRICING_CACHED` */
  readonly cachedRates: boolean;
  /** Where the model that made a response has its price. */
  readonly catalogues: CurrentCatalogue;
  /** False while the clock is in doubt: then nothing is given up for its age. */
  readonly mayExpire?: () => boolean;
  /**
   * Whether somebody has laid down this org: those that nobody has share one part of the places. Default: all are
   * known.
   */
  readonly knownOrg?: (orgId: string) => boolean;
  /** Responses that are waited for, of all orgs. */
  readonly maxOpen?: number;
}

/**
 * Responses that a provider makes after it has answered their calls (`background`). What was set aside for such a call
 * stays so until the response has ended; then a record of its own, of tier `usage`, says what it cost, to whoever made
 * the call, and takes the place of reservation and entity in one commit. That happens once, however often and by
 * whomever the response is asked for. One that nobody asks for is charged what was set aside, after a day. Each is
 * waited for by one writer; what a writer leaves that is not heard of for a minute another one takes over.
 */
export class DeferredUsage {
  readonly #ground: Ground;
  /** The oldest first. */
  readonly #open = new Map<string, Waiting>();
  readonly #shares = new Shares(Number.POSITIVE_INFINITY);
  /** By the same key; null when it is charged. */
  readonly #ended = new Lru<string, { readonly end: EndedResponse | null }>({ max: MAX_ENDED });
  #cancelSweep: () => void = () => undefined;
  #closed = false;

  private constructor(ground: Ground) {
    this.#ground = ground;
  }

  /** Sets aside again what stands for the responses that this writer has waited for. */
  static async open(ground: Ground): Promise<DeferredUsage> {
    const service = new DeferredUsage(ground);
    await service.#take((owner) => owner === undefined || owner === ground.leases.holder || !ground.leases.isShared);
    service.#sweepLater();
    return service;
  }

  /** @param isFree whether what this writer waits for has nobody else who does */
  async #take(isFree: (owner: string | undefined) => boolean): Promise<void> {
    const { store, allowance, leases } = this.#ground;
    for (const { key, value, version } of await store.entities(SPACE)) {
      const { owner, record, expires_at: expiresAt } = value as Kept;
      if (this.#open.has(key) || !isFree(owner)) continue;
      if (leases.isShared && owner !== leases.holder) {
        const taken: Kept = { ...(value as Kept), owner: leases.holder };
        const effect: Effect = { op: 'put', space: SPACE, key, value: taken };
        if (!(await unlessConflict(store.commit(undefined, [effect], [{ space: SPACE, key, version }])))) continue;
      }
      const grant = record.settles_record_id ?? record.record_id;
      await takeRegardless(allowance, grant, spenderOfRecord(record), picoFromUsd(record.metering?.cost_usd ?? '0'));
      this.#add(key, { grant, expiresAt, share: this.#shareOf(record.org_id) });
    }
  }

  /** Responses that are waited for. */
  get size(): number {
    return this.#open.size;
  }

  /**
   * A call has begun this response; undefined when another call has, as one that was sent twice: its provider charges
   * it once.
   */
  begin(host: string, responseId: string, createdAt: number): DeferredCall | undefined {
    const key = keyOf(host, responseId);
    if (this.#open.has(key) || this.#ended.peek(key)?.end === null) return undefined;
    return { key, usageRecordId: uuidv7(createdAt) };
  }

  /** What is committed with the record of the call. */
  effect(record: ExecutionRecord, { call, price, assumed, completedAt }: Deferral): Effect {
    const { holder } = this.#ground.leases;
    const value: Kept = {
      owner: holder,
      record: usageRecord(record, call.usageRecordId, assumed),
      price,
      expires_at: completedAt + KEEP_MS,
    };
    return { op: 'put', space: SPACE, key: call.key, value };
  }

  /** The record of the call is stored. */
  hold({ key }: DeferredCall, grant: string, completedAt: number, orgId: string): Maybe<void> {
    const before = this.#ended.peek(key);
    const isCharged = before?.end === null;
    // Two calls that came at the same time and were answered with one response: it is charged once.
    if (isCharged || this.#open.has(key)) {
      if (isCharged) this.#forget(key);
      return this.#ground.allowance.giveBack(grant, true);
    }
    this.#add(key, { grant, expiresAt: completedAt + KEEP_MS, share: this.#shareOf(orgId) });
    if (before?.end) this.#settleLater(key, before.end);
    const { maxOpen = CONTROL_BOUNDS.deferred.all } = this.#ground;
    const oldest = this.#open.size > maxOpen ? this.#oldest() : undefined;
    if (oldest !== undefined) this.#settleLater(oldest, undefined);
    return undefined;
  }

  #shareOf(orgId: string): string {
    return (this.#ground.knownOrg ?? (() => true))(orgId) ? orgId : STRANGERS;
  }

  #add(key: string, open: Waiting): void {
    this.#open.set(key, open);
    this.#shares.take(open.share);
  }

  /** Of the org that waits for most. */
  #oldest(): string | undefined {
    const largest = this.#shares.largest();
    for (const [key, { share }] of this.#open) if (share === largest) return key;
    return undefined;
  }

  /**
   * Somebody was told that this response has ended. Resolves when it is charged; nothing happens for one that nobody
   * waits for.
   * @throws GatewayError `record_store_unavailable`; it is waited for as before
   */
  async end(ended: EndedResponse): Promise<void> {
    const key = keyOf(ended.host, ended.responseId);
    if (this.#open.has(key)) await this.#settle(key, ended);
    else if (!this.#ended.has(key)) this.#ended.set(key, { end: ended });
  }

  /**
   * Takes over what writers have left that are gone, and charges what nobody asked for in time; one that cannot be
   * charged keeps back none behind it.
   */
  async sweep(): Promise<void> {
    const { leases, clock, mayExpire } = this.#ground;
    if (leases.isShared) {
      const there = await leases.writers();
      await this.#take((owner) => owner !== undefined && owner !== leases.holder && !there.has(owner));
    }
    if (mayExpire?.() === false) return;
    const now = clock.now();
    // One that cannot be charged takes its place anew, at the end.
    for (const [key, { expiresAt }] of [...this.#open]) {
      if (expiresAt <= now) await this.#settle(key, undefined).catch((error: unknown) => this.#failed(error));
    }
  }

  close(): Promise<void> {
    this.#closed = true;
    this.#cancelSweep();
    return Promise.resolve();
  }

  /** The entity came after the charge: a start would wait for it once more. */
  #forget(key: string): void {
    this.#ground.store.commit(undefined, [{ op: 'delete', space: SPACE, key }]).catch((error: unknown) => this.#failed(error));
  }

  #settleLater(key: string, ended: EndedResponse | undefined): void {
    this.#settle(key, ended).catch((error: unknown) => this.#failed(error));
  }

  async #settle(key: string, ended: EndedResponse | undefined): Promise<void> {
    const open = this.#open.get(key);
    if (open === undefined) return;
    // Whoever comes next finds nothing to charge.
    this.#open.delete(key);
    this.#shares.give(open.share);
    try {
      const kept = (await this.#ground.store.get(SPACE, key)) as Kept | undefined;
      if (kept === undefined) {
        // Two calls were answered with it, and it was charged between their commits: once is enough.
        await this.#ground.allowance.giveBack(open.grant, true);
        return;
      }
      const granted = { id: open.grant, granted: true };
      const record = await storeCost(this.#ground, this.#settled(kept, ended), granted, [{ op: 'delete', space: SPACE, key }]);
      this.#ended.set(key, { end: null });
      this.#ground.events.emit('usageSettled', { record, outcome: outcomeOf(ended) });
    } catch (error) {
      this.#add(key, open);
      throw error;
    }
  }

  #settled({ record, price }: Kept, ended: EndedResponse | undefined): UnhashedRecord {
    const { code, text } = ended ? REASONS.reported : REASONS.assumed;
    const latency = Math.max(0, this.#ground.clock.now() - Date.parse(record.created_at));
    const settled = { ...record, latency_ms: latency, reason: text, reason_codes: [code] };
    if (ended === undefined) return settled;
    const { provider: providerId, model: asked, created_at: createdAt, org_id: orgId } = record;
    const catalogue = this.#ground.catalogues.current().forOrg(orgId);
    const known = { price, model: record.metering?.model ?? asked };
    const call =
      providerId === undefined ? undefined : { ...known, catalogue, providerId, operation: undefined, at: Date.parse(createdAt) };
    return {
      ...settled,
      metering: meteringFrom(chargedFor(call, ended, known), { reported: true, cachedRates: this.#ground.cachedRates }),
    };
  }

  #sweepLater(): void {
    this.#cancelSweep = this.#ground.clock.after(SWEEP_EVERY_MS, () => {
      void this.sweep()
        .catch((error: unknown) => this.#failed(error))
        .then(() => {
          if (!this.#closed) this.#sweepLater();
        });
    });
  }

  #failed(error: unknown): void {
    this.#ground.log.warn({ err: error }, 'what a response cost that ended after its call could not be recorded; it is tried again');
  }
}

function outcomeOf(ended: EndedResponse | undefined): UsageOutcome {
  if (ended === undefined) return 'assumed';
  return ended.usage === undefined ? 'unreported' : 'reported';
}

/**
 * Who made the call and where it went, without what its decision, body and answer were: the call's own record has that.
 */
function usageRecord({ record_hash: _, ...record }: ExecutionRecord, usageRecordId: string, metering: RecordMetering): UnhashedRecord {
  return {
    ...(record as UnhashedRecord),
    record_id: usageRecordId,
    record_tier: 'usage',
    settles_record_id: record.record_id,
    usage_record_id: undefined,
    metering,
    policy_trace: undefined,
    error: undefined,
    idempotency_key: undefined,
    stream: false,
    stream_outcome: undefined,
    upstream_latency_ms: undefined,
    request_sha256: undefined,
    request_bytes: 0,
    response_sha256: undefined,
    response_bytes: 0,
  };
}

/**
 * A response is known to the host that makes it alone: what another one says of an id, were it of the same provider,
 * charges nobody. Ids are texts of that host; encoded, so that the separator only ever separates.
 */
function keyOf(host: string, responseId: string): string {
  return `${host}|${encodeURIComponent(responseId)}`;
}
