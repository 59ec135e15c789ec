import type { KeyObject } from 'node:crypto';
import type { Clock } from '../../base/lib/clock.ts';
import { LedgerError } from '../../ledger/ledger-error.ts';
import { checkLogEntry, type LogKey, type NamedLogEntry } from '../../ledger/log-entry.ts';
import type { MerkleRoot } from '../../ledger/merkle-root.ts';
import { type ProposedRoot, proposeRoot } from '../../ledger/root-entry.ts';
import { AnchoredRoots, type AnchoredRootsOptions, type RootAnchor } from './anchored-roots.ts';
import { SPACE } from './control-plane-spaces.ts';

const WORDS = {
  failed: 'a root was not entered in the transparency log; it is tried again, and roots go on',
  answersAgain: 'the transparency log (CP_REKOR_URL) answers again',
  broken: 'entries of the transparency log could not be stored',
};

/** That a root stands in a transparency log (decision 13.22). */
export interface RootLogEntry extends RootAnchor, NamedLogEntry {}

export interface TransparencyLog {
  /**
   * Enters a root, or finds that it was entered before.
   * @returns the entry, of which nothing is checked yet
   * @throws LedgerError when it refuses this one, or answers with what is no entry; any other Error when it cannot be
   * asked
   */
  readonly enter: (proposed: ProposedRoot, signal: AbortSignal) => Promise<NamedLogEntry>;
  /** Milliseconds between two entries of one org. */
  readonly intervalMs: number;
  /** Its own, those of its former trees too. */
  readonly keys: readonly LogKey[];
}

/** Whose turn it is to sign. */
export interface EntrySigners {
  /** @param now milliseconds since the epoch */
  signerAt(now: number): Promise<{ readonly signer: { readonly key: KeyObject } }>;
}

export type OrgLogEntries = AnchoredRoots<RootLogEntry>;

/**
 * Has the newest root of each org entered in a log.
 * @param log undefined: in none @param newestRoots of orgs, as the store has them
 */
export function openLogEntries(
  ground: Pick<AnchoredRootsOptions<RootLogEntry>, 'store' | 'clock' | 'log'>,
  signers: EntrySigners,
  log: TransparencyLog | undefined,
  newestRoots: AsyncIterable<MerkleRoot>,
): Promise<OrgLogEntries> {
  const anchoring = log && {
    intervalMs: log.intervalMs,
    anchor: (root: MerkleRoot, signal: AbortSignal) => enterRoot(root, { log, signers, clock: ground.clock }, signal),
    isOfOne: (error: unknown) => error instanceof LedgerError,
  };
  const spaces = { anchors: SPACE.logEntries, heads: SPACE.logEntryHeads };
  return AnchoredRoots.open({ ...ground, spaces, anchoring, words: WORDS }, newestRoots);
}

async function enterRoot(
  root: MerkleRoot,
  { log, signers, clock }: { readonly log: TransparencyLog; readonly signers: EntrySigners; readonly clock: Pick<Clock, 'now'> },
  signal: AbortSignal,
): Promise<RootLogEntry> {
  const { signer } = await signers.signerAt(clock.now());
  const proposed = proposeRoot(root, signer.key);
  const { uuid, entry } = await log.enter(proposed, signal);
  if (entry.body !== proposed.body) throw new LedgerError('log entry: the log answers with an entry of something else');
  return { sequence: root.sequence, time: checkLogEntry(entry, log.keys), uuid, entry };
}
