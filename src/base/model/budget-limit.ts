/**
 * What happens at a budget limit: `alert` says so at the thresholds, `cap` refuses what would pass it. None of them: a
 * draft.
 */
export const BUDGET_ACTIONS = ['alert', 'cap'] as const;
export type BudgetAction = (typeof BUDGET_ACTIONS)[number];

/** A budget begins anew with each of these windows. The shortest stands first. */
export const BUDGET_PERIODS = ['hourly', 'daily', 'weekly', 'monthly'] as const;
export type BudgetPeriod = (typeof BUDGET_PERIODS)[number];

/** A budget of one scope and period (specification, "Budget limit"; the thresholds' defaults are 80 and 95). */
export interface BudgetLimit {
  readonly limit_id: string;
  readonly org_id: string;
  readonly scope: 'org' | 'project' | 'workload' | 'provider';
  /** Absent for the scope `org`. */
  readonly scope_id?: string;
  /** Decimal text. */
  readonly limit_usd: string;
  readonly period: BudgetPeriod;
  readonly warning_threshold_pct: number;
  readonly critical_threshold_pct: number;
  readonly actions: readonly BudgetAction[];
  readonly created_at: string;
}

/** What takes the place of a limit's amount until a time (decision 6.14). */
export interface BudgetOverride {
  readonly org_id: string;
  /** Decimal text. */
  readonly limit_usd: string;
  /** From then on the limit is as before. */
  readonly until: string;
  readonly reason?: string;
  readonly created_at: string;
}

/** How near a limit its spend has come. */
export type BudgetLevel = 'warning' | 'critical' | 'exceeded';

/**
 * What an alert says of the limit that it is about: of a cap that a rule sets for a project, and of the budget of a
 * delegation, as of a budget limit.
 */
export interface AlertedLimit {
  readonly limit_id: string;
  readonly org_id: string;
  readonly scope: BudgetLimit['scope'] | 'delegation';
  readonly scope_id?: string;
  readonly limit_usd: string;
  /** `life`: nothing of it begins anew. */
  readonly period: BudgetPeriod | 'life';
}

/**
 * A budget reached a threshold, once per period and level (decision 6.2), or its cap refused a call for the first time
 * in the period (decision 6.19).
 */
export interface BudgetAlert {
  /** Its amount is the one that holds now, under an override too. */
  readonly limit: AlertedLimit;
  readonly level: BudgetLevel;
  /**
   * The first day of the window (`2026-11-01`), the start of an hourly one (`2026-11-01T17:00:00Z`), or empty for a
   * budget without a window.
   */
  readonly periodStart: string;
  /** Decimal text. */
  readonly spentUsd: string;
  /** Of the call that was refused; absent: a threshold was reached. */
  readonly refusal?: {
    readonly estimateUsd: string;
    /** What calls under way had set aside. */
    readonly reservedUsd: string;
    /** When the cap begins anew; absent: never. */
    readonly resetsAt?: string;
  };
}

/** The cap that refused a call, as its record and its answer tell it (decision 6.19). Amounts are decimal text. */
export interface RecordedBudget {
  /** `request`: the cap of one request; `month`: that of a project's month, both set by policy. */
  readonly kind: 'request' | 'limit' | 'month' | 'delegation';
  readonly limit_id?: string;
  readonly delegation_id?: string;
  readonly scope?: BudgetLimit['scope'];
  readonly scope_id?: string;
  readonly period?: BudgetPeriod;
  readonly limit_usd: string;
  /** What the call may cost, or had cost when it was ended. */
  readonly cost_usd: string;
  /** Settled. */
  readonly spent_usd?: string;
  /** Set aside for calls under way. */
  readonly reserved_usd?: string;
  /** When it begins anew. */
  readonly resets_at?: string;
}

/**
 * Which cap has refused a recorded call, with its amounts, in words; undefined for a record of another refusal, or of
 * none (decision 6.19).
 */
export function capSentence(record: Readonly<Record<string, unknown>>): string | undefined {
  const budget = record['budget'] as Partial<RecordedBudget> | null | undefined;
  if (typeof budget !== 'object' || typeof budget?.limit_usd !== 'string') return undefined;
  const { limit_usd: limit, cost_usd: cost, spent_usd: spent, reserved_usd: reserved, resets_at: until } = budget;
  const aside = reserved === undefined || reserved === '0' ? '' : ` and ${reserved} USD set aside`;
  const used = spent === undefined ? '' : `, ${spent} USD of it spent${aside}`;
  return `${nameOf(budget)} is ${limit} USD${used}${until === undefined ? '' : ` until ${until}`}; this call may cost ${cost} USD`;
}

function nameOf({ kind, limit_id: id, delegation_id: delegation, scope, scope_id: of, period }: Partial<RecordedBudget>): string {
  if (kind === 'request') return 'the cap of one request';
  if (kind === 'month') return 'the cap of its project for a month';
  if (kind === 'delegation') return `the budget of its delegation ${delegation}`;
  return `the ${period} limit of ${scope === 'org' || of === undefined ? 'the org' : `${scope} ${of}`} (${id})`;
}
