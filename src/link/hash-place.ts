import type { CutSpan } from '../ledger/ledger-restore.ts';
import type { Effect, Store } from '../storage/contract/store.ts';

const PLACES = 'hash_submission';
/** Restores that are remembered: of proofs that are still kept. */
export const MOST_CUTS = 16;
/** Records whose texts are in memory at a time. */
const PAGE = 512;

/** How far the hashes of the records are acknowledged. */
export interface HashPlace {
  /** The position of the last record whose hash was; null: none. */
  readonly after: string | null;
  readonly submitted: number;
  /** RFC 3339. */
  readonly last_submit_at?: string;
  /** The newest root that the control plane has shown, JSON (decision 13.23); absent: none. */
  readonly newest_root?: string;
  /** Its restores for which everything was handed in again, in order; absent: none. */
  readonly cuts?: readonly CutSpan[];
}

/** Hashes in commit order, each with the position of its record. */
export interface HashPage {
  readonly hashes: readonly Buffer[];
  readonly positions: readonly string[];
  /** Nothing stood behind them when they were read. */
  readonly isLast: boolean;
}

/** The stored place of an org; at the beginning when there is none. */
export async function placeOf(store: Pick<Store, 'get'>, orgId: string): Promise<HashPlace> {
  return ((await store.get(PLACES, orgId)) as HashPlace | undefined) ?? { after: null, submitted: 0 };
}

export function placePut(orgId: string, place: HashPlace): Effect {
  return { op: 'put', space: PLACES, key: orgId, value: place };
}

/** The hashes behind a place, the oldest first. @param most at least 1 */
export async function hashesAfter(store: Pick<Store, 'records'>, from: string | null, most: number): Promise<HashPage> {
  const hashes: Buffer[] = [];
  const positions: string[] = [];
  for (let after = from; hashes.length < most; ) {
    const limit = Math.min(PAGE, most - hashes.length);
    const page = await store.records({ limit, ...(after === null ? {} : { after }) });
    for (const { text, position } of page) {
      hashes.push(Buffer.from((JSON.parse(text) as { readonly record_hash: string }).record_hash, 'hex'));
      positions.push(position);
    }
    if (page.length < limit) return { hashes, positions, isLast: true };
    after = page.at(-1)?.position ?? after;
  }
  return { hashes, positions, isLast: false };
}
