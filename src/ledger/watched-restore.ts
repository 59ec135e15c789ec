/*
 * What a watcher makes of a ledger that was restored from a backup (decision 13.23): he keeps some of the roots that he
 * has seen, so that he can tell whether the ledger goes on from one of them.
 */
import { nothingSeen } from './chain-walk.ts';
import { LedgerError } from './ledger-error.ts';
import { type CutSpan, cutBy, cutText } from './ledger-restore.ts';
import type { MerkleRoot } from './merkle-root.ts';
import type { SeenStamp, WatchedChain } from './watched-chain.ts';

/** A declared restore that nobody has accepted yet: no fork, and not to be passed over either. */
export class RestoreFound extends LedgerError {
  readonly cut: CutSpan;

  /** @param seen the last root that was remembered @param compared the last one that is still what it was; 0: none */
  constructor(cut: CutSpan, { seen, compared }: { readonly seen: number; readonly compared: number }) {
    super(`the ledger was restored from a backup: ${cutText(cut)}. ${whatIsKnown(cut, seen, compared)}`);
    this.cut = cut;
  }
}

function whatIsKnown({ from_sequence: from }: CutSpan, seen: number, compared: number): string {
  if (seen <= from) return `All that was seen, up to root ${seen}, is what it was`;
  const lost = compared === from ? '' : `; roots ${compared + 1} to ${from} that were seen cannot be compared any more`;
  const same = compared === 0 ? 'Nothing that was seen before can be compared' : `Root ${compared} is what it was${lost}`;
  return `${same}; of what is cut, roots ${from + 1} to ${seen} were seen`;
}

/**
 * The restore that stands where a remembered root stood; undefined: none does.
 * @param roots of the ledger now, behind the one before the remembered root
 */
export function cutOfRemembered({ sequence }: Pick<WatchedChain, 'sequence'>, roots: readonly MerkleRoot[]): CutSpan | undefined {
  const [first] = roots;
  const cut = first === undefined ? undefined : cutBy(first);
  return cut !== undefined && cut.from_sequence < sequence && sequence < cut.sequence ? cut : undefined;
}

/** The same watcher at the newest root that he has kept of before a cut; what he knows of the cut span goes. */
export function rewoundBefore(watched: WatchedChain, { from_sequence: from }: CutSpan): WatchedChain {
  const kept = (watched.kept ?? []).filter(({ sequence }) => sequence <= from);
  const seen = kept.at(-1) ?? nothingSeen(watched.org_id);
  const upToCut = (said: SeenStamp | undefined): SeenStamp | undefined => (said === undefined || said.sequence > from ? undefined : said);
  const { stamp, entered } = watched;
  return { ...watched, ...seen, kept: kept.slice(0, -1), stamp: upToCut(stamp), entered: upToCut(entered) };
}

/**
 * Goes past the restores among roots that were found to fit.
 * @param accepted sequence up to which somebody has accepted them
 * @returns what is remembered behind them: to witnesses another log begins there
 * @throws RestoreFound for the first that nobody has accepted
 */
export function passRestores(
  watched: WatchedChain,
  fresh: readonly MerkleRoot[],
  accepted: number,
  known: { readonly seen: number; readonly compared: number },
): WatchedChain {
  const cuts = fresh.map(cutBy).filter((cut) => cut !== undefined);
  const unknown = cuts.find(({ sequence }) => sequence > accepted);
  if (unknown !== undefined) throw new RestoreFound(unknown, known);
  const last = cuts.at(-1);
  return last === undefined ? watched : { ...watched, restored: last.sequence, cosigned: undefined };
}
