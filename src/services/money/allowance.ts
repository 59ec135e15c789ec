/*
 * The one thing that counts what calls may take: requests of a month, tokens of rates, money under caps. This page is
 * the port; drivers stand behind it (memory-allowance.ts in this process). `test/contract/allowance.ts` is what each
 * driver must pass.
 *
 * The truth of what was spent is the store's: counters that are committed with the records. An allowance is a promise
 * about that, and a driver may begin again from the counters at any time. Asks, grants and refusals are plain data,
 * which JSON can hold. Verbs may return a promise; a driver in memory answers at once.
 */
import type { Maybe } from '../../base/lib/maybe.ts';
import type { BudgetLimit } from '../../base/model/budget-limit.ts';
import type { Effect } from '../../storage/contract/store.ts';

/** A rule's own bucket: its size per workload and minute (decision 6.1). */
export interface RuleLimit {
  readonly layer: string;
  readonly rule_id: string;
  readonly requests_per_minute: number;
}

/** One link of a chain of delegations that may spend no more than this, over its life. */
export interface DelegationCap {
  readonly delegationId: string;
  /** Decimal text. */
  readonly capUsd: string;
}

/**
 * Whom a call's cost is counted for. A call without a project counts for the one that all such calls share (decision
 * 6.2).
 */
export interface Spender {
  readonly orgId: string;
  readonly workloadId: string;
  readonly projectId: string;
  /** A provider's budget holds for its own connector ... */
  readonly connectorId: string;
  /**
   * ... and for all that reaches its hosts through another one: `generic_http` is no way around it. Undefined for a
   * host of no provider.
   */
  readonly providerId: string | undefined;
  /** Links of the delegation that it is made under and that have a budget. */
  readonly delegations?: readonly DelegationCap[] | undefined;
}

/** Money that is to be set aside for a call. */
export interface SpendAsk {
  readonly spender: Spender;
  /** Pico-dollars, in decimal digits: JSON holds no bigint. */
  readonly pico: string;
  /** The cap that policy sets for the project's month, decimal text. */
  readonly monthlyCapUsd?: string | undefined;
  /** It was set aside before, or is spent already: no cap refuses it. */
  readonly regardless?: true;
}

/** What a call asks for; all of it is granted, or nothing. */
export interface Ask {
  /** Of the grant. Asked for once more it is the same grant, and counts once. */
  readonly id: string;
  readonly orgId: string;
  readonly workloadId: string;
  /** One request of the org's month. */
  readonly month?: true;
  /** One token of the workload's bucket, and of that of each rule. */
  readonly rate?: { readonly rules: readonly RuleLimit[] };
  readonly spend?: SpendAsk | undefined;
}

/** What was taken for a call. It stays so until it is settled or given back. */
export interface Grant {
  readonly id: string;
  /** A cap holds this call: it must not be forgotten if the process dies (decision 6.8). */
  readonly capped: boolean;
  /** A cap holds this call, or a limit that only alerts counts it. */
  readonly watched: boolean;
  /** Set aside at first, pico-dollars in decimal digits. */
  readonly pico: string;
}

/**
 * A cap that a call would pass: a budget limit, the budget of a delegation, or the monthly cap that a rule of policy
 * sets for the project. Amounts are decimal text.
 */
export type CapExceeded = CapSums &
  (
    | { readonly kind: 'limit'; readonly limit: BudgetLimit }
    | { readonly kind: 'delegation'; readonly delegationId: string }
    | { readonly kind: 'month' }
  );

export interface CapSums {
  readonly capUsd: string;
  readonly spentUsd: string;
  /** Set aside for calls under way, without the call's own part. */
  readonly reservedUsd: string;
  /** Epoch milliseconds at which the cap begins again; undefined: never. */
  readonly resetsAt: number | undefined;
}

/** A bucket is empty. */
export interface RateRefusal {
  readonly kind: 'rate';
  /** Undefined: the workload's own bucket. */
  readonly rule: RuleLimit | undefined;
  /** Whole seconds, from 1 to a year. */
  readonly retryAfterSeconds: number;
}

/** The org has made all requests of its month. */
export interface RequestsRefusal {
  readonly kind: 'requests';
  /** Epoch milliseconds at which the next month begins. */
  readonly resetsAt: number;
}

/** Nodes share what a cap leaves, this one does not hold enough of it, and the others cannot be asked. */
export interface UnavailableRefusal {
  readonly kind: 'unavailable';
  readonly retryAfterSeconds: number;
}

export type Refused = CapExceeded | RateRefusal | RequestsRefusal | UnavailableRefusal;

/** What a call really was, when its record is about to be stored. */
export interface SettledCall {
  readonly spender: Spender;
  /** What it cost, pico-dollars. */
  readonly pico: bigint;
  /** Epoch milliseconds at which it was completed: the windows that it counts in. */
  readonly at: number;
  /** False: it was refused before it was made, and gives its tokens back (decision 6.1). */
  readonly isMade: boolean;
}

/** What may be asked without taking anything. */
export interface Question extends Omit<Ask, 'id' | 'rate'> {
  /** `alone`: not of the workload's own bucket. */
  readonly rate?: { readonly rules: readonly RuleLimit[]; readonly alone?: true };
}

export interface Peeked {
  /** What `take` would refuse it with. */
  readonly refused: Refused | undefined;
  /** A cap holds the call. */
  readonly capped: boolean;
  /** Those of the rules whose bucket has no token. */
  readonly empty: readonly RuleLimit[];
}

/** Each verb counts once for one id, however often it is asked. */
export interface Allowance {
  /** Takes all that is asked for, or nothing. @returns undefined: nothing of it is counted */
  take(ask: Ask): Maybe<Grant | Refused | undefined>;
  /** What `take` would say. Takes nothing. */
  peek(question: Question): Maybe<Peeked>;
  /**
   * A running call has cost `pico` so far: sets aside what that is more than its grant, so that streams at the same
   * time cannot pass a cap together.
   * @returns the cap that it has passed; then nothing is changed
   */
  grow(id: string, pico: bigint): Maybe<CapExceeded | undefined>;
  /**
   * Counts what a call was in the place of what was taken for it. Exactly one of `stored` and `failed` follows.
   * @param settled undefined: it was made, and cost nothing
   * @returns what is to be committed with its record; nothing for an id of which nothing is taken
   */
  settle(id: string, settled?: SettledCall): Maybe<readonly Effect[]>;
  /** The record of a settled call is stored. */
  stored(id: string): Maybe<void>;
  /** The record of a settled call could not be stored: all is as it was before `settle`. */
  failed(id: string): Maybe<void>;
  /** The call leaves no record. @param isMade tokens stay taken */
  giveBack(id: string, isMade?: boolean): Maybe<void>;
}

/** True for an answer that refuses. */
export function isRefused(answer: Grant | Refused): answer is Refused {
  return 'kind' in answer;
}
