import { LedgerError } from '../../ledger/ledger-error.ts';
import type { ListedKey } from '../../ledger/ledger-keys.ts';
import type { MerkleRoot } from '../../ledger/merkle-root.ts';
import { askedAfter, checkRemembered, strangersAmong, type WatchedChain, watchFrom, watchOn } from '../../ledger/watched-chain.ts';
import { Unusable } from '../command.ts';

/** A ledger that is watched. */
export interface WatchedLedger {
  keys(): Promise<readonly ListedKey[]>;
  /** Undefined: there is no such org. */
  roots(orgId: string, after: number): Promise<readonly MerkleRoot[] | undefined>;
}

export interface WatchOptions {
  readonly ledger: WatchedLedger;
  readonly orgId: string;
  /** What was seen before; undefined: this is the first time. */
  readonly seen: WatchedChain | undefined;
  /** Keys that somebody has brought himself; undefined: those that were believed, at first those that are listed. */
  readonly pinned: readonly ListedKey[] | undefined;
  /** Keeps what was seen, page by page. */
  readonly save: (state: WatchedChain) => Promise<void>;
}

export interface Looked {
  readonly from: WatchedChain;
  readonly state: WatchedChain;
  /** Names of keys that are listed and not believed. */
  readonly strangers: readonly string[];
}

/**
 * Looks once whether the history of a ledger goes on from where it was (decision 13.4). What does not fit is not saved, so that it is found again.
 * @throws LedgerError for what does not fit; and what the ledger throws when it cannot be asked
 */
export async function lookAtLedger({ ledger, orgId, seen, pinned, save }: WatchOptions): Promise<Looked> {
  const listed = await ledger.keys();
  const from = { ...(seen ?? watchFrom(orgId, listed)), ...(pinned === undefined ? {} : { keys: pinned }) };
  const strangers = strangersAmong(from, listed);
  let state = from;
  let answered = await rootsBehind(ledger, from, askedAfter(from));
  let fresh = checkRemembered(from, answered);
  // Until nothing is answered: how many roots an answer has is the control plane's.
  while (answered.length > 0) {
    state = watchOn(state, fresh);
    await save(state);
    answered = await rootsBehind(ledger, state, state.sequence);
    fresh = answered;
  }
  if (state.sequence === 0) await save(state);
  return { from, state, strangers };
}

async function rootsBehind(
  ledger: WatchedLedger,
  { org_id: orgId, sequence }: WatchedChain,
  after: number,
): Promise<readonly MerkleRoot[]> {
  const roots = await ledger.roots(orgId, after);
  if (roots !== undefined) return roots;
  if (sequence === 0) throw new Unusable(`the control plane has no org ${orgId}`);
  throw new LedgerError(`there is no org ${orgId} any more, and root ${sequence} of it was there: its history is gone`);
}
