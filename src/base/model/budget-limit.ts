/** What happens at a budget limit: `alert` says so at the thresholds, `cap` refuses what would pass it. None of them: a draft. */
export const BUDGET_ACTIONS = ['alert', 'cap'] as const;
export type BudgetAction = (typeof BUDGET_ACTIONS)[number];

/** A budget of one scope and period (specification, "Budget limit"; the thresholds' defaults are 80 and 95). */
export interface BudgetLimit {
  readonly limit_id: string;
  readonly org_id: string;
  readonly scope: 'org' | 'project' | 'workload' | 'provider';
  /** Absent for the scope `org`. */
  readonly scope_id?: string;
  /** Decimal text. */
  readonly limit_usd: string;
  readonly period: 'daily' | 'weekly' | 'monthly';
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

/** A budget reached a threshold, once per period and level (decision 6.2). */
export interface BudgetAlert {
  /** Its amount is the one that holds now, under an override too. */
  readonly limit: BudgetLimit;
  readonly level: BudgetLevel;
  /** First day of the window, `2026-11-01`. */
  readonly periodStart: string;
  /** Decimal text. */
  readonly spentUsd: string;
}
