/*
 * What nodes that share caps say to each other through a store: accounts, what a node holds of them, what it wants, and
 * what it is told. An account is what one cap counts in one window; several caps may count the same.
 */
import { delegationSpendKey, ORG_MONTH, SPEND_DELEGATION, SPEND_HOUR, type SpendKind, shortPart, spendHourKey } from './counter-spaces.ts';

/** Where the counters of an account stand: what is settled is their sum. */
export interface CapAccount {
  /** Its name, the same on every node. */
  readonly id: string;
  readonly space: string;
  /** Of the amount that counts. */
  readonly name: string;
  /** The keys, from this one on ... */
  readonly first: string;
  /** ... up to this one, which does not count. */
  readonly behind: string;
}

/** Of one account, what a node says and asks. Amounts are those of its counters: pico-dollars, or requests. */
export interface CapAsk {
  readonly account: CapAccount;
  /**
   * All that it holds behind what is shipped with this: what it has free, what calls under way have set aside, and what
   * they have spent. Takes the place of what it said before.
   */
  readonly held: bigint;
  /** What it wants more; part of it may be granted. */
  readonly wanted: bigint;
  /** Nothing is granted that would pass it. */
  readonly cap: bigint;
}

/** What a node says when all of its journal is shipped. */
export interface CapMessage {
  readonly asks: readonly CapAsk[];
  /** Of accounts that are not named it holds nothing; else what it has said before. */
  readonly isWhole: boolean;
}

/** Of one account, what the store has answered. */
export interface CapAnswer {
  readonly id: string;
  readonly granted: bigint;
  /** By all nodes, as far as their journals are shipped, this one's included. */
  readonly settled: bigint;
  /** What other nodes hold. */
  readonly others: bigint;
}

/** What an exchange has come to. */
export interface CapExchanged {
  /** By the id of their account. */
  readonly answers: ReadonlyMap<string, CapAnswer>;
  /** The store is open for grants: every member has told the server as it is now what it holds. */
  readonly isOpen: boolean;
  /** This node has; else it is asked to say all that it holds. */
  readonly isTold: boolean;
}

/** Speaks for a node in an exchange. */
export interface CapSpeaker {
  /** Before a piece of the journal is read: what is stored by now is shipped when that piece is the last one. */
  mark(): void;
  /**
   * The last piece was read and is about to be shipped.
   * @param isWhole of what is not named the node holds nothing; else of that it holds what it has said before
   */
  say(isWhole: boolean): readonly CapAsk[];
}

/** The spend of a scope in a window. @param window its first hour, and the one behind it: `2026-11-22T05` */
export function spendAccount(
  scope: { readonly org: string; readonly kind: SpendKind; readonly id: string },
  window: { readonly first: string; readonly behind: string },
): CapAccount {
  const first = spendHourKey({ ...scope, hour: window.first });
  const behind = spendHourKey({ ...scope, hour: window.behind });
  return { id: `spend|${first}|${window.behind}`, space: SPEND_HOUR, name: 'cost_pico', first, behind };
}

/** What is spent under a delegation, over its life. */
export function delegationAccount(org: string, delegationId: string): CapAccount {
  return single('delegation', SPEND_DELEGATION, delegationSpendKey(org, delegationId), 'cost_pico');
}

/** Requests of an org's month. @param key of its counter */
export function requestsAccount(key: string): CapAccount {
  return single('requests', ORG_MONTH, key, 'requests');
}

/** No key lies between a key and the same with the least of all characters behind it. */
function single(kind: string, space: string, key: string, name: string): CapAccount {
  return { id: `${kind}|${key}`, space, name, first: key, behind: `${key}\x01` };
}
