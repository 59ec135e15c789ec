import type { Events } from '../../base/events/bus.ts';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { newestFirst, uuidv7 } from '../../base/lib/ids.ts';
import type { Logger } from '../../base/lib/log.ts';
import type { Sealed, SecretBox } from '../../base/lib/secret-box.ts';
import type { FullFor } from '../../base/lib/shares.ts';
import { type Approval, deciderText } from '../../base/model/approval.ts';
import { CONTROL_BOUNDS } from '../../base/model/org-bounds.ts';
import type { Principal } from '../../base/model/principal.ts';
import type { AskedByRule } from '../../decide/policy/approval-standing.ts';
import {
  asOf,
  isSameRequest,
  keptOf,
  type Moment,
  onApproval,
  rejects,
  type StandingApproval,
  standingOf,
} from '../../decide/policy/approval-standing.ts';
import type { Effect, Expectation, Store } from '../../storage/contract/store.ts';
import { type Commit, unlessConflict } from '../registers/commit.ts';
import { type EntitiesPage, entityPage, type PageQuery, pageOf, removeEntities } from '../registers/entity-page.ts';
import { GroupIndex } from '../registers/group-index.ts';
import { type Along, REMOVED } from '../registers/register.ts';
import type { LaidDown } from '../registers/sharers.ts';
import type { Outbox } from '../sending/outbox.ts';
import { type ApprovalFilter, fitsApproval } from './approval-filter.ts';
import { type HeldCall, HeldCalls, type HoldEnd } from './held-calls.ts';
import { afterSaying, needsOf } from './needed-persons.ts';
import { PendingApprovals } from './pending-approvals.ts';
import { nameWaiting, shareOfRequest, type WaitingApproval, waitingOf } from './waiting-approval.ts';

/** All of them, under the keys of `newestFirst`. */
const SPACE = 'approval';
/** The ids of those of each org and request, the newest first; of stores from before there were several, one id. */
const BY_ACTION = 'approval_of';
/**
 * Those that wait, by their ids: what a start reads (`WaitingApproval`; of stores from before shares, when it expires).
 */
const PENDING = 'approval_pending';
/** What was asked for, sealed, of those that wait. */
export const APPROVAL_CONTENT = 'approval_content';
/** Characters of JSON; what is longer is not kept, and its approver sees names and sizes alone. */
const MAX_CONTENT = 256 * 1024;

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
  | 'rule_ids'
  | 'rule_hashes'
  | 'needs'
  | 'decisions'
  | 'held'
  | 'withdrawn_at'
> & {
  /** That ask for it. */
  readonly rules: readonly AskedByRule[];
  /** The params, as JSON text; kept where content is. */
  readonly content: () => string;
};

/** Whose turn it is to spend approvals: this call's, or that of another one before it. */
export type ApprovalTurn = { readonly done: () => void } | { readonly before: Promise<void> };

/**
 * What becomes of a request that needs an approval. `approved`: since it was looked up, or for some of the rules that
 * ask.
 */
export type ApprovalAnswer =
  | StandingApproval
  | { readonly kind: 'opened'; readonly approval: Approval }
  | { readonly kind: 'full'; readonly full: FullFor };

export interface Deciding {
  readonly status: 'approved' | 'denied';
  /** For whom the principal says to decide. */
  readonly note?: string | undefined;
  readonly reason: string | undefined;
  readonly principal: Principal;
}

/** One as it is shown to who may decide it. */
export interface ShownApproval extends Approval {
  /** JSON, where it was kept and the approval waits. */
  readonly params?: unknown;
  /** What a yes does, in words, while one can be said or used. */
  readonly on_approval?: string;
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
  /** How long a call waits on its open connection where no rule says so; 0: not at all. */
  readonly holdMs?: number;
  readonly keepContent: boolean;
  /** The name of this process among those that have the store open. */
  readonly writer: string;
  /** Bytes that calls may keep in memory while they wait on their open connections. */
  readonly maxHeldBytes?: number;
  /** Which names are no caller's own. */
  readonly known: LaidDown;
  /** Requests that may wait, of all orgs. */
  readonly maxPending?: number;
}

/**
 * Requests that wait for a person (specification, "Approval"; decision 9.1). One request of one org may have several,
 * for rules that came to ask one after the other; every change of one expects the version that was read, so that of two
 * who do the same at once, here or at another writer of the store, one has done it.
 */
export class ApprovalService {
  /** Approvals that a call which has waited is about to spend. */
  readonly #turns = new Map<string, Promise<void>>();
  readonly #options: ApprovalOptions;
  readonly #pending: PendingApprovals;
  readonly #byOrg: GroupIndex;
  readonly #held: HeldCalls;
  /** How long a call waits on its open connection where no rule says so, milliseconds. */
  readonly holdMs: number;

  private constructor(options: ApprovalOptions, byOrg: GroupIndex, pending: PendingApprovals, held: HeldCalls) {
    this.#options = options;
    this.#byOrg = byOrg;
    this.#pending = pending;
    this.#held = held;
    this.holdMs = options.holdMs ?? 0;
  }

  /** @throws Error when the store cannot be read, or what an older version has stored cannot be written again */
  static async open(options: ApprovalOptions): Promise<ApprovalService> {
    const {
      maxPending = CONTROL_BOUNDS.approvals.all,
      maxHeldBytes = Number.POSITIVE_INFINITY,
      store,
      clock,
      log,
      known,
      writer,
    } = options;
    const byOrg = new GroupIndex(store, SPACE, 'org');
    await byOrg.complete((value) => (value as Approval).org_id);
    await nameWaiting(store, { all: SPACE, waiting: PENDING }, known);
    const held = await HeldCalls.open({ store, clock, log, writer, most: CONTROL_BOUNDS.heldCalls.all, mostBytes: maxHeldBytes });
    const expire = (id: string): Promise<void> => service.#expire(id);
    const ended = (id: string): void => held.ended(id);
    const pending = await PendingApprovals.open({ store, clock, log, maxPending, expire, ended }, PENDING);
    const service: ApprovalService = new ApprovalService(options, byOrg, pending, held);
    return service;
  }

  /** Calls that wait here, on their open connections. */
  get held(): number {
    return this.#held.size;
  }

  /** Requests that wait. */
  get pending(): number {
    return this.#pending.waiting.size;
  }

  /**
   * Those that were given for a request and can be used, the newest first.
   * @param requestHash the hash of the request before policy has sent it elsewhere
   */
  async usable(orgId: string, requestHash: string): Promise<readonly Approval[]> {
    const { approvals } = await this.#of(orgId, requestHash);
    const moment = this.#moment();
    const denied = approvals.filter((approval) => approval.status === 'denied' && rejects(approval, moment));
    return approvals.filter((approval) => this.#isUsable(approval) && !denied.some((other) => isSameRequest(other, approval)));
  }

  /**
   * What becomes of a request that needs one: it waits with the one that is there, is rejected by it, or opens another.
   * @param heldUntil until when its call is to wait for it on its open connection, epoch milliseconds; undefined: its
   * caller is told to come again
   * @throws GatewayError `record_store_unavailable`
   */
  async ask(request: ApprovalRequest, heldUntil?: number): Promise<ApprovalAnswer> {
    const { clock, known, events } = this.#options;
    const share = shareOfRequest(request, known);
    const of = { space: BY_ACTION, key: keyOf(request.org_id, requestHashOf(request)) };
    const id = uuidv7(clock.now());
    let answer = undefined as ApprovalAnswer | undefined;
    let isReserved = false;
    const next = async (_none: unknown, along: Along): Promise<WaitingApproval | undefined> => {
      const before = await this.#of(request.org_id, requestHashOf(request));
      const same = before.approvals.filter((approval) => isSameRequest(approval, request));
      const asked = standingOf(same, request.rules, this.#moment());
      const full = 'kind' in asked || isReserved ? undefined : this.#pending.reserve(share);
      if ('kind' in asked || full !== undefined) {
        answer = 'kind' in asked ? asked : full && { kind: 'full', full };
        return undefined;
      }
      isReserved = true;
      const approval = this.#make(id, request, asked);
      const ids = [id, ...keptOf(before.approvals, this.#moment())];
      along.effects.push(this.#byOrg.put(request.org_id, id), { op: 'put', ...of, value: ids }, ...this.#contentOf(id, request));
      along.expect.push({ ...of, version: before.version });
      const held = heldUntil === undefined ? {} : { held: { until: timestamp(heldUntil), calls: 1 } };
      this.#put(approval, undefined, along, held);
      answer = { kind: 'opened', approval: { ...approval, ...held } };
      return waitingOf(approval, known, heldUntil !== undefined);
    };
    try {
      await this.#pending.waiting.change(id, next);
    } finally {
      if (isReserved) this.#pending.release(share);
    }
    if (answer?.kind === 'opened') events.emit('approval', answer.approval);
    return answer as ApprovalAnswer;
  }

  /**
   * Has a call wait for one on its open connection (decision 9.1). One whose client leaves withdraws it, where nobody
   * else waits or was told to come again.
   */
  async hold(approval: Approval, call: HeldCall): Promise<HoldEnd> {
    const { approval_id: id } = approval;
    const end = await this.#held.hold(id, call, shareOfRequest(approval, this.#options.known), () => this.#isWaiting(id));
    if (end === 'gone') await this.#withdraw(id);
    return end;
  }

  /** The caller of a request that waits was told to come again: nobody withdraws it any more. */
  async promise({ approval_id: id }: Pick<Approval, 'approval_id'>): Promise<void> {
    if (this.#pending.waiting.get(id)?.onlyHeld !== true) return;
    await this.#pending.waiting.change(id, (waiting) => {
      if (waiting?.onlyHeld !== true) return undefined;
      const { onlyHeld: _held, ...told } = waiting;
      return told;
    });
  }

  /**
   * Waits until one is decided, has expired or is withdrawn, at most so long.
   * @param approval as it is shown
   * @returns as it is then
   */
  async heard(approval: ShownApproval, timeoutMs: number, onLeft: HeldCall['onLeft']): Promise<ShownApproval | undefined> {
    const { approval_id: id } = approval;
    if (approval.status !== 'pending' || timeoutMs === 0) return approval;
    const { clock, known } = this.#options;
    const call = { until: clock.now() + timeoutMs, onLeft };
    await this.#held.hear(id, call, shareOfRequest(approval, known), () => this.#isWaiting(id));
    return this.show(id, undefined);
  }

  /** The gateway stops: what is held is answered now, and nothing is held from now on. */
  drain(): void {
    this.#held.drain();
  }

  /**
   * Of calls that have waited here for the same approvals one goes on at a time, up to where it has spent them: the
   * others are not the losers of a race, but wait for the next approval (decision 9.1).
   * @returns `before`: another one is on its way, and has spent them or given up when this ends; `done` tells the
   * others that this one has
   */
  takeTurn(approvals: readonly Approval[]): ApprovalTurn {
    const ids = approvals.map(({ approval_id: id }) => id);
    for (const id of ids) {
      const before = this.#turns.get(id);
      if (before !== undefined) return { before };
    }
    let end: () => void = () => undefined;
    const turn = new Promise<void>((resolve) => {
      end = resolve;
    });
    for (const id of ids) this.#turns.set(id, turn);
    return {
      done: () => {
        for (const id of ids) if (this.#turns.get(id) === turn) this.#turns.delete(id);
        end();
      },
    };
  }

  /**
   * Spends them on the call of this record, before it is forwarded: all or none.
   * @returns false when one was used, or its time is over, meanwhile
   */
  async claim(approvals: readonly Approval[], recordId: string): Promise<boolean> {
    const { store, clock } = this.#options;
    const at = timestamp(clock.now());
    const effects: Effect[] = [];
    const expect: Expectation[] = [];
    for (const { approval_id: id } of approvals) {
      const key = newestFirst(id);
      const found = await store.entity(SPACE, key);
      const current = found?.value as Approval | undefined;
      if (found === undefined || current === undefined || !this.#isUsable(current)) return false;
      effects.push({ op: 'put', space: SPACE, key, value: { ...current, executed_at: at, executed_record_id: recordId } });
      expect.push({ space: SPACE, key, version: found.version });
    }
    return unlessConflict(store.commit(undefined, effects, expect));
  }

  /**
   * To be committed with the record of a call that was not executed: its approvals can be used again. Nobody else
   * changes one that is spent.
   */
  giveBack(approvals: readonly Approval[]): readonly Effect[] {
    return approvals.map(({ executed_at: _at, executed_record_id: _record, ...unspent }) => {
      return { op: 'put', space: SPACE, key: newestFirst(unspent.approval_id), value: unspent };
    });
  }

  /** The call that has spent them leaves no record, or none that says so: they can be used again. */
  restore(approvals: readonly Approval[]): void {
    const { store, log } = this.#options;
    store.commit(undefined, this.giveBack(approvals)).catch((error: unknown) => {
      const ids = approvals.map(({ approval_id: id }) => id);
      log.warn({ err: error, approval_ids: ids }, 'approvals whose call was not made could not be given back');
    });
  }

  /**
   * With what it asks for, where that was kept. Undefined when the org has none of this id.
   * @param orgId undefined: any org's
   */
  async show(id: string, orgId: string | undefined): Promise<ShownApproval | undefined> {
    const { store, box } = this.#options;
    const approval = (await store.get(SPACE, newestFirst(id))) as Approval | undefined;
    if (approval === undefined || (orgId !== undefined && approval.org_id !== orgId)) return undefined;
    const sealed = (await store.get(APPROVAL_CONTENT, id)) as Sealed | undefined;
    const shown = this.#told(approval);
    if (sealed === undefined || shown.status !== 'pending') return shown;
    return { ...shown, params: JSON.parse(box.open(sealed, contentContext(id)).toString()) as unknown };
  }

  /** A page of all of them, the newest first; of one org, or of those that wait, nothing else is read. */
  async page(filter: ApprovalFilter, query: PageQuery): Promise<EntitiesPage<ShownApproval>> {
    const take = (value: unknown): ShownApproval | undefined => {
      const approval = this.#told(value as Approval);
      return fitsApproval(approval, filter) ? approval : undefined;
    };
    const { store } = this.#options;
    const { approvalId, orgId, status } = filter;
    if (approvalId === undefined && status === 'pending') return pageOf(this.#byOrg.reader(this.#pending.keysOf(orgId)), query, take);
    if (approvalId === undefined && orgId !== undefined) return this.#byOrg.page(orgId, query, take);
    if (approvalId === undefined) return entityPage(store, SPACE, query, take);
    const found = await store.get(SPACE, newestFirst(approvalId));
    const approval = found === undefined ? undefined : take(found);
    return { items: approval === undefined ? [] : [approval], next: undefined };
  }

  /**
   * Gives or refuses one that waits.
   * @returns as it is then: it waits still where more persons are asked; undefined when there is none of this id
   * @throws GatewayError `conflict` for one that does not wait any more, and for who has said so already, `own_request`
   * for who asks for it himself, `not_in_group` for who is not among those that are asked
   */
  async decide(id: string, { status, note, reason, principal }: Deciding, commit?: Commit): Promise<ShownApproval | undefined> {
    const { clock, ttlMs } = this.#options;
    const decided = await this.#end(
      id,
      (stored) => {
        const approval = this.#shown(stored);
        if (principal.orgId !== undefined && approval.org_id !== principal.orgId) return undefined;
        if (approval.status !== 'pending') throw alreadyDecided(approval);
        if (principal.kind === 'api_key' && principal.id === approval.api_key_id)
          throw new GatewayError('own_request', 'Nobody decides what his own key has asked for.');
        return afterSaying(approval, { status, note, reason, principal }, clock.now(), ttlMs);
      },
      commit,
    );
    return decided && this.#told(decided);
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
      const approval = value as Approval;
      const key = keyOf(approval.org_id, requestHashOf(approval));
      const [newest] = idsOf(await store.get(BY_ACTION, key));
      const indexed = this.#byOrg.delete(approval.org_id, approval.approval_id);
      return newest === approval.approval_id ? [indexed, { op: 'delete', space: BY_ACTION, key }] : [indexed];
    });
  }

  async close(): Promise<void> {
    this.#pending.close();
    this.#held.drain();
    await this.#held.settled();
  }

  async #isWaiting(id: string): Promise<boolean> {
    // Another writer's may not have been heard of.
    if (!this.#pending.waiting.has(id)) await this.#pending.waiting.refresh(id);
    return this.#pending.waiting.has(id);
  }

  /** Nobody waits for its answer. */
  async #withdraw(id: string): Promise<void> {
    const { clock, log } = this.#options;
    try {
      await this.#held.settled();
      if (this.#held.of(id) !== undefined || this.#pending.waiting.get(id)?.onlyHeld !== true) return;
      const at = timestamp(clock.now());
      await this.#end(id, (one, waiting) => {
        // Somebody may have been told to come again meanwhile.
        const isAlone = waiting?.onlyHeld === true && this.#shown(one).status === 'pending';
        return isAlone ? { ...one, status: 'withdrawn', withdrawn_at: at } : undefined;
      });
    } catch (error) {
      log.warn({ err: error, approval_id: id }, 'an approval whose caller has left could not be withdrawn; it expires');
    }
  }

  /** All of a request that are still there, the newest first. */
  async #of(
    orgId: string,
    requestHash: string,
  ): Promise<{ readonly approvals: readonly Approval[]; readonly version: string | undefined }> {
    const { store } = this.#options;
    const pointer = await store.entity(BY_ACTION, keyOf(orgId, requestHash));
    const found = await Promise.all(idsOf(pointer?.value).map((id) => store.get(SPACE, newestFirst(id))));
    return { approvals: found.filter((value) => value !== undefined) as Approval[], version: pointer?.version };
  }

  #moment(): Moment {
    const { clock, rejectForMs } = this.#options;
    return { now: clock.now(), rejectForMs };
  }

  #isUsable(approval: Approval): boolean {
    return approval.executed_at === undefined && this.#shown(approval).status === 'approved';
  }

  #shown(approval: Approval): Approval {
    return asOf(approval, this.#options.clock.now());
  }

  /** The same as it is shown. */
  #told(approval: Approval): ShownApproval {
    const now = this.#shown(approval);
    const held = now.status === 'pending' ? this.#held.of(now.approval_id) : undefined;
    const shown = held === undefined ? now : { ...now, held };
    const yes = onApproval(shown, this.#options.clock.now());
    return yes === undefined ? shown : { ...shown, on_approval: yes };
  }

  #make(id: string, { content: _content, rules: _all, ...request }: ApprovalRequest, rules: readonly AskedByRule[]): Approval {
    const { clock, ttlMs } = this.#options;
    const now = clock.now();
    const needs = needsOf(rules.map(({ terms }) => terms));
    return {
      ...request,
      ...(needs === undefined ? {} : { needs }),
      rule_ids: rules.map((rule) => rule.id),
      rule_hashes: rules.map(({ hash }) => hash),
      approval_id: id,
      status: 'pending',
      created_at: timestamp(now),
      expires_at: timestamp(now + ttlMs),
      decided_by: null,
      decided_at: null,
    };
  }

  #contentOf(id: string, { content }: ApprovalRequest): readonly Effect[] {
    const { keepContent, box } = this.#options;
    const text = keepContent ? content() : '';
    if (text === '' || text.length > MAX_CONTENT) return [];
    return [{ op: 'put', space: APPROVAL_CONTENT, key: id, value: box.seal(text, contentContext(id)) }];
  }

  /** What stores one, and tells of it. @param version of what is there; undefined: there is none */
  #put(approval: Approval, version: string | undefined, { first, settling, expect }: Along, shown: Pick<Approval, 'held'> = {}): void {
    const at = { space: SPACE, key: newestFirst(approval.approval_id) };
    first.push({ op: 'put', ...at, value: approval });
    expect.push({ ...at, version });
    // One of several persons has said yes: what waits, waits.
    const isStep = version !== undefined && approval.status === 'pending';
    settling.push(this.#options.outbox.post(isStep ? 'approvalStep' : 'approval', { ...approval, ...shown }));
  }

  /**
   * From now on one waits no longer, unless what it becomes waits still.
   * @param ended what it becomes, of what it is now; undefined: it stays as it is
   */
  async #end(
    id: string,
    ended: (approval: Approval, waiting: WaitingApproval | undefined) => Approval | undefined,
    commit?: Commit,
  ): Promise<Approval | undefined> {
    const { store, events } = this.#options;
    let after = undefined as Approval | undefined;
    const next = async (waiting: WaitingApproval | undefined, along: Along): Promise<WaitingApproval | typeof REMOVED | undefined> => {
      const found = await store.entity(SPACE, newestFirst(id));
      after = found && ended(found.value as Approval, waiting);
      if (after === undefined) return undefined;
      this.#put(after, found?.version, along);
      if (after.status === 'pending') return waiting;
      along.effects.push({ op: 'delete', space: APPROVAL_CONTENT, key: id });
      return REMOVED;
    };
    await this.#pending.waiting.change(id, next, { commit });
    if (after !== undefined) events.emit(after.status === 'pending' ? 'approvalStep' : 'approval', after);
    return after;
  }

  /** One whose time is over, unless it was decided meanwhile, here or elsewhere. */
  async #expire(id: string): Promise<void> {
    const expired = await this.#end(id, (one) => (one.status === 'pending' ? { ...one, status: 'expired' } : undefined));
    if (expired === undefined) await this.#pending.waiting.remove(id);
  }
}

function requestHashOf({
  action_hash: actionHash,
  request_hash: requestHash = actionHash,
}: Pick<Approval, 'action_hash' | 'request_hash'>): string {
  return requestHash;
}

function idsOf(pointer: unknown): readonly string[] {
  if (pointer === undefined) return [];
  return typeof pointer === 'string' ? [pointer] : (pointer as string[]);
}

function keyOf(orgId: string, requestHash: string): string {
  return `${encodeURIComponent(orgId)}|${requestHash}`;
}

export function contentContext(id: string): string {
  return `approval ${id}`;
}

function alreadyDecided(approval: Approval): GatewayError {
  return new GatewayError('conflict', `This approval ${howEnded(approval)}.`);
}

function howEnded({ status, decided_at: at, expires_at: expiresAt, withdrawn_at: withdrawnAt, ...decided }: Approval): string {
  if (status === 'expired') return `expired at ${expiresAt}`;
  if (status === 'withdrawn') return `was withdrawn at ${String(withdrawnAt)}, because its caller left`;
  return `was ${status} by ${deciderText(decided.decided_by, decided.decided_by_note, decided.decided_by_principal)} at ${String(at)}`;
}
