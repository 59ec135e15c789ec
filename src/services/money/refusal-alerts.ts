import { isDeepStrictEqual } from 'node:util';
import type { Events } from '../../base/events/bus.ts';
import { timestamp } from '../../base/lib/clock.ts';
import { usdFromPico } from '../../base/lib/money.ts';
import type { AlertedLimit, BudgetAlert, BudgetPeriod } from '../../base/model/budget-limit.ts';
import { CONTROL_BOUNDS } from '../../base/model/org-bounds.ts';
import { startText, windowStart } from '../../decide/limits/windows.ts';
import type { Effect, Expectation, Store } from '../../storage/contract/store.ts';
import { unlessConflict } from '../registers/commit.ts';
import { settle } from '../registers/register.ts';
import type { Outbox } from '../sending/outbox.ts';
import type { CapExceeded, Spender } from './allowance.ts';
import { type Alerted, alertedOf, type Budget, isRefusalNews, limitInForce } from './scope-limits.ts';

/** The first refusal of a limit that was alerted, by the id of the limit. */
export const REFUSED = 'budget_refused';
/**
 * Caps of rules and delegations that are remembered: which of them has refused is known until the next start, or until
 * so many others have.
 */
const MAX_REMEMBERED = CONTROL_BOUNDS.refusedCaps.all;

/** Brings back what was told before the start. */
export async function readRefused(store: Pick<Store, 'list'>, budgetOf: Ground['budgetOf']): Promise<void> {
  for (const { key, value } of await store.list(REFUSED)) {
    const budget = budgetOf(key);
    if (budget) budget.refused = value as Alerted;
  }
}

interface Ground {
  readonly store: Pick<Store, 'commit' | 'entity'>;
  readonly events: Events;
  readonly outbox: Pick<Outbox, 'wants' | 'post'> | undefined;
  readonly budgetOf: (limitId: string) => Budget | undefined;
}

/**
 * Says when a cap refuses for the first time: once in its period, of a budget limit also over a restart (decision
 * 6.19). A cap that nobody's cost has ever reached refuses, too, where each call may cost more than is left.
 */
export class RefusalAlerts {
  readonly #ground: Ground;
  /**
   * Caps of rules, and budgets of delegations, by name; the value is the period. Callers name projects, so that there
   * is an end.
   */
  readonly #told = new Map<string, string>();

  constructor(ground: Ground) {
    this.#ground = ground;
  }

  /** A call is refused, or a stream ended. @param pico what it may cost @param hour that it is */
  tell(exceeded: CapExceeded, spender: Pick<Spender, 'orgId' | 'projectId'>, pico: bigint, hour: number): void {
    const refusal = refusalOf(exceeded, pico);
    if (exceeded.kind === 'limit') {
      const budget = this.#ground.budgetOf(exceeded.limit.limit_id);
      if (budget !== undefined) this.#ofLimit(budget, refusal, startOf(exceeded.limit.period, hour));
      return;
    }
    const limit = capOf(exceeded, spender);
    const periodStart = exceeded.kind === 'month' ? startOf('monthly', hour) : '';
    const name = `${spender.orgId} ${limit.limit_id}`;
    const of = `${periodStart} ${limit.limit_usd}`;
    if (this.#told.get(name) === of) return;
    if (this.#told.size >= MAX_REMEMBERED) this.#told.clear();
    this.#told.set(name, of);
    this.#say({ limit, level: 'exceeded', periodStart, ...refusal }).catch(() => this.#told.delete(name));
  }

  #ofLimit(budget: Budget, refusal: Refusal, periodStart: string): void {
    if (!isRefusalNews(budget, periodStart)) return;
    const before = budget.refused;
    const told: Alerted = alertedOf(budget, periodStart, 'exceeded');
    budget.refused = told;
    this.#sayFirst({ limit: limitInForce(budget), level: 'exceeded', periodStart, ...refusal }, told).catch(() => {
      // The next refusal says it.
      if (budget.refused === told) budget.refused = before;
    });
  }

  /** Unless another node has said it. */
  async #sayFirst(alert: BudgetAlert, told: Alerted): Promise<void> {
    const at = { space: REFUSED, key: alert.limit.limit_id };
    const found = await this.#ground.store.entity(at.space, at.key);
    if (isDeepStrictEqual(found?.value, told)) return;
    await this.#say(alert, [{ op: 'put', ...at, value: told }], [{ ...at, version: found?.version }]);
  }

  /** @throws GatewayError as `Store.commit`; nothing was said then */
  async #say(alert: BudgetAlert, effects: readonly Effect[] = [], expect: readonly Expectation[] = []): Promise<void> {
    const { store, events, outbox } = this.#ground;
    const post = outbox?.wants('budgetAlert', alert.limit.org_id) === true ? outbox.post('budgetAlert', alert) : undefined;
    const all = [...effects, ...(post?.effects ?? [])];
    const isFirst = all.length === 0 || (await settle(post ? [post] : [], unlessConflict(store.commit(undefined, all, expect))));
    if (isFirst) events.emit('budgetAlert', alert);
  }
}

type Refusal = Pick<BudgetAlert, 'spentUsd' | 'refusal'>;

function refusalOf({ spentUsd, reservedUsd, resetsAt }: CapExceeded, pico: bigint): Refusal {
  return {
    spentUsd,
    refusal: {
      estimateUsd: usdFromPico(pico),
      reservedUsd,
      ...(resetsAt === undefined ? {} : { resetsAt: timestamp(resetsAt) }),
    },
  };
}

/** What stands for a limit where somebody else has laid down the cap. */
function capOf(
  exceeded: Exclude<CapExceeded, { kind: 'limit' }>,
  { orgId, projectId }: Pick<Spender, 'orgId' | 'projectId'>,
): AlertedLimit {
  const { capUsd: limitUsd } = exceeded;
  if (exceeded.kind === 'delegation') {
    const { delegationId } = exceeded;
    return {
      limit_id: `delegation:${delegationId}`,
      org_id: orgId,
      scope: 'delegation',
      scope_id: delegationId,
      limit_usd: limitUsd,
      period: 'life',
    };
  }
  const project = projectId === '' ? {} : { scope_id: projectId };
  return {
    limit_id: `policy:monthly_usd_max:${projectId}`,
    org_id: orgId,
    scope: 'project',
    ...project,
    limit_usd: limitUsd,
    period: 'monthly',
  };
}

function startOf(period: BudgetPeriod, hour: number): string {
  return startText(period, windowStart(period, hour));
}
