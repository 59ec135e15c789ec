import { readAmount } from '../../base/lib/amounts.ts';
import { usdFromPico } from '../../base/lib/money.ts';
import { BUDGET_ACTIONS, type BudgetAction, type BudgetLimit } from '../../base/model/budget-limit.ts';
import { PERIODS } from '../../decide/limits/windows.ts';
import { BUDGET_SCOPES } from '../../services/spend-book.ts';
import { BodyMembers } from '../http/body-members.ts';

const MEMBERS = ['org_id', 'scope', 'scope_id', 'limit_usd', 'period', 'warning_threshold_pct', 'critical_threshold_pct', 'actions'];
const WARNING_PCT = 80;
const CRITICAL_PCT = 95;
/** Prefixes of ids that name a custom connector. */
const CUSTOM = /^(?:custom|catalog):[\x21-\x7e]{1,120}$/;

export interface BudgetBodyContext {
  readonly defaultOrg: string;
  /** The canonical connector id of a provider's name; undefined when there is none (decision 1). */
  canonicalProvider(text: string): string | undefined;
}

/** Checks a budget limit (specification, "Budget limit creation rules"). @throws GatewayError `invalid_request` */
export function parseBudgetLimit(body: unknown, context: BudgetBodyContext): Omit<BudgetLimit, 'limit_id' | 'created_at'> {
  const members = new BodyMembers(body, MEMBERS);
  const scope = members.choice('scope', BUDGET_SCOPES);
  if (members.value('scope') === undefined) members.problem('scope', `must be one of ${BUDGET_SCOPES.join(', ')}`);
  const warning = members.integer('warning_threshold_pct', 1, 100) ?? WARNING_PCT;
  const critical = members.integer('critical_threshold_pct', 1, 100) ?? Math.max(CRITICAL_PCT, warning);
  if (critical < warning) members.problem('critical_threshold_pct', 'must not be lower than warning_threshold_pct');
  const scopeId = scope === undefined ? undefined : scopeIdOf(members, scope, context);
  const limit = {
    org_id: members.id('org_id') ?? context.defaultOrg,
    scope: scope ?? 'org',
    ...(scopeId === undefined ? {} : { scope_id: scopeId }),
    limit_usd: amount(members),
    period: members.choice('period', PERIODS) ?? 'monthly',
    warning_threshold_pct: warning,
    critical_threshold_pct: critical,
    actions: actions(members),
  } as const;
  members.check('The budget limit');
  return limit;
}

function scopeIdOf(members: BodyMembers, scope: BudgetLimit['scope'], context: BudgetBodyContext): string | undefined {
  if (scope === 'org') {
    if (members.value('scope_id') !== undefined) members.problem('scope_id', 'has no place in a limit of the whole org');
    return undefined;
  }
  if (scope === 'project') {
    if (members.value('scope_id') === undefined) members.problem('scope_id', 'must be text of at most 256 characters');
    return members.text('scope_id');
  }
  const id = members.requiredId('scope_id');
  if (scope !== 'provider' || id === '' || CUSTOM.test(id)) return id;
  const canonical = context.canonicalProvider(id);
  if (canonical === undefined) members.problem('scope_id', 'must be a provider id such as openai, or custom:<id>; a host name is none');
  return canonical ?? id;
}

/** As all amounts are told (decision 8.8), without the zeros that it may have come with. */
function amount(members: BodyMembers): string {
  const text = members.value('limit_usd');
  const pico = typeof text === 'string' ? readAmount(text) : undefined;
  if (pico !== undefined) return usdFromPico(pico);
  members.problem('limit_usd', 'must be a decimal text of dollars such as "250.00"');
  return '0';
}

/** Left out: alert. An explicit empty list is a draft that does nothing. */
function actions(members: BodyMembers): readonly BudgetAction[] {
  const value = members.value('actions');
  if (value === undefined) return ['alert'];
  const chosen = Array.isArray(value) ? BUDGET_ACTIONS.filter((action) => value.includes(action)) : [];
  const known = Array.isArray(value) && value.every((one) => BUDGET_ACTIONS.some((action) => action === one));
  if (!known) members.problem('actions', `must be a list of ${BUDGET_ACTIONS.join(' and ')}`);
  return chosen;
}
