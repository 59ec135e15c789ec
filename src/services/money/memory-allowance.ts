import type { Maybe } from '../../base/lib/maybe.ts';
import { parseUsd } from '../../base/lib/money.ts';
import type { Effect } from '../../storage/contract/store.ts';
import type {
  Allowance,
  Ask,
  CapExceeded,
  Grant,
  Peeked,
  Question,
  Refused,
  RuleLimit,
  SettledCall,
  SpendAsk,
  UnavailableRefusal,
} from './allowance.ts';
import type { BudgetService, Counted } from './budgets.ts';
import type { CountedRequest, MonthlyRequestService } from './monthly-requests.ts';
import type { RateLimitService } from './rate-limits.ts';
import { isExceeded, type Reservation } from './reservation.ts';
import type { CapVerdict } from './shared-ledger.ts';

const NONE: readonly never[] = [];

interface Parts {
  readonly rates: RateLimitService;
  readonly months: MonthlyRequestService;
  readonly budgets: BudgetService;
  /**
   * Whether calls of an org go on, counted here alone, when other nodes cannot be asked for what a cap leaves. Default:
   * none does.
   */
  readonly goesOn?: (orgId: string) => boolean;
}

/** When a call that nobody could be asked for may be tried again. */
const RETRY_AFTER_SECONDS = 5;

/** What stands behind a grant. */
interface Open {
  readonly grant: Grant;
  readonly tokens: (Pick<Ask, 'orgId' | 'workloadId'> & { readonly rules: readonly RuleLimit[] }) | undefined;
  readonly request: CountedRequest | undefined;
  readonly reservation: Reservation | undefined;
  /** Until its record is stored. */
  settled: { readonly counted: Counted | undefined; readonly isMade: boolean; readonly effects: readonly Effect[] } | undefined;
}

/**
 * Counts in the memory of this process, and answers at once, unless a delegation has to be read first. Checking and
 * taking happen without a pause, so that no other call comes between. Where nodes share caps, one whose node does not
 * hold what it needs waits for an exchange, and is checked again then. A start begins from the counters in the store;
 * buckets are full then, which errs for the caller once.
 */
export class MemoryAllowance implements Allowance {
  readonly #rates: RateLimitService;
  readonly #months: MonthlyRequestService;
  readonly #budgets: BudgetService;
  readonly #goesOn: (orgId: string) => boolean;
  readonly #open = new Map<string, Open>();

  constructor({ rates, months, budgets, goesOn = () => false }: Parts) {
    this.#rates = rates;
    this.#months = months;
    this.#budgets = budgets;
    this.#goesOn = goesOn;
  }

  take(ask: Ask): Maybe<Grant | Refused | undefined> {
    const known = this.#open.get(ask.id);
    if (known !== undefined) return known.grant;
    const loading = ask.spend?.spender.delegations && this.#budgets.load(ask.spend.spender);
    if (loading !== undefined) return loading.then(() => this.take(ask));
    const asked = ask.spend?.regardless ? undefined : this.#ask(ask);
    return asked === undefined ? this.#take(ask) : asked.then((verdict) => this.#answered(ask, verdict));
  }

  /** Other nodes, for a request or for money that this one does not hold. */
  #ask({ orgId, month, spend }: Question): Promise<CapVerdict> | undefined {
    if (!this.#budgets.isShared) return undefined;
    const asked = month && this.#months.ask(orgId);
    if (asked !== undefined || spend === undefined) return asked;
    return this.#budgets.ask(spend.spender, BigInt(spend.pico), capOf(spend.monthlyCapUsd));
  }

  #answered(ask: Ask, verdict: CapVerdict): Maybe<Grant | Refused | undefined> {
    const known = this.#open.get(ask.id);
    if (known !== undefined) return known.grant;
    if (verdict === 'unavailable') return this.#goesOn(ask.orgId) ? this.#take(ask) : UNAVAILABLE;
    // What an exchange has refused may fit by now: then it is asked for again, and never taken without that.
    return verdict === 'refused' && this.#passed(ask) !== undefined ? this.#take(ask) : this.take(ask);
  }

  /** The limit or cap that a call would pass. */
  #passed({ orgId, month, spend }: Question): Refused | undefined {
    const requests = month && this.#months.look(orgId);
    if (requests !== undefined) return requests;
    const passed = spend && this.#budgets.look(spend.spender, BigInt(spend.pico), capOf(spend.monthlyCapUsd));
    return passed === 'capped' ? undefined : passed;
  }

  #take(ask: Ask): Grant | Refused | undefined {
    const { id, orgId, workloadId, month, rate, spend } = ask;
    const request = month ? this.#months.count(orgId) : undefined;
    if (request !== undefined && 'kind' in request) return request;
    const taken = this.#takeRest(ask);
    if (taken !== undefined && 'kind' in taken) {
      if (request) this.#months.uncount(request);
      return taken;
    }
    if (request === undefined && rate === undefined && taken === undefined) return undefined;
    const grant = { id, capped: taken?.capped === true, watched: taken?.watched === true, pico: spend?.pico ?? '0' };
    const tokens = rate && { orgId, workloadId, rules: rate.rules };
    this.#open.set(id, { grant, tokens, request, reservation: taken, settled: undefined });
    return grant;
  }

  /** Tokens and money. */
  #takeRest({ orgId, workloadId, rate, spend }: Ask): Reservation | Refused | undefined {
    const refused = rate && this.#rates.take(orgId, workloadId, rate.rules);
    if (refused !== undefined || spend === undefined) return refused;
    const reservation = this.#reserve(spend);
    if (rate && isExceeded(reservation)) this.#rates.giveBack(orgId, workloadId, rate.rules);
    return reservation;
  }

  #reserve({ spender, pico, monthlyCapUsd, regardless }: SpendAsk): Reservation | CapExceeded {
    if (regardless) return this.#budgets.hold(spender, BigInt(pico));
    return this.#budgets.reserve(spender, BigInt(pico), capOf(monthlyCapUsd));
  }

  peek(question: Question): Maybe<Peeked> {
    const spender = question.spend?.spender;
    const loading = spender && this.#budgets.load(spender);
    if (loading !== undefined) return loading.then(() => this.peek(question));
    const asked = this.#ask(question);
    if (asked === undefined) return this.#peek(question);
    return asked.then((verdict) => {
      const peeked = this.#peek(question);
      const isUnknown = verdict === 'unavailable' && peeked.refused === undefined && !this.#goesOn(question.orgId);
      return isUnknown ? { ...peeked, refused: UNAVAILABLE } : peeked;
    });
  }

  #peek({ orgId, workloadId, month, rate, spend }: Question): Peeked {
    const empty = rate === undefined ? NONE : this.#rates.exhausted(orgId, workloadId, rate.rules);
    const requests = month ? this.#months.look(orgId) : undefined;
    const held =
      requests ??
      (rate && (rate.alone ? this.#rates.refusalBy(orgId, workloadId, rate.rules) : this.#rates.look(orgId, workloadId, rate.rules)));
    if (held !== undefined || spend === undefined) return { refused: held, capped: false, empty };
    const cap = this.#budgets.look(spend.spender, BigInt(spend.pico), capOf(spend.monthlyCapUsd));
    return { refused: cap === 'capped' ? undefined : cap, capped: cap !== undefined, empty };
  }

  grow(id: string, pico: bigint): Maybe<CapExceeded | undefined> {
    const open = this.#open.get(id);
    if (open?.reservation === undefined || open.settled) return undefined;
    const { reservation, grant } = open;
    const asked = grant.capped && pico > reservation.pico ? this.#budgets.askMore(reservation, pico) : undefined;
    if (asked === undefined) return this.#budgets.grow(reservation, pico);
    return asked.then((verdict) => {
      if (open.settled || this.#open.get(id) !== open) return undefined;
      const exceeded = verdict === 'granted' ? undefined : this.#budgets.exceeded(reservation, pico);
      if (exceeded !== undefined) return exceeded;
      if (verdict !== 'unavailable') return this.grow(id, pico);
      // It ends where this node's part of a cap does: what others have left of it nobody can say.
      return this.#goesOn(reservation.spender.orgId) ? this.#budgets.grow(reservation, pico) : this.#budgets.endOfPart(reservation, pico);
    });
  }

  settle(id: string, settled?: SettledCall): readonly Effect[] {
    const open = this.#open.get(id);
    if (open === undefined) return NONE;
    if (open.settled) return open.settled.effects;
    const { request, reservation } = open;
    if (reservation) this.#budgets.release(reservation);
    const counted = settled && this.#budgets.count(settled.spender, settled.pico, settled.at);
    const effects = request ? [this.#months.effect(request), ...(counted?.effects ?? NONE)] : (counted?.effects ?? NONE);
    open.settled = { counted, isMade: settled?.isMade !== false, effects };
    return effects;
  }

  stored(id: string): void {
    const open = this.#open.get(id);
    if (open?.settled === undefined) return;
    this.#open.delete(id);
    const { counted, isMade } = open.settled;
    if (open.request) this.#months.stored(open.request);
    if (counted) this.#budgets.stored(counted);
    if (!isMade) this.#refill(open);
  }

  failed(id: string): void {
    const open = this.#open.get(id);
    if (open?.settled === undefined) return;
    const { counted } = open.settled;
    open.settled = undefined;
    if (counted) this.#budgets.uncount(counted);
    if (open.reservation) this.#budgets.restore(open.reservation);
  }

  giveBack(id: string, isMade = false): void {
    this.failed(id);
    const open = this.#open.get(id);
    if (open === undefined) return;
    this.#open.delete(id);
    const { request, reservation } = open;
    if (reservation) this.#budgets.release(reservation);
    if (request) this.#months.uncount(request);
    if (!isMade) this.#refill(open);
  }

  #refill({ tokens }: Open): void {
    if (tokens) this.#rates.giveBack(tokens.orgId, tokens.workloadId, tokens.rules);
  }
}

/** Nobody can be asked, and what this node holds does not reach. */
const UNAVAILABLE: UnavailableRefusal = { kind: 'unavailable', retryAfterSeconds: RETRY_AFTER_SECONDS };

function capOf(usd: string | undefined): bigint | undefined {
  return usd === undefined ? undefined : parseUsd(usd);
}
