import type { JournalPiece, PieceLimits } from '../embedded/journal-feed.ts';
import type { Carried, CarriedPiece } from '../postgres/journal-carrier.ts';

/** Where commits come from. */
export interface JournalSource {
  journal(from: string | undefined, limits: PieceLimits): Promise<JournalPiece>;
}

/** Where they go. */
export interface JournalSink {
  position(): Promise<string | undefined>;
  carry(piece: CarriedPiece): Promise<Carried>;
}

/** One transaction has no more than that. */
const LIMITS: PieceLimits = { commits: 500, bytes: 4 * 1024 * 1024 };

/**
 * Carries all of a journal that is not there yet to where it goes, in order and each commit once. When it fails, or its
 * process dies, the next call goes on from where the database stands.
 * @returns how many commits were carried @throws what either side refuses with
 */
export async function carryJournal(source: JournalSource, sink: JournalSink, limits = LIMITS): Promise<number> {
  let carried = 0;
  let from = await sink.position();
  for (;;) {
    const { commits, next, isLast } = await source.journal(from, limits);
    if (next !== from) {
      const { position, isStored } = await sink.carry({ from, commits, next });
      from = position;
      if (isStored) carried += commits.length;
      // Somebody else has carried it, or the database was set back.
      if (position !== next) continue;
    }
    if (isLast) return carried;
  }
}
