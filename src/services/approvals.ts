import type { Events } from '../base/events/bus.ts';
import { type Clock, timestamp } from '../base/lib/clock.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import type { Logger } from '../base/lib/log.ts';
import { newestFirst } from '../base/lib/newest-first.ts';
import type { Sealed, SecretBox } from '../base/lib/secret-box.ts';
import { uuidv7 } from '../base/lib/uuidv7.ts';
import type { Approval } from '../base/model/approval.ts';
import type { Principal } from '../base/model/principal.ts';
import type { Effect, Expectation, Store } from '../storage/contract/store.ts';
import { type ApprovalFilter, fitsApproval } from './approval-filter.ts';
import { type Commit, commitAlone } from './commit.ts';
import { type EntitiesPage, entityPage, type PageQuery, removeEntities } from './entity-page.ts';
import type { Outbox } from './outbox.ts';
import { unlessConflict } from './unless-conflict.ts';

/** All of them, under the keys of `newestFirst`. */
const SPACE = 'approval';
/** The newest of each org and action hash, by its id. */
const BY_ACTION = 'approval_of';
/** When those that wait expire, by their ids: what a start reads. */
const PENDING = 'approval_pending';
/** What was asked for, sealed, of those that wait. */
const CONTENT = 'approval_content';
/** Requests that may wait; who can vary what he asks for could make any number. */
const MAX_PENDING = 10_000;
/** Characters of JSON; what is longer is not kept, and its approver sees names and sizes alone. */
const MAX_CONTENT = 256 * 1024;
/** A store that fails is left alone for so long. */
const EXPIRE_AGAIN_MS = 10_000;
/** A timer longer than that would wrap around. */
const LONGEST_TIMER_MS = 86_400_000;

/** What is known of a request before somebody is asked about it. */
export type ApprovalRequest = Omit<
  Approval,
  | 'approval_id'
  | 'status'
  | 'created_at'
  | 'expires_at'
  | 'decided_by'
  | 'decided_at'
  | 'decision_reason'
  | 'executed_at'
  | 'executed_record_id'
> & {
  /** The params, as JSON text; kept where content is. */
  readonly content: () => string;
};

/** What becomes of a request that needs an approval. `approved`: since it was looked up. */
export type ApprovalAnswer =
  | { readonly kind: 'opened' | 'waiting' | 'approved' | 'rejected'; readonly approval: Approval }
  | { readonly kind: 'full' };

export interface Deciding {
  readonly status: 'approved' | 'denied';
  readonly by: string;
  readonly reason: string | undefined;
  readonly principal: Principal;
}

/** One as it is shown to who may decide it. */
export interface ShownApproval extends Approval {
  /** JSON, where it was kept and the approval waits. */
  readonly params?: unknown;
}

export interface ApprovalOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: Events;
  readonly outbox: Pick<Outbox, 'post'>;
  readonly box: SecretBox;
  /** How long one can be given, and used. */
  readonly ttlMs: number;
  /** How long a denied or expired one rejects identical requests. */
  readonly rejectForMs: number;
  readonly keepContent: boolean;
}

/**
 * Requests that wait for a person (specification, "Approval"; decision 9.1). One action of one org has one that counts, the newest; every change of one expects the version
 * that was read, so that of two who do the same at once, here or at another writer of the store, one has done it.
 */
export class ApprovalService {
  readonly #options: ApprovalOptions;
  /** When each of them expires, epoch milliseconds. */
  readonly #pending = new Map<string, number>();
  #cancelTimer: () => void = () => undefined;
  /** Epoch milliseconds. */
  #wakesAt = Number.POSITIVE_INFINITY;
  #closed = false;

  private constructor(options: ApprovalOptions) {
    this.#options = options;
  }

  static async open(options: ApprovalOptions): Promise<ApprovalService> {
    const service = new ApprovalService(options);
    await options.store.watch(PENDING, (event) => {
      if (event.lost === true)
        service
          .#readPending()
          .catch((error: unknown) => options.log.error({ err: error }, 'approvals that wait could not be read; their number may be wrong'));
      else service.#learn(event.key, event.value as number | undefined);
    });
    await service.#readPending();
    return service;
  }

  /** Requests that wait. */
  get pending(): number {
    return this.#pending.size;
  }

  /** One that was given for this very request and can be used; undefined when there is none. */
  async find(orgId: string, actionHash: string): Promise<Approval | undefined> {
    const found = await this.#newest(orgId, actionHash);
    return found && this.#isUsable(found.approval) ? found.approval : undefined;
  }

  /** What becomes of a request that needs one: it waits with the one that is there, is rejected by it, or opens another. @throws GatewayError `record_store_unavailable` */
  async ask(request: ApprovalRequest): Promise<ApprovalAnswer> {
    for (;;) {
      const { org_id: orgId, action_hash: hash } = request;
      const before = await this.#newest(orgId, hash);
      const answer = before && this.#answerOf(before.approval);
      if (answer) return answer;
      if (this.#pending.size >= MAX_PENDING) return { kind: 'full' };
      const approval = this.#make(request);
      const isOpened = await this.#commit(
        approval,
        'put',
        [{ op: 'put', space: BY_ACTION, key: keyOf(orgId, hash), value: approval.approval_id }, ...this.#contentOf(approval, request)],
        [{ space: BY_ACTION, key: keyOf(orgId, hash), version: before?.version }],
      );
      if (isOpened) return { kind: 'opened', approval };
    }
  }

  /** Spends one on the call of this record, before it is forwarded. @returns false when it was used, or its time is over, meanwhile */
  async claim(approval: Approval, recordId: string): Promise<boolean> {
    const { store, clock } = this.#options;
    const key = newestFirst(approval.approval_id);
    const found = await store.entity(SPACE, key);
    const current = found?.value as Approval | undefined;
    if (found === undefined || current === undefined || !this.#isUsable(current)) return false;
    const spent: Approval = { ...current, executed_at: timestamp(clock.now()), executed_record_id: recordId };
    return unlessConflict(
      store.commit(undefined, [{ op: 'put', space: SPACE, key, value: spent }], [{ space: SPACE, key, version: found.version }]),
    );
  }

  /**
   * To be committed with the record of a call that was never made: its approval can be used again, also where somebody has asked anew meanwhile. Nobody else changes one
   * that is spent.
   */
  giveBack(approval: Approval): readonly Effect[] {
    const { executed_at: _at, executed_record_id: _record, ...unspent } = approval;
    const { approval_id: id, org_id: orgId, action_hash: hash } = approval;
    return [
      { op: 'put', space: SPACE, key: newestFirst(id), value: unspent },
      { op: 'put', space: BY_ACTION, key: keyOf(orgId, hash), value: id },
    ];
  }

  /** The call that has spent it leaves no record: it can be used again. */
  restore(approval: Approval): void {
    const { store, log } = this.#options;
    store.commit(undefined, this.giveBack(approval)).catch((error: unknown) => {
      log.warn({ err: error, approval_id: approval.approval_id }, 'an approval whose call was not made could not be given back');
    });
  }

  /** With what it asks for, where that was kept. Undefined when the org has none of this id. @param orgId undefined: any org's */
  async show(id: string, orgId: string | undefined): Promise<ShownApproval | undefined> {
    const { store, box } = this.#options;
    const approval = (await store.get(SPACE, newestFirst(id))) as Approval | undefined;
    if (approval === undefined || (orgId !== undefined && approval.org_id !== orgId)) return undefined;
    const sealed = (await store.get(CONTENT, id)) as Sealed | undefined;
    const shown = this.#shown(approval);
    if (sealed === undefined || shown.status !== 'pending') return shown;
    return { ...shown, params: JSON.parse(box.open(sealed, contextOf(id)).toString()) as unknown };
  }

  /** A page of all of them, the newest first. */
  async page(filter: ApprovalFilter, query: PageQuery): Promise<EntitiesPage<Approval>> {
    const take = (value: unknown): Approval | undefined => {
      const approval = this.#shown(value as Approval);
      return fitsApproval(approval, filter) ? approval : undefined;
    };
    const { store } = this.#options;
    if (filter.approvalId === undefined) return entityPage(store, SPACE, query, take);
    const found = await store.get(SPACE, newestFirst(filter.approvalId));
    const approval = found === undefined ? undefined : take(found);
    return { items: approval === undefined ? [] : [approval], next: undefined };
  }

  /**
   * Gives or refuses one that waits.
   * @param orgId undefined: of any org
   * @returns undefined when there is none of this id
   * @throws GatewayError `conflict` for one that does not wait any more, `own_request` for who asks for it himself
   */
  async decide(id: string, { status, by, reason, principal }: Deciding, commit?: Commit): Promise<Approval | undefined> {
    const { store, clock, ttlMs } = this.#options;
    const found = await store.entity(SPACE, newestFirst(id));
    const approval = found && this.#shown(found.value as Approval);
    if (found === undefined || approval === undefined || (principal.orgId !== undefined && approval.org_id !== principal.orgId))
      return undefined;
    if (approval.status !== 'pending') throw alreadyDecided(approval);
    if (principal.kind === 'api_key' && principal.id === approval.api_key_id)
      throw new GatewayError('own_request', 'Nobody decides what his own key has asked for.');
    const now = clock.now();
    const decided: Approval = {
      ...approval,
      status,
      decided_by: by,
      decided_at: timestamp(now),
      ...(reason === undefined ? {} : { decision_reason: reason }),
      ...(status === 'approved' ? { expires_at: timestamp(now + ttlMs) } : {}),
    };
    const expect = [{ space: SPACE, key: newestFirst(id), version: found.version }];
    if (await this.#commit(decided, 'delete', [], expect, commit)) return decided;
    const after = (await store.get(SPACE, newestFirst(id))) as Approval;
    throw alreadyDecided(this.#shown(after));
  }

  /** Removes those that were decided or have expired before `epochMs`. @returns how many */
  removeBefore(epochMs: number): Promise<number> {
    const { store } = this.#options;
    const before = timestamp(epochMs);
    const isGone = (value: unknown): boolean => {
      const { status, decided_at: decidedAt, expires_at: expiresAt } = value as Approval;
      return status !== 'pending' && (decidedAt ?? expiresAt) < before;
    };
    return removeEntities(store, SPACE, epochMs, isGone, async (value) => {
      const { approval_id: id, org_id: orgId, action_hash: hash } = value as Approval;
      const key = keyOf(orgId, hash);
      return (await store.get(BY_ACTION, key)) === id ? [{ op: 'delete', space: BY_ACTION, key }] : [];
    });
  }

  close(): void {
    this.#closed = true;
    this.#cancelTimer();
  }

  async #newest(orgId: string, actionHash: string): Promise<{ readonly approval: Approval; readonly version: string } | undefined> {
    const { store } = this.#options;
    const pointer = await store.entity(BY_ACTION, keyOf(orgId, actionHash));
    if (pointer === undefined) return undefined;
    const approval = (await store.get(SPACE, newestFirst(pointer.value as string))) as Approval | undefined;
    return { approval: approval ?? GONE, version: pointer.version };
  }

  #answerOf(approval: Approval): ApprovalAnswer | undefined {
    if (approval === GONE || approval.executed_at !== undefined) return undefined;
    const now = this.#options.clock.now();
    const { status, decided_at: decidedAt, expires_at: expiresAt } = this.#shown(approval);
    if (status === 'pending') return { kind: 'waiting', approval };
    if (status === 'approved') return { kind: 'approved', approval };
    const since = Date.parse(status === 'denied' ? (decidedAt ?? expiresAt) : expiresAt);
    return since + this.#options.rejectForMs > now ? { kind: 'rejected', approval: this.#shown(approval) } : undefined;
  }

  #isUsable(approval: Approval): boolean {
    return approval !== GONE && approval.executed_at === undefined && this.#shown(approval).status === 'approved';
  }

  /** As it counts now: the time of one that waits, or was given and not used, may be over. */
  #shown(approval: Approval): Approval {
    const mayExpire = approval.status === 'pending' || (approval.status === 'approved' && approval.executed_at === undefined);
    return mayExpire && Date.parse(approval.expires_at) <= this.#options.clock.now() ? { ...approval, status: 'expired' } : approval;
  }

  #make({ content: _content, ...request }: ApprovalRequest): Approval {
    const { clock, ttlMs } = this.#options;
    const now = clock.now();
    return {
      ...request,
      approval_id: uuidv7(now),
      status: 'pending',
      created_at: timestamp(now),
      expires_at: timestamp(now + ttlMs),
      decided_by: null,
      decided_at: null,
    };
  }

  #contentOf({ approval_id: id }: Approval, { content }: ApprovalRequest): readonly Effect[] {
    const { keepContent, box } = this.#options;
    const text = keepContent ? content() : '';
    if (text === '' || text.length > MAX_CONTENT) return [];
    return [{ op: 'put', space: CONTENT, key: id, value: box.seal(text, contextOf(id)) }];
  }

  /**
   * Stores one with what goes with it, and tells of it.
   * @param wait whether it waits from now on, or does no longer
   * @returns false when what is expected is not true any more
   */
  async #commit(
    approval: Approval,
    wait: 'put' | 'delete',
    more: readonly Effect[],
    expect: readonly Expectation[],
    commit?: Commit,
  ): Promise<boolean> {
    const { store, outbox, events } = this.#options;
    const { approval_id: id, expires_at: expiresAt } = approval;
    const due = Date.parse(expiresAt);
    const posted = outbox.post('approval', approval);
    const waits: readonly Effect[] =
      wait === 'put'
        ? [{ op: 'put', space: PENDING, key: id, value: due }]
        : [
            { op: 'delete', space: PENDING, key: id },
            { op: 'delete', space: CONTENT, key: id },
          ];
    const effects: Effect[] = [{ op: 'put', space: SPACE, key: newestFirst(id), value: approval }, ...waits, ...more, ...posted.effects];
    let isStored: boolean;
    try {
      isStored = await unlessConflict((commit ?? commitAlone(store))(id, effects, expect));
    } catch (error) {
      posted.failed();
      throw error;
    }
    if (!isStored) {
      posted.failed();
      return false;
    }
    posted.stored();
    this.#learn(id, wait === 'put' ? due : undefined);
    events.emit('approval', approval);
    return true;
  }

  #learn(id: string, due: number | undefined): void {
    if (due === undefined) {
      this.#pending.delete(id);
      return;
    }
    this.#pending.set(id, due);
    this.#wakeAt(due);
  }

  async #readPending(): Promise<void> {
    const rows = await this.#options.store.list(PENDING);
    const stored = new Set(rows.map(({ key }) => key));
    for (const id of [...this.#pending.keys()]) if (!stored.has(id)) this.#pending.delete(id);
    for (const { key, value } of rows) this.#learn(key, value as number);
  }

  /** Sets the timer, unless it is set to an earlier time. */
  #wakeAt(due: number): void {
    if (this.#closed || due >= this.#wakesAt) return;
    const { clock } = this.#options;
    this.#cancelTimer();
    this.#wakesAt = due;
    const wait = Math.max(0, Math.min(due - clock.now(), LONGEST_TIMER_MS));
    this.#cancelTimer = clock.after(wait, () => {
      this.#wakesAt = Number.POSITIVE_INFINITY;
      void this.#expireDue();
    });
  }

  async #expireDue(): Promise<void> {
    const { clock, store, log } = this.#options;
    let earliest = 0;
    try {
      for (const [id, due] of [...this.#pending]) {
        if (due > clock.now()) continue;
        const found = await store.entity(SPACE, newestFirst(id));
        const approval = found?.value as Approval | undefined;
        // Decided meanwhile, here or elsewhere.
        this.#pending.delete(id);
        if (found === undefined || approval?.status !== 'pending') continue;
        await this.#commit(
          { ...approval, status: 'expired' },
          'delete',
          [],
          [{ space: SPACE, key: newestFirst(id), version: found.version }],
        );
      }
    } catch (error) {
      log.error({ err: error }, 'approvals could not be expired; they count as expired all the same');
      earliest = clock.now() + EXPIRE_AGAIN_MS;
    }
    for (const due of this.#pending.values()) this.#wakeAt(Math.max(due, earliest));
  }
}

/** Stands for one that was removed, as old ones are. */
const GONE = Object.freeze({}) as Approval;

function keyOf(orgId: string, actionHash: string): string {
  return `${encodeURIComponent(orgId)}|${actionHash}`;
}

function contextOf(id: string): string {
  return `approval ${id}`;
}

function alreadyDecided({ status, decided_by: by, decided_at: at, expires_at: expiresAt }: Approval): GatewayError {
  const how = status === 'expired' ? `expired at ${expiresAt}` : `was ${status} by ${String(by)} at ${String(at)}`;
  return new GatewayError('conflict', `This approval ${how}.`);
}
