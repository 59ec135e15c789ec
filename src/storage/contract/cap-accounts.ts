/*
 * What nodes that share caps say to each other through a store. An account is what a node holds of something that caps
 * count: the spend of a scope, that of a delegation, the requests of an org's month. What is held counts in each window
 * of the scope, like calls that are under way: when an hour turns, what was set aside before it is set aside in the
 * next one as well. So an account has no window; the counters that a cap looks at have.
 */
import { delegationSpendKey, ORG_MONTH, SPEND_DELEGATION, SPEND_HOUR, type SpendKind, shortPart, spendHourKey } from './counter-spaces.ts';

/** Counters whose sum is what is settled, in one window. */
export interface CountedRange {
  readonly space: string;
  /** Of the amount that counts. */
  readonly name: string;
  /** The keys, from this one on ... */
  readonly first: string;
  /** ... up to this one, which does not count. */
  readonly behind: string;
}

/** Of one account, what a node says and asks. Amounts are those of the counters: pico-dollars, or requests. */
export interface CapAsk {
  /** Of the account; the same on every node. */
  readonly id: string;
  /**
   * All that it holds behind what is shipped with this: what it has free, what calls under way have set aside, and what
   * they have spent. Takes the place of what it said before.
   */
  readonly held: bigint;
  /** What it wants more; part of it may be granted. Nothing is granted that would pass a cap of `counts`. */
  readonly wanted: bigint;
  readonly counts: readonly CapCount[];
}

/** What is to be told of an account. */
export interface CapCount {
  readonly range: CountedRange;
  /** Undefined: what is settled is of interest, and nothing is held against it. */
  readonly cap: bigint | undefined;
}

/** What a node says when all of its journal is shipped. */
export interface CapMessage {
  readonly asks: readonly CapAsk[];
  /** Of accounts that are not named it holds nothing; else what it has said before. */
  readonly isWhole: boolean;
  /** It ends: where it holds nothing then, nobody waits for it any more. */
  readonly isLast: boolean;
}

/** Of one account, what the store has answered. */
export interface CapAnswer {
  readonly granted: bigint;
  /** What other nodes hold. */
  readonly others: bigint;
  /** By all nodes, as far as their journals are shipped, this one's included: for each of `counts`, in its order. */
  readonly settled: readonly bigint[];
}

/** What an exchange has come to. */
export interface CapExchanged {
  /** By the id of their account. */
  readonly answers: ReadonlyMap<string, CapAnswer>;
  /** The store is open for grants: every member has told the server as it is now what it holds. */
  readonly isOpen: boolean;
  /** How many nodes have ever said what they hold, and are not forgotten. */
  readonly members: number;
  /** This node has; else it is asked to say all that it holds. */
  readonly isTold: boolean;
}

/** Speaks for a node in an exchange. */
export interface CapSpeaker {
  /** What it says next is the last. */
  readonly isLeaving: boolean;
  /** Before a piece of the journal is read: what is stored by now is shipped when that piece is the last one. */
  mark(): void;
  /**
   * The last piece was read and is about to be shipped.
   * @param isWhole of what is not named the node holds nothing; else of that it holds what it has said before
   */
  say(isWhole: boolean): readonly CapAsk[];
}

/** How the ids of accounts of a scope's spend begin. */
export const SPEND_ACCOUNTS = 'spend|';

/** The account of a scope's spend. */
export function spendAccount({ org, kind, id }: SpendScope): string {
  return `${SPEND_ACCOUNTS}${spendHourKey({ org, kind, id, hour: '' })}`;
}

/** Whose spend is counted. */
export interface SpendScope {
  readonly org: string;
  readonly kind: SpendKind;
  readonly id: string;
}

/** A scope's spend in a window. @param window its first hour, and the one behind it: `2026-11-22T05` */
export function spendRange(scope: SpendScope, window: { readonly first: string; readonly behind: string }): CountedRange {
  const first = spendHourKey({ ...scope, hour: window.first });
  return { space: SPEND_HOUR, name: 'cost_pico', first, behind: spendHourKey({ ...scope, hour: window.behind }) };
}

/** What is spent under a delegation, over its life. */
export function delegationRange(org: string, delegationId: string): CountedRange {
  return single(SPEND_DELEGATION, delegationSpendKey(org, delegationId), 'cost_pico');
}

/** Requests of an org's month. @param key of its counter */
export function requestsRange(key: string): CountedRange {
  return single(ORG_MONTH, key, 'requests');
}

/** The account of what one range alone counts. */
export function accountOf({ space, first }: CountedRange): string {
  return `${space}|${shortPart(first)}`;
}

/** No key lies between a key and the same with the least of all characters behind it. */
function single(space: string, key: string, name: string): CountedRange {
  return { space, name, first: key, behind: `${key}\x01` };
}
