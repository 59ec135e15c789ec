import { timestamp } from '../../base/lib/clock.ts';
import type { CutSpan, LedgerRestore } from '../../ledger/ledger-restore.ts';
import type { Effect, Expectation, Store } from '../../storage/contract/store.ts';

const SPACE = 'ledger_restore';
const KEY = 'declared';
/** Sequences are told by the time in hundredths of a second: an org has a fifth of so many roots at most. */
const MS_PER_SEQUENCE = 10;
/** Where a clock says a time before that: further than any org comes in years. */
const WIDE_LEAP = 1_000_000_000;

/**
 * That the data folder is an older copy (decision 13.23). It is of the whole control plane; each ledger takes it up in
 * the next root that it signs.
 */
export interface RestoreDeclaration {
  readonly epoch: number;
  /** RFC 3339. */
  readonly at: string;
  /** With which ledgers go on: higher than any that was signed before that time. */
  readonly sequence: number;
  readonly reason?: string;
}

/** The last one; undefined: none was declared. */
export async function declaredRestore(store: Pick<Store, 'get'>): Promise<RestoreDeclaration | undefined> {
  return (await store.get(SPACE, KEY)) as RestoreDeclaration | undefined;
}

/** A new one, as it is to be stored. @param now milliseconds since the epoch @throws as `Store.entity` */
export async function nextDeclaration(
  store: Pick<Store, 'entity'>,
  now: number,
  reason: string | undefined,
): Promise<{ readonly declaration: RestoreDeclaration; readonly effects: readonly Effect[]; readonly expect: readonly Expectation[] }> {
  const entity = await store.entity(SPACE, KEY);
  const before = entity?.value as RestoreDeclaration | undefined;
  const declaration: RestoreDeclaration = {
    epoch: (before?.epoch ?? 0) + 1,
    at: timestamp(now),
    sequence: Math.floor(now / MS_PER_SEQUENCE),
    ...(reason === undefined ? {} : { reason }),
  };
  return {
    declaration,
    effects: [{ op: 'put', space: SPACE, key: KEY, value: declaration }],
    expect: [{ space: SPACE, key: KEY, version: entity?.version }],
  };
}

/**
 * What the next root of a ledger says of a restore, and its sequence; undefined: its ledger has taken it up, or there
 * is none.
 * @param sequence of the last root; 0: there is none @param cuts that the ledger has taken up
 */
export function dueRestore(
  declared: RestoreDeclaration | undefined,
  sequence: number,
  cuts: readonly CutSpan[] = [],
): { readonly restored: LedgerRestore; readonly sequence: number } | undefined {
  if (declared === undefined || declared.epoch <= (cuts.at(-1)?.epoch ?? 0)) return undefined;
  const { epoch, at, reason } = declared;
  return {
    restored: { epoch, from_sequence: sequence, at, ...(reason === undefined ? {} : { reason }) },
    sequence: declared.sequence > sequence + 1 ? declared.sequence : sequence + WIDE_LEAP,
  };
}
