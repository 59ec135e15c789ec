import { z } from 'zod';
import { isCustomConnectorId } from '../base/catalogue/connector-id.ts';
import { readAmount } from '../base/lib/amounts.ts';
import { parseTime, timestamp } from '../base/lib/clock.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { uuidv7 } from '../base/lib/ids.ts';
import { usdFromPico } from '../base/lib/money.ts';
import { BUDGET_ACTIONS, BUDGET_PERIODS, type BudgetLimit, type BudgetOverride } from '../base/model/budget-limit.ts';
import type { LimitStatus } from '../services/money/budgets.ts';
import { RivalLimits } from '../services/money/rival-limits.ts';
import { BUDGET_SCOPES } from '../services/money/spend-book.ts';
import type { Commit } from '../services/registers/commit.ts';
import { ALSO_WHEN_WRONG, choice, id, members, optional, requiredId, ruled, text, wholeNumber } from './members.ts';
import { ADDS, type GatewayOperation, operation, READS, REMOVES, REPLACES, type Shown } from './operation.ts';
import type { OperationServices } from './services.ts';
import { pathId, time, timeToCome, usd } from './shapes.ts';
import { LIMIT_FORECAST, shownLimitForecast } from './shown-forecast.ts';

const WARNING_PCT = 80;
const CRITICAL_PCT = 95;
const AMOUNT_RULE = 'must be a decimal text of dollars such as "250.00"';
const ACTIONS_RULE = `must be a list of ${BUDGET_ACTIONS.join(' and ')}`;
const amount = z
  .string(AMOUNT_RULE)
  .refine((given) => readAmount(given) !== undefined, AMOUNT_RULE)
  .meta({ examples: ['250.00'] });
/** Whose limit it is; a project may have any name, and the calls without one have the empty one. */
const WHOSE = {
  project: 'is needed for the scope project: the name of the project, at most 256 characters',
  workload: 'is needed for the scope workload: the id of the workload',
  provider: 'is needed for the scope provider: a provider id such as openai, or custom:<id> of a connector of the org',
} as const;
/** The same for what nobody has and for what another org has. */
const PROVIDER_RULE = 'must be a provider id such as openai, or custom:<id> of a connector of the org; a host name is none';

type Services = Pick<OperationServices, 'budgets' | 'customConnectors' | 'workloads'>;

/** Members of a budget limit (specification, "Budget limit creation rules"). */
function limitMembers() {
  const percent = wholeNumber(1, 100);
  return {
    scope: choice(BUDGET_SCOPES),
    warning_threshold_pct: percent.optional().meta({ default: WARNING_PCT }),
    critical_threshold_pct: percent.optional().meta({ default: CRITICAL_PCT }),
    scope_id: z.unknown().optional().meta({ type: 'string', description: 'Not for the scope `org`' }),
    limit_usd: amount,
    period: choice(BUDGET_PERIODS).optional().meta({ default: 'monthly' }),
    actions: ruled<readonly string[]>(
      (value) => Array.isArray(value) && value.every((one) => BUDGET_ACTIONS.some((action) => action === one)),
      ACTIONS_RULE,
    )
      .optional()
      .meta({
        type: 'array',
        items: { type: 'string', enum: BUDGET_ACTIONS },
        description: 'alert tells, cap refuses; default alert; none: a draft',
      }),
  };
}

function ownBody({ budgets }: Pick<Services, 'budgets'>) {
  return members(limitMembers()).superRefine((limit, { addIssue }) => {
    for (const [path, message] of limitMistakes(limit, budgets)) addIssue({ code: 'custom', path: [path], message });
  }, ALSO_WHEN_WRONG);
}

/** A limit of the caller's own org. */
export function limitBody(services: Pick<Services, 'budgets'>): ReturnType<typeof ownBody> {
  return ownBody(services);
}

function anyOrgBody({ budgets }: Pick<Services, 'budgets'>) {
  return members({ ...limitMembers(), org_id: id.optional() }).superRefine((limit, { addIssue }) => {
    for (const [path, message] of limitMistakes(limit, budgets)) addIssue({ code: 'custom', path: [path], message });
  }, ALSO_WHEN_WRONG);
}

/** What `scope_id` may be depends on the scope. */
function limitMistakes(limit: Partial<LimitBody>, { canonicalProvider }: Services['budgets']): readonly (readonly [string, string])[] {
  const mistakes: [string, string][] = [];
  const { warning, critical } = thresholds(limit);
  if (critical < warning) mistakes.push(['critical_threshold_pct', 'must not be lower than warning_threshold_pct']);
  const message = scopeIdMistake(limit, canonicalProvider);
  if (message !== undefined) mistakes.push(['scope_id', message]);
  return mistakes;
}

/** A temporary amount in the place of a limit's own. */
function overrideBody({ budgets }: Pick<Services, 'budgets'>) {
  return members({ limit_usd: amount, until: timeToCome(() => budgets.clock.now()), reason: text.optional() });
}

type LimitBody = z.output<ReturnType<typeof ownBody>>;

/** What is wrong counts as left out. */
function thresholds({ warning_threshold_pct: warning, critical_threshold_pct: critical }: Partial<LimitBody>) {
  const percent = wholeNumber(1, 100).optional().catch(undefined);
  const first = percent.parse(warning) ?? WARNING_PCT;
  return { warning: first, critical: percent.parse(critical) ?? Math.max(CRITICAL_PCT, first) };
}

function scopeIdMistake(
  { scope, scope_id: given }: Partial<LimitBody>,
  canonicalProvider: (text: string) => string | undefined,
): string | undefined {
  if (!BUDGET_SCOPES.some((known) => known === scope)) return undefined;
  if (scope === 'org') return given === undefined ? undefined : 'has no place in a limit of the whole org';
  if (given === undefined) return scope === undefined ? undefined : WHOSE[scope];
  if (scope === 'project') return text.safeParse(given).error?.issues[0]?.message;
  const read = requiredId().safeParse(given);
  if (!read.success) return read.error.issues[0]?.message;
  return scope !== 'provider' || canonicalProvider(read.data) !== undefined ? undefined : PROVIDER_RULE;
}

/**
 * The canonical id of what a limit of a provider names: a connector that is there for this org.
 * @throws GatewayError `invalid_request`
 */
function providerIn(orgId: string, named: string, { budgets, customConnectors }: Services): string {
  const id = budgets.canonicalProvider(named) ?? named;
  if (!isCustomConnectorId(id)) return id;
  const own = customConnectors.connectorId(id, orgId);
  if (own !== undefined) return own;
  const details = [{ path: 'scope_id', message: PROVIDER_RULE }];
  throw new GatewayError('invalid_request', 'The budget limit has 1 bad member(s).', { details });
}

function limitOf(orgId: string, body: LimitBody, services: Services): Omit<BudgetLimit, 'limit_id' | 'org_id' | 'created_at'> {
  const { scope, scope_id: given, actions } = body;
  const { warning, critical } = thresholds(body);
  const named = typeof given === 'string' ? given : undefined;
  return {
    scope,
    ...optional('scope_id', named === undefined || scope !== 'provider' ? named : providerIn(orgId, named, services)),
    // As all amounts are told (decision 8.8), without the zeros that it may have come with.
    limit_usd: usdFromPico(readAmount(body.limit_usd) ?? 0n),
    period: body.period ?? 'monthly',
    warning_threshold_pct: warning,
    critical_threshold_pct: critical,
    actions: BUDGET_ACTIONS.filter((action) => (actions ?? ['alert']).includes(action)),
  };
}

const OVERRIDE = z.object({ limit_usd: usd, until: time, reason: z.string().optional(), created_at: time });

export const LIMIT = z.object({
  limit_id: z.string(),
  org_id: z.string(),
  scope: z.enum(BUDGET_SCOPES),
  scope_id: z.string().optional(),
  limit_usd: usd,
  period: z.enum(BUDGET_PERIODS),
  warning_threshold_pct: z.int(),
  critical_threshold_pct: z.int(),
  actions: z.array(z.enum(BUDGET_ACTIONS)),
  created_at: time,
  period_start: z.string().meta({
    description: 'First day of the period; of an hour its start, `2026-11-01T17:00:00Z`',
    examples: ['2026-11-01'],
  }),
  spent_usd: usd,
  reserved_usd: usd,
  effective_limit_usd: usd.meta({ description: 'What holds now: the amount of the override, where there is one' }),
  override: OVERRIDE.optional(),
  forecast: LIMIT_FORECAST,
  also: z.array(z.string()).optional().meta({ description: 'Other limits of the same scope and period: all of them hold' }),
});

/**
 * What is answered to whoever makes a limit; of one that is not the first of its scope and period, which others hold
 * beside it (decision 6.20).
 */
export const CREATED_LIMIT = z.object({
  limit_id: z.string(),
  status: z.literal('created'),
  note: z.string().optional().meta({
    description:
      'That nothing counts for it yet, or that it refuses calls from now on; that other limits hold for the same scope and period, and which cap refuses first',
  }),
  also: z.array(z.object({ limit_id: z.string(), effective_limit_usd: usd, actions: z.array(z.enum(BUDGET_ACTIONS)) })).optional(),
});

/** @param rivals among those of the org, to see which hold beside it @param now epoch milliseconds, for the forecast */
export function shownLimit(status: LimitStatus, rivals: RivalLimits, now: number): Shown<z.output<typeof LIMIT>> {
  const { limit, periodStart, spentUsd, reservedUsd, effectiveUsd, override } = status;
  const also = rivals.of(status).map((other) => other.limit.limit_id);
  return {
    ...limit,
    period_start: periodStart,
    spent_usd: spentUsd,
    reserved_usd: reservedUsd,
    effective_limit_usd: effectiveUsd,
    ...(override === undefined ? {} : { override: shownOverride(override) }),
    forecast: shownLimitForecast(status, now),
    ...(also.length === 0 ? {} : { also }),
  };
}

/** The limit beside it says whose it is. */
function shownOverride({ org_id: _org, ...override }: BudgetOverride): Omit<BudgetOverride, 'org_id'> {
  return override;
}

/** Makes a limit of an org. */
export async function createLimit(
  orgId: string,
  body: LimitBody,
  services: Services,
  commit: Commit,
): Promise<{ readonly json: Shown<z.output<typeof CREATED_LIMIT>> }> {
  const { budgets } = services;
  const now = budgets.clock.now();
  const limit: BudgetLimit = { limit_id: uuidv7(now), org_id: orgId, ...limitOf(orgId, body, services), created_at: timestamp(now) };
  await budgets.service.create(limit, commit);
  return { json: { limit_id: limit.limit_id, status: 'created', ...said(limit.limit_id, budgets.service.list(orgId), services) } };
}

/** What whoever makes a limit may not know of it: it is no mistake, but it may be none of what was meant. */
function said(limitId: string, all: readonly LimitStatus[], services: Services) {
  const made = all.find(({ limit }) => limit.limit_id === limitId);
  if (made === undefined) return {};
  const { note: rivals, also } = besides(made, all);
  const notes = [...strangerNotes(made, services), ...spentNotes(made), ...(rivals === undefined ? [] : [rivals])];
  return { ...(notes.length === 0 ? {} : { note: notes.join(' ') }), ...(also === undefined ? {} : { also }) };
}

/**
 * It may be registered later, as with a project; but one of no workload counts nothing, and that it is misspelled
 * nothing else says.
 */
function strangerNotes({ limit }: LimitStatus, { workloads }: Services): readonly string[] {
  if (limit.scope !== 'workload' || limit.scope_id === undefined || workloads.get(limit.org_id, limit.scope_id) !== undefined) return [];
  return [`No workload ${limit.scope_id} is registered: until one is, nothing counts for this limit.`];
}

/**
 * A cap of less than what is spent refuses from now on; who makes it by a typing error finds out from those who are
 * refused.
 */
function spentNotes({ limit, spentUsd, effectiveUsd, periodStart }: LimitStatus): readonly string[] {
  const [spent, held] = [readAmount(spentUsd) ?? 0n, readAmount(effectiveUsd) ?? 0n];
  if (!limit.actions.includes('cap') || spent < held) return [];
  return [`It refuses calls from now on: since ${periodStart} ${spentUsd} USD are spent, and the limit is ${effectiveUsd} USD.`];
}

/**
 * A second limit of a scope and period is no mistake: a low one may alert and a high one cap. But who makes it may not
 * know of the first.
 */
function besides(made: LimitStatus, all: readonly LimitStatus[]) {
  const others = new RivalLimits(all).of(made);
  if (others.length === 0) return {};
  const { scope, scope_id: id, period } = made.limit;
  const whose = scope === 'org' ? 'the org' : `the ${scope} ${id ?? ''}`;
  const caps = [made, ...others].filter(({ limit }) => limit.actions.includes('cap'));
  const lowest = caps.sort((a, b) => ((readAmount(a.effectiveUsd) ?? 0n) < (readAmount(b.effectiveUsd) ?? 0n) ? -1 : 1))[0];
  const first =
    lowest === undefined
      ? 'none of them caps'
      : `of those that cap the lowest refuses first: ${lowest.effectiveUsd} USD (${lowest.limit.limit_id})`;
  return {
    note: `There ${others.length === 1 ? 'is another limit' : `are ${others.length} other limits`} of ${whose} for the same period (${period}). All of them hold; ${first}.`,
    also: others.map(({ limit, effectiveUsd }) => ({
      limit_id: limit.limit_id,
      effective_limit_usd: effectiveUsd,
      actions: limit.actions,
    })),
  };
}

/** Budget limits (specification, "Budget limit creation rules"; decision 6.2). */
export const BUDGET_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'budgets.list',
    method: 'GET',
    path: '/v1/admin/budgets/limits',
    scope: 'admin',
    summary: 'Budget limits with the spend of their current period; `org_id` narrows them.',
    annotations: READS,
    input: { query: { schema: () => z.strictObject({ org_id: id.optional() }) } },
    output: { status: 200, schema: z.object({ limits: z.array(LIMIT) }) },
    handle: ({ query }, { budgets }) => {
      const all = budgets.service.list(query.org_id);
      const rivals = new RivalLimits(all);
      return { json: { limits: all.map((limit) => shownLimit(limit, rivals, budgets.clock.now())) } };
    },
  }),
  operation({
    id: 'budgets.create',
    method: 'POST',
    path: '/v1/admin/budgets/limits',
    scope: 'admin',
    summary: 'Creates a budget limit for an org, project, workload or provider.',
    annotations: ADDS,
    input: { body: { schema: anyOrgBody, what: 'The budget limit' } },
    output: { status: 201, schema: CREATED_LIMIT },
    handle: ({ body: { org_id: named, ...body }, commit }, services) =>
      createLimit(named ?? services.budgets.defaultOrg, body, services, commit),
  }),
  operation({
    id: 'budgets.remove',
    method: 'DELETE',
    path: '/v1/admin/budgets/limits/{id}',
    scope: 'admin',
    summary: 'Removes a budget limit.',
    annotations: REMOVES,
    errors: ['not_found'],
    input: { params: pathId('Limit id') },
    output: { status: 200, schema: z.object({ limit_id: z.string(), status: z.literal('deleted') }) },
    handle: async ({ principal, params, commit }, { budgets }) => {
      if (!(await budgets.service.remove(params.id, commit, principal.orgId))) throw unknown(params.id);
      return { json: { limit_id: params.id, status: 'deleted' as const } };
    },
  }),
  operation({
    id: 'budgets.override',
    method: 'POST',
    path: '/v1/admin/budgets/limits/{id}/override',
    scope: 'admin',
    summary: 'Puts another amount in the place of a limit until a time; then it is as before. A second one replaces the first.',
    annotations: REPLACES,
    errors: ['not_found', 'conflict'],
    input: { params: pathId('Limit id'), body: { schema: overrideBody, what: 'The override' } },
    output: { status: 200, schema: LIMIT },
    handle: async ({ principal, params, body, commit }, { budgets }) => {
      const given = {
        limitUsd: usdFromPico(readAmount(body.limit_usd) ?? 0n),
        until: parseTime(body.until) ?? 0,
        reason: body.reason,
      };
      const changed = await budgets.service.override(params.id, principal.orgId, given, commit);
      if (changed === undefined) throw unknown(params.id);
      return { json: shownLimit(changed, new RivalLimits(budgets.service.list(changed.limit.org_id)), budgets.clock.now()) };
    },
  }),
  operation({
    id: 'budgets.end_override',
    method: 'DELETE',
    path: '/v1/admin/budgets/limits/{id}/override',
    scope: 'admin',
    summary: 'Ends the override of a limit before its time.',
    annotations: REMOVES,
    errors: ['not_found'],
    input: { params: pathId('Limit id') },
    output: { status: 200, schema: z.object({ limit_id: z.string(), status: z.literal('ended') }) },
    handle: async ({ principal, params, commit }, { budgets }) => {
      if (!(await budgets.service.endOverride(params.id, principal.orgId, commit))) {
        throw new GatewayError('not_found', `There is no override of a budget limit ${params.id}.`);
      }
      return { json: { limit_id: params.id, status: 'ended' as const } };
    },
  }),
];

function unknown(id: string): GatewayError {
  return new GatewayError('not_found', `There is no budget limit ${id}.`);
}
