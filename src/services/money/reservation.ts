import { usdFromPico } from '../../base/lib/money.ts';
import type { BudgetPeriod } from '../../base/model/budget-limit.ts';
import { windowEnd } from '../../decide/limits/windows.ts';
import type { CapExceeded, CapSums, Spender } from './allowance.ts';
import type { DelegationSpend } from './delegation-spend.ts';
import type { ScopeSpend } from './spend-book.ts';

/** What is set aside for one call until it is settled. */
export interface Reservation {
  readonly spender: Spender;
  readonly scopes: readonly ScopeSpend[];
  readonly delegated: readonly DelegatedSpend[];
  /** All of which it is a part. */
  readonly parts: readonly SpendPart[];
  /** Grows with a stream that costs more than was estimated. */
  pico: bigint;
  /** A cap holds this call: it must not be forgotten if the process dies (decision 6.8). */
  readonly capped: boolean;
  /** A cap holds this call, or a limit that only alerts counts it. */
  readonly watched: boolean;
  readonly project: ScopeSpend;
  /** The cap that policy sets for the project's month. */
  readonly monthlyCapPico: bigint | undefined;
}

/** Sums of which a call's cost is a part. Pico-dollars. */
export interface SpendPart {
  /** What calls that are under way have set aside, and how many they are. */
  reserved: bigint;
  open: number;
  /** Of what is settled, the part whose records are not stored yet. */
  unstored: bigint;
  /** Settles so much in an hour. */
  add(hour: number, pico: bigint): void;
}

/** The spend of a delegation with a budget. */
export interface DelegatedSpend {
  readonly delegationId: string;
  readonly capPico: bigint;
  readonly spend: DelegationSpend;
}

/** All sums that a call is a part of. */
export function partsOf(scopes: readonly ScopeSpend[], delegated: readonly DelegatedSpend[]): readonly SpendPart[] {
  return delegated.length === 0 ? scopes : [...scopes, ...delegated.map(({ spend }) => spend)];
}

/** The first cap that would be passed if this call cost `pico`. @param hour that it is */
export function capPassed(reservation: Reservation, pico: bigint, hour: number): CapExceeded | undefined {
  const { scopes, project, monthlyCapPico } = reservation;
  if (monthlyCapPico !== undefined) {
    const exceeded = passes(project, 'monthly', hour, reservation, pico, monthlyCapPico);
    if (exceeded) return { kind: 'month', ...exceeded };
  }
  for (const scope of scopes) {
    for (const { limit, capPico } of scope.limits.caps) {
      const exceeded = passes(scope, limit.period, hour, reservation, pico, capPico);
      if (exceeded) return { kind: 'limit', limit, ...exceeded };
    }
  }
  return passesDelegation(reservation, pico);
}

/** The first of a call's caps, with its sums: of several that nobody can say more of. */
export function firstCap(reservation: Reservation, hour: number): CapExceeded | undefined {
  const { scopes, project, delegated, monthlyCapPico } = reservation;
  const of = (spend: ScopeSpend, period: BudgetPeriod, cap: bigint): CapSums => ({
    ...sums(cap, spend.settled(period, hour), spend.reserved - reservation.pico + (spend.shared?.others ?? 0n)),
    resetsAt: windowEnd(period, hour),
  });
  if (monthlyCapPico !== undefined) return { kind: 'month', ...of(project, 'monthly', monthlyCapPico) };
  for (const scope of scopes)
    for (const { limit, capPico } of scope.limits.caps) return { kind: 'limit', limit, ...of(scope, limit.period, capPico) };
  const [first] = delegated;
  if (first === undefined) return undefined;
  const { spend, delegationId, capPico } = first;
  const reservedPico = spend.reserved - reservation.pico + (spend.shared?.others ?? 0n);
  return { kind: 'delegation', delegationId, ...sums(capPico, spend.spent, reservedPico), resetsAt: undefined };
}

function passes(
  spend: ScopeSpend,
  period: BudgetPeriod,
  hour: number,
  own: Reservation,
  pico: bigint,
  capPico: bigint,
): CapSums | undefined {
  const settledPico = spend.settled(period, hour);
  let reservedPico = spend.reserved - own.pico;
  if (spend.shared !== undefined) reservedPico += spend.shared.others;
  if (settledPico + reservedPico + pico <= capPico) return undefined;
  return { ...sums(capPico, settledPico, reservedPico), resetsAt: windowEnd(period, hour) };
}

function sums(cap: bigint, spent: bigint, reserved: bigint): Omit<CapSums, 'resetsAt'> {
  return { capUsd: usdFromPico(cap), spentUsd: usdFromPico(spent), reservedUsd: usdFromPico(reserved) };
}

/** Over its life: nothing of it begins anew. */
function passesDelegation(own: Reservation, pico: bigint): CapExceeded | undefined {
  for (const { spend, delegationId, capPico } of own.delegated) {
    const { spent, shared } = spend;
    let reservedPico = spend.reserved - own.pico;
    if (shared !== undefined) reservedPico += shared.others;
    if (spent + reservedPico + pico > capPico) {
      return { kind: 'delegation', delegationId, ...sums(capPico, spent, reservedPico), resetsAt: undefined };
    }
  }
  return undefined;
}

/** True for the answer of {@link BudgetService.reserve} that refuses. */
export function isExceeded(answer: Reservation | CapExceeded): answer is CapExceeded {
  return 'kind' in answer;
}
