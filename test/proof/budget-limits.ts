import type { Charged } from './budget-audit.ts';
import { picoOf, usdOf } from './budget-audit.ts';
import type { BudgetCall } from './budget-calls.ts';
import type { ProofGateway } from './proof-gateway.ts';
import type { Seeded } from './seeded.ts';

export const PROVIDER = 'openai';
const SCOPES = ['org', 'project', 'workload', 'provider'] as const;
const PERIODS = ['daily', 'weekly', 'monthly'] as const;
const PATH = '/v1/admin/budgets/limits';

/** A limit as the proof made it; `capPico` undefined: it only alerts. */
export interface PlacedLimit {
  readonly scope: (typeof SCOPES)[number];
  readonly scopeId: string;
  readonly period: (typeof PERIODS)[number];
  readonly capPico: bigint | undefined;
  readonly id: string;
}

/** A limit as the gateway shows it. */
export interface ShownLimit {
  readonly limit_id: string;
  readonly period_start: string;
  readonly spent_usd: string;
  readonly reserved_usd: string;
}

/** True when what a call or a record costs counts for the limit. */
export function counts(
  limit: Pick<PlacedLimit, 'scope' | 'scopeId'>,
  of: { readonly project: string; readonly workload: string },
): boolean {
  if (limit.scope === 'project') return of.project === limit.scopeId;
  return limit.scope !== 'workload' || of.workload === limit.scopeId;
}

/** What the records say was spent since the day that a period began. */
export function spentOn(limit: Pick<PlacedLimit, 'scope' | 'scopeId'>, from: string, charged: readonly Charged[]): bigint {
  let sum = 0n;
  for (const record of charged) {
    if (record.completedAt >= from && counts(limit, record) && (limit.scope !== 'provider' || record.provider === PROVIDER))
      sum += record.pico;
  }
  return sum;
}

/** Draws where a cap stands: for one of the calls' scopes, so that it is about some of them. */
export function drawPlace(random: Seeded, calls: readonly BudgetCall[]): Pick<PlacedLimit, 'scope' | 'scopeId' | 'period'> {
  const scope = random.pick(SCOPES);
  const { project, workload } = random.pick(calls);
  const scopeId = { org: '', project, workload, provider: PROVIDER }[scope];
  return { scope, scopeId, period: random.pick(PERIODS) };
}

export async function placeLimit(gateway: ProofGateway, place: Omit<PlacedLimit, 'id'>): Promise<PlacedLimit> {
  const { scope, scopeId, period, capPico } = place;
  const body = {
    scope,
    ...(scope === 'org' ? {} : { scope_id: scopeId }),
    period,
    limit_usd: usdOf(capPico ?? 1_000_000_000_000_000n),
    actions: capPico === undefined ? ['alert'] : ['cap', 'alert'],
  };
  const { status, text } = await gateway.ask('POST', PATH, body);
  if (status !== 201) throw new Error(`a limit was answered ${status}: ${text}`);
  return { ...place, id: (JSON.parse(text) as { limit_id: string }).limit_id };
}

/** 404 is an answer too: it was removed while the gateway died. */
export async function removeLimit(gateway: ProofGateway, limit: PlacedLimit): Promise<void> {
  const { status, text } = await gateway.ask('DELETE', `${PATH}/${limit.id}`);
  if (status !== 200 && status !== 404) throw new Error(`removing a limit was answered ${status}: ${text}`);
}

export async function shownLimits(gateway: ProofGateway): Promise<ReadonlyMap<string, ShownLimit>> {
  const { text } = await gateway.ask('GET', PATH);
  return new Map((JSON.parse(text) as { limits: ShownLimit[] }).limits.map((limit) => [limit.limit_id, limit]));
}

export function spentAndReserved({ spent_usd, reserved_usd }: ShownLimit): { spent: bigint; reserved: bigint } {
  return { spent: picoOf(spent_usd), reserved: picoOf(reserved_usd) };
}
