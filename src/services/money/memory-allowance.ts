import type { Maybe } from '../../base/lib/maybe.ts';
import { parseUsd } from '../../base/lib/money.ts';
import type { Effect } from '../../storage/contract/store.ts';
import type { Allowance, Ask, CapExceeded, Grant, Peeked, Question, Refused, RuleLimit, SettledCall, SpendAsk } from './allowance.ts';
import type { BudgetService, Counted } from './budgets.ts';
import type { CountedRequest, MonthlyRequestService } from './monthly-requests.ts';
import type { RateLimitService } from './rate-limits.ts';
import { isExceeded, type Reservation } from './reservation.ts';

const NONE: readonly never[] = [];

interface Parts {
  readonly rates: RateLimitService;
  readonly months: MonthlyRequestService;
  readonly budgets: BudgetService;
}

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
 * taking happen without a pause, so that no other call comes between. A start begins from the counters in the store;
 * buckets are full then, which errs for the caller once.
 */
export class MemoryAllowance implements Allowance {
  readonly #rates: RateLimitService;
  readonly #months: MonthlyRequestService;
  readonly #budgets: BudgetService;
  readonly #open = new Map<string, Open>();

  constructor({ rates, months, budgets }: Parts) {
    this.#rates = rates;
    this.#months = months;
    this.#budgets = budgets;
  }

  take(ask: Ask): Maybe<Grant | Refused | undefined> {
    const known = this.#open.get(ask.id);
    if (known !== undefined) return known.grant;
    const loading = ask.spend?.spender.delegations && this.#budgets.load(ask.spend.spender);
    return loading === undefined ? this.#take(ask) : loading.then(() => this.take(ask));
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
    return loading === undefined ? this.#peek(question) : loading.then(() => this.peek(question));
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

  grow(id: string, pico: bigint): CapExceeded | undefined {
    const open = this.#open.get(id);
    return open?.reservation === undefined || open.settled ? undefined : this.#budgets.grow(open.reservation, pico);
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

function capOf(usd: string | undefined): bigint | undefined {
  return usd === undefined ? undefined : parseUsd(usd);
}
