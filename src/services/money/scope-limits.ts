import { shareOf } from '../../base/lib/amounts.ts';
import {
  BUDGET_PERIODS,
  type BudgetLevel,
  type BudgetLimit,
  type BudgetOverride,
  type BudgetPeriod,
} from '../../base/model/budget-limit.ts';

export interface Alerted {
  readonly periodStart: string;
  readonly level: BudgetLevel;
  /** Of which amount, where that was not the limit's own: under another one its thresholds are reached anew. */
  readonly overriddenUsd?: string;
}

/** A limit as the spend of its scope sees it. */
export interface Budget {
  readonly limit: BudgetLimit;
  /** What holds now. */
  capPico: bigint;
  /** The override that holds now. */
  override?: BudgetOverride | undefined;
  /** First day of the window and level of the last alert. */
  alerted: Alerted | undefined;
  /** The same of the last alert that was handed to the outbox. */
  posted?: Alerted | undefined;
  /** Of the last alert that its cap refuses: `exceeded`, and not what thresholds have said. */
  refused?: Alerted | undefined;
}

/** The limits of one period that alert, and from which amount on one of them has something to say. */
export interface AlertLine {
  readonly period: BudgetPeriod;
  readonly budgets: readonly Budget[];
  /** First day of the window that `next` is of; undefined: to be looked up anew. */
  start: number | undefined;
  /** Pico-dollars; undefined: all has been said in this window. */
  next: bigint | undefined;
}

const LEVELS: readonly BudgetLevel[] = ['warning', 'critical', 'exceeded'];

/**
 * The limits of one scope, prepared when they change, so that a call asks at most once per period however many there
 * are.
 */
export class ScopeLimits {
  #all: readonly Budget[] = [];
  /** Of each period the cap that is reached first: what it lets through, all others do. */
  caps: readonly Budget[] = [];
  alerts: readonly AlertLine[] = [];

  get isEmpty(): boolean {
    return this.#all.length === 0;
  }

  hold(budget: Budget): void {
    this.#prepare([...this.#all, budget]);
  }

  drop(budget: Budget): void {
    this.#prepare(this.#all.filter((one) => one !== budget));
  }

  /** An amount has changed. */
  refresh(): void {
    this.#prepare(this.#all);
  }

  #prepare(all: readonly Budget[]): void {
    this.#all = all;
    this.caps = BUDGET_PERIODS.flatMap((period) => tightest(of(all, period, 'cap')) ?? []);
    this.alerts = BUDGET_PERIODS.flatMap((period) => {
      const budgets = of(all, period, 'alert');
      return budgets.length === 0 ? [] : [{ period, budgets, start: undefined, next: undefined }];
    });
  }
}

function of(all: readonly Budget[], period: BudgetPeriod, action: 'alert' | 'cap'): readonly Budget[] {
  return all.filter(({ limit }) => limit.period === period && limit.actions.includes(action));
}

function tightest(budgets: readonly Budget[]): Budget | undefined {
  let found: Budget | undefined;
  for (const budget of budgets) if (found === undefined || budget.capPico < found.capPico) found = budget;
  return found;
}

/** The least spend at which one of these limits has news in the window that begins on `periodStart`. */
export function nextNews(budgets: readonly Budget[], periodStart: string): bigint | undefined {
  let least: bigint | undefined;
  for (const budget of budgets) {
    for (const level of LEVELS) {
      if (!isNews(budget, budget.alerted, periodStart, level)) continue;
      const from = reachedAt(budget, level);
      if (least === undefined || from < least) least = from;
    }
  }
  return least;
}

/**
 * The level that `spent` has reached, if it was not alerted (or posted) yet in the window that begins on `periodStart`.
 */
export function newsOf(budget: Budget, periodStart: string, spent: bigint, by: 'alerted' | 'posted' = 'alerted'): BudgetLevel | undefined {
  const level = LEVELS.findLast((one) => spent >= reachedAt(budget, one));
  return level !== undefined && isNews(budget, budget[by], periodStart, level) ? level : undefined;
}

/**
 * The one of two alerts that says more: of the later window, or of the higher level; `b` where they are of two amounts.
 */
export function later(a: Alerted | undefined, b: Alerted | undefined): Alerted | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  if (a.periodStart !== b.periodStart) return a.periodStart > b.periodStart ? a : b;
  if (a.overriddenUsd !== b.overriddenUsd) return b;
  return LEVELS.indexOf(a.level) > LEVELS.indexOf(b.level) ? a : b;
}

/** Asked once per window and level, not by each call. */
function reachedAt({ limit, capPico }: Budget, level: BudgetLevel): bigint {
  if (level === 'exceeded') return capPico;
  const percent = level === 'critical' ? limit.critical_threshold_pct : limit.warning_threshold_pct;
  return shareOf(capPico, percent);
}

function isNews({ override, refused }: Budget, said: Alerted | undefined, periodStart: string, level: BudgetLevel): boolean {
  if (level === 'exceeded' && refused?.periodStart === periodStart && refused.overriddenUsd === override?.limit_usd) return false;
  if (said?.periodStart !== periodStart || said.overriddenUsd !== override?.limit_usd) return true;
  return LEVELS.indexOf(level) > LEVELS.indexOf(said.level);
}

/** Whether nobody was told yet, in the window that begins on `periodStart`, that the limit is reached. */
export function isRefusalNews(budget: Budget, periodStart: string): boolean {
  return isNews(budget, budget.alerted, periodStart, 'exceeded') && isNews(budget, budget.posted, periodStart, 'exceeded');
}

/** What is remembered of an alert. */
export function alertedOf({ override }: Budget, periodStart: string, level: BudgetLevel): Alerted {
  return { periodStart, level, ...(override === undefined ? {} : { overriddenUsd: override.limit_usd }) };
}

/** The limit with the amount that holds now. */
export function limitInForce({ limit, override }: Budget): BudgetLimit {
  return override === undefined ? limit : { ...limit, limit_usd: override.limit_usd };
}
