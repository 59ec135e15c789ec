import type { Events } from '../../base/events/bus.ts';
import type { Clock } from '../../base/lib/clock.ts';
import { picoFromUsd, usdFromPico } from '../../base/lib/money.ts';
import type { BudgetLimit, BudgetOverride } from '../../base/model/budget-limit.ts';
import { hourOf, startText, windowStart } from '../../decide/limits/windows.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import { type AlsoChanged, type Commit, commitAlone } from '../registers/commit.ts';
import type { Outbox, Posted } from '../sending/outbox.ts';
import type { CapExceeded, Spender } from './allowance.ts';
import { DelegationBook } from './delegation-spend.ts';
import { type GivenOverride, HeldLimits, limitRemoval } from './held-limits.ts';
import type { NodeCaps } from './node-caps.ts';
import { REFUSED, RefusalAlerts, readRefused } from './refusal-alerts.ts';
import { capPassed, type DelegatedSpend, firstCap, partsOf, type Reservation, type SpendPart } from './reservation.ts';
import { type AlertLine, alertedOf, type Budget, later, limitInForce, newsOf, nextNews } from './scope-limits.ts';
import type { CapVerdict } from './shared-ledger.ts';
import { SharedSpending } from './shared-spend.ts';
import { PROJECT, type ScopeSpend, SpendBook } from './spend-book.ts';

const ALERTED = 'budget_alerted';
/** The last alert of a limit that was committed as a durable event. */
const POSTED = 'budget_alert_posted';

const NONE: readonly never[] = [];

/** A cost that was counted and whose record is not stored yet. */
export interface Counted {
  readonly scopes: readonly ScopeSpend[];
  readonly parts: readonly SpendPart[];
  readonly pico: bigint;
  readonly hour: number;
  /** Alerts that this cost raises, made ready for the outbox; to be committed with the record. */
  readonly effects: readonly Effect[];
  readonly posted: readonly PostedAlert[];
}

interface PostedAlert {
  readonly budget: Budget;
  readonly before: Budget['posted'];
  readonly post: Posted;
}

/** A limit with the spend of its current period. */
export interface LimitStatus {
  readonly limit: BudgetLimit;
  /** What holds now; another amount than the limit's while there is an override. */
  readonly effectiveUsd: string;
  readonly override: BudgetOverride | undefined;
  readonly periodStart: string;
  readonly spentUsd: string;
  readonly reservedUsd: string;
}

interface BudgetGround {
  readonly store: Store;
  readonly clock: Clock;
  readonly events: Events;
  /** Where alerts go that must not be lost. */
  readonly outbox?: Pick<Outbox, 'wants' | 'post'>;
}

export interface BudgetOptions extends BudgetGround {
  /** Whose windows may be asked for, in milliseconds since the epoch; default: now. */
  readonly moments?: readonly number[];
  /** Where other nodes spend under the same caps. */
  readonly caps?: NodeCaps | undefined;
}

/**
 * Budgets (decision 6.2): the estimate is reserved before a call and settled with its real cost after it, so that calls
 * at the same time cannot pass a cap together. One service for every door; checking and reserving happen without a
 * pause, so no other call comes between. Nothing but money is counted here.
 */
export class BudgetService {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #book: SpendBook;
  readonly #delegations: DelegationBook;
  readonly #limits: HeldLimits;
  readonly #events: Events;
  readonly #outbox: Pick<Outbox, 'wants' | 'post'> | undefined;
  readonly #refusals: RefusalAlerts;
  readonly #shared: SharedSpending | undefined;
  /** Other nodes spend under the same caps. */
  readonly isShared: boolean;

  private constructor(ground: BudgetGround, book: SpendBook, limits: HeldLimits, shared: SharedSpending | undefined) {
    const { store, clock, events, outbox } = ground;
    this.#store = store;
    this.#limits = limits;
    this.#shared = shared;
    this.isShared = shared !== undefined;
    this.#clock = clock;
    this.#book = book;
    this.#delegations = new DelegationBook(store);
    this.#events = events;
    this.#outbox = outbox;
    this.#refusals = new RefusalAlerts({ store, events, outbox, budgetOf: (limitId) => limits.get(limitId) });
  }

  /** Reads limits and the spend of the open windows. */
  static async open(options: BudgetOptions): Promise<BudgetService> {
    const { store, clock, caps, moments = [clock.now()] } = options;
    const shared = caps && new SharedSpending(caps);
    const book = await SpendBook.open(store, ...moments);
    const limits = await HeldLimits.open(store, clock, (limit) => {
      const spend = book.scope(limit.org_id, limit.scope, limit.scope_id ?? '');
      shared?.watch(limit, spend);
      return spend.limits;
    });
    for (const { key, value } of await store.list(ALERTED)) {
      const budget = limits.get(key);
      if (budget) budget.alerted = budget.posted = value as Budget['alerted'];
    }
    for (const { key, value } of await store.list(POSTED)) {
      const budget = limits.get(key);
      if (budget) budget.posted = later(budget.posted, value as Budget['posted']);
    }
    await readRefused(store, (limitId) => limits.get(limitId));
    return new BudgetService(options, book, limits, shared);
  }

  /** Limits of an org, or all, oldest first. */
  list(orgId?: string): readonly LimitStatus[] {
    const hour = this.#hour();
    return this.#limits.all(orgId).map((budget) => this.#status(budget, hour));
  }

  /** One of an org, or of any; undefined when there is none. */
  get(limitId: string, orgId?: string): LimitStatus | undefined {
    const hour = this.#hour();
    const budget = this.#limits.get(limitId);
    return budget === undefined || (orgId !== undefined && budget.limit.org_id !== orgId) ? undefined : this.#status(budget, hour);
  }

  #status(budget: Budget, hour: number): LimitStatus {
    const { limit, override, capPico } = budget;
    const spend = this.#scopeOf(limit);
    return {
      limit,
      effectiveUsd: usdFromPico(capPico),
      override,
      periodStart: startText(limit.period, windowStart(limit.period, hour)),
      spentUsd: usdFromPico(spend.settled(limit.period, hour)),
      reservedUsd: usdFromPico(spend.reserved + (spend.shared === undefined ? 0n : spend.shared.free + spend.shared.others)),
    };
  }

  create(limit: BudgetLimit, commit: Commit = commitAlone(this.#store)): Promise<void> {
    return this.#limits.create(limit, commit);
  }

  /** Of an org, or of any. False when there is none. */
  async remove(limitId: string, commit: Commit = commitAlone(this.#store), orgId?: string): Promise<boolean> {
    if (this.get(limitId, orgId) === undefined) return false;
    await commit(limitId, removal(limitId));
    await this.#limits.refresh([limitId]);
    return true;
  }

  /** What takes these away; told by {@link refresh} once it is stored. */
  removalOf(limitIds: readonly string[]): readonly AlsoChanged[] {
    return limitIds.map((object) => ({ operation: 'budgets.remove', object, effects: removal(object) }));
  }

  /** Brings in what was stored of these. */
  refresh(limitIds: readonly string[]): Promise<void> {
    return this.#limits.refresh(limitIds);
  }

  /**
   * Another amount takes the place of a limit's own from now on until a time, and of the override before it.
   * @returns undefined when the org has no such limit
   */
  async override(limitId: string, orgId: string | undefined, given: GivenOverride, commit?: Commit): Promise<LimitStatus | undefined> {
    if (this.get(limitId, orgId) === undefined) return undefined;
    await this.#limits.override(limitId, given, commit ?? commitAlone(this.#store));
    return this.get(limitId, orgId);
  }

  /** The limit is as before from now on. False when the org has no such limit, or it no override. */
  async endOverride(limitId: string, orgId: string | undefined, commit: Commit = commitAlone(this.#store)): Promise<boolean> {
    return this.get(limitId, orgId)?.override !== undefined && this.#limits.endOverride(limitId, commit);
  }

  /** What has to be read before this spender's sums are known: a promise, or undefined when they are. */
  load({ orgId, delegations }: Spender): Promise<unknown> | undefined {
    return delegations === undefined ? undefined : this.#delegations.load(orgId, delegations);
  }

  /** Asks other nodes for what a call needs and this one does not hold; undefined: nobody is to be asked. */
  ask(spender: Spender, pico: bigint, monthlyCapPico: bigint | undefined): Promise<CapVerdict> | undefined {
    return this.#shared && this.askMore(this.#reservation(spender, monthlyCapPico), pico);
  }

  /** The same for a call that costs more than is set aside for it. */
  askMore(reservation: Reservation, pico: bigint): Promise<CapVerdict> | undefined {
    return this.#shared?.askFor(reservation, pico - reservation.pico, this.#hour());
  }

  /** The cap that a running call would pass. Changes nothing. */
  exceeded(reservation: Reservation, pico: bigint): CapExceeded | undefined {
    return this.#passed(reservation, pico);
  }

  /** What a running call is ended with that costs more than this node holds, and nobody can be asked. */
  endOfPart(reservation: Reservation, pico: bigint): CapExceeded | undefined {
    const hour = this.#hour();
    return this.#shared?.isShort(reservation, pico - reservation.pico, hour) ? firstCap(reservation, hour) : this.grow(reservation, pico);
  }

  /**
   * What {@link reserve} would refuse a call with. Sets nothing aside.
   * @returns `capped`: a cap holds the call, and it would not pass it; undefined: none does
   */
  look(spender: Spender, pico: bigint, monthlyCapPico: bigint | undefined): CapExceeded | 'capped' | undefined {
    const reservation = this.#reservation(spender, monthlyCapPico);
    return reservation.capped ? (this.#passed(reservation, pico) ?? 'capped') : undefined;
  }

  /**
   * Sets `pico` aside for a call whose spender is loaded, unless a cap would be passed: settled + reserved + estimate >
   * cap refuses.
   * @param monthlyCapPico the cap that policy sets for the project's month
   */
  reserve(spender: Spender, pico: bigint, monthlyCapPico: bigint | undefined): Reservation | CapExceeded {
    const reservation = this.#reservation(spender, monthlyCapPico);
    const exceeded = reservation.capped ? this.#passed(reservation, pico) : undefined;
    if (exceeded) return exceeded;
    for (const part of reservation.parts) part.open += 1;
    this.#setAside(reservation, pico);
    return reservation;
  }

  /** The cap that refuses the call; whoever wants to know is told of the first time. */
  #passed(reservation: Reservation, pico: bigint): CapExceeded | undefined {
    const hour = this.#hour();
    const exceeded = capPassed(reservation, pico, hour);
    if (exceeded !== undefined) this.#refusals.tell(exceeded, reservation.spender, pico, hour);
    return exceeded;
  }

  /** Sets aside what was so before, whatever caps say by now. */
  hold(spender: Spender, pico: bigint): Reservation {
    const reservation = this.#reservation(spender, undefined);
    this.#shared?.hold(reservation);
    reservation.pico = pico;
    this.restore(reservation);
    return reservation;
  }

  /**
   * A running call has cost `pico` so far: sets aside what that is more than its reservation, so that streams at the
   * same time cannot pass a cap together.
   * @returns the cap that it has passed; then nothing is changed
   */
  grow(reservation: Reservation, pico: bigint): CapExceeded | undefined {
    const exceeded = this.#passed(reservation, pico);
    if (exceeded === undefined && pico > reservation.pico) this.#setAside(reservation, pico);
    return exceeded;
  }

  /** Gives a reservation back; once. */
  release({ parts, pico }: Reservation): void {
    for (const part of parts) {
      part.open -= 1;
      part.reserved -= pico;
    }
  }

  /** Sets aside again what was given back, whatever caps say by now. */
  restore({ parts, pico }: Reservation): void {
    for (const part of parts) {
      part.open += 1;
      part.reserved += pico;
    }
  }

  /**
   * Counts what a call really cost, at `epochMs`; also that of one which was refused and cost something all the same.
   * Its record is to be stored next.
   */
  count(spender: Spender, costPico: bigint, epochMs: number): Counted | undefined {
    if (costPico === 0n) return undefined;
    this.#hour();
    const [scopes, hour] = [this.#book.of(spender), hourOf(epochMs)];
    const parts = partsOf(scopes, this.#delegated(spender));
    for (const part of parts) {
      part.add(hour, costPico);
      part.unstored += costPico;
    }
    const posted = this.#posts(spender.orgId) ? this.#postAll(scopes, hour) : NONE;
    return { scopes, parts, pico: costPico, hour, posted, effects: posted.length === 0 ? NONE : posted.flatMap(effectsOf) };
  }

  /** The record of a counted call could not be stored: the spend is the sum of the records that are. */
  uncount({ parts, pico, hour, posted }: Counted): void {
    for (const one of posted) unpost(one);
    for (const part of parts) {
      part.add(hour, -pico);
      part.unstored -= pico;
    }
  }

  /** The record of a counted call is stored: raises the alerts of what is now spent for certain. */
  stored({ scopes, parts, pico, hour, posted }: Counted): void {
    for (const { post } of posted) post.stored();
    for (const part of parts) part.unstored -= pico;
    for (const scope of scopes) if (scope.limits.alerts.length > 0) this.#raise(scope, hour);
  }

  /** Raises what was reached when a process ended before it could say so. */
  raiseMissed(): void {
    const hour = this.#hour();
    for (const { limit } of this.#limits.all()) {
      const scope = this.#scopeOf(limit);
      if (this.#posts(limit.org_id)) this.#postAlone(this.#post(scope, hour));
      this.#raise(scope, hour);
    }
  }

  /** Whether anybody wants alerts of this org that are not lost. */
  #posts(orgId: string): boolean {
    return this.#outbox?.wants('budgetAlert', orgId) === true;
  }

  /** Those that no record can carry any more. */
  #postAlone(posted: readonly PostedAlert[]): void {
    if (posted.length === 0) return;
    this.#store.commit(undefined, posted.flatMap(effectsOf)).then(
      () => {
        for (const { post } of posted) post.stored();
      },
      () => {
        for (const one of posted) unpost(one);
      },
    );
  }

  #postAll(scopes: readonly ScopeSpend[], hour: number): readonly PostedAlert[] {
    const posted: PostedAlert[] = [];
    for (const scope of scopes) if (scope.limits.alerts.length > 0) posted.push(...this.#post(scope, hour));
    return posted;
  }

  /**
   * The alerts of what is spent with this cost and with those whose records are handed over before it: commits become
   * visible in that order, so that the record which carries an alert is never there without them.
   */
  #post(scope: ScopeSpend, hour: number): readonly PostedAlert[] {
    const posted: PostedAlert[] = [];
    for (const { budgets, period } of scope.limits.alerts) {
      const spent = scope.settled(period, hour);
      const periodStart = startText(period, scope.start(period, hour));
      for (const budget of budgets) {
        const level = newsOf(budget, periodStart, spent, 'posted');
        if (level === undefined || this.#outbox === undefined) continue;
        const post = this.#outbox.post('budgetAlert', { limit: limitInForce(budget), level, periodStart, spentUsd: usdFromPico(spent) });
        posted.push({ budget, before: budget.posted, post });
        budget.posted = alertedOf(budget, periodStart, level);
      }
    }
    return posted;
  }

  /**
   * Once per period and level. It is said first and kept afterwards: a crash between the two repeats an alert and never
   * loses one.
   */
  #raise(scope: ScopeSpend, hour: number): void {
    for (const line of scope.limits.alerts) {
      const spent = scope.settled(line.period, hour) - scope.unstored;
      const start = scope.start(line.period, hour);
      if (line.start !== start) look(line, start);
      if (line.next !== undefined && spent >= line.next) this.#say(line, start, spent);
    }
  }

  #say(line: AlertLine, start: number, spent: bigint): void {
    const periodStart = startText(line.period, start);
    for (const budget of line.budgets) {
      const level = newsOf(budget, periodStart, spent);
      if (level === undefined) continue;
      const limit = limitInForce(budget);
      budget.alerted = alertedOf(budget, periodStart, level);
      // Who wants to know from later on is not told of what was reached before.
      budget.posted = later(budget.posted, budget.alerted);
      this.#events.emit('budgetAlert', { limit, level, periodStart, spentUsd: usdFromPico(spent) });
      this.#store.commit(undefined, [{ op: 'put', space: ALERTED, key: limit.limit_id, value: budget.alerted }]).catch(() => undefined);
    }
    look(line, start);
  }

  /**
   * Of nothing, so far. Written out, with no member taken over from another object: that made it fifteen times as dear.
   */
  #reservation(spender: Spender, monthlyCapPico: bigint | undefined): Reservation {
    const delegated = this.#delegated(spender);
    const scopes = this.#book.of(spender);
    let capped = monthlyCapPico !== undefined || delegated.length > 0;
    let watched = false;
    for (const { limits } of scopes) {
      if (limits.caps.length > 0) capped = true;
      if (limits.alerts.length > 0) watched = true;
    }
    return {
      spender,
      scopes,
      delegated,
      parts: partsOf(scopes, delegated),
      pico: 0n,
      capped,
      watched: capped || watched,
      project: scopes[PROJECT],
      monthlyCapPico,
    };
  }

  /** Those of its delegations that somebody holds in memory: all of them while a reservation of the call is open. */
  #delegated({ orgId, delegations }: Spender): readonly DelegatedSpend[] {
    if (delegations === undefined) return NONE;
    return delegations.flatMap(({ delegationId, capUsd }): readonly DelegatedSpend[] => {
      const spend = this.#delegations.find(orgId, delegationId);
      return spend === undefined ? NONE : [{ delegationId, capPico: picoFromUsd(capUsd), spend }];
    });
  }

  #setAside(reservation: Reservation, pico: bigint): void {
    const more = pico - reservation.pico;
    for (const part of reservation.parts) part.reserved += more;
    reservation.pico = pico;
  }

  /** The hour that it is, with the overrides in force that are by now. */
  #hour(): number {
    const now = this.#clock.now();
    this.#limits.at(now);
    return hourOf(now);
  }

  #scopeOf(limit: BudgetLimit): ScopeSpend {
    return this.#book.scope(limit.org_id, limit.scope, limit.scope_id ?? '');
  }
}

function removal(limitId: string): readonly Effect[] {
  return [...limitRemoval(limitId), ...[ALERTED, POSTED, REFUSED].map((space) => ({ op: 'delete', space, key: limitId }) as const)];
}

function effectsOf({ budget, post }: PostedAlert): readonly Effect[] {
  return [...post.effects, { op: 'put', space: POSTED, key: budget.limit.limit_id, value: budget.posted }];
}

/** What was to carry it could not be stored: the next cost raises it. */
function unpost({ budget, before, post }: PostedAlert): void {
  budget.posted = before;
  post.failed();
}

function look(line: AlertLine, start: number): void {
  line.start = start;
  line.next = nextNews(line.budgets, startText(line.period, start));
}
