import { LedgerError } from './ledger-error.ts';
import { checkSignature, type LedgerKeys, type MerkleRoot, NO_ROOT, rootDigest } from './merkle-root.ts';

/** Where a chain was when somebody looked: the last root that he has seen. */
export interface SeenRoot {
  readonly org_id: string;
  readonly sequence: number;
  /** {@link rootDigest} of it. */
  readonly digest: string;
}

/** Before the first root of an org. */
export function nothingSeen(orgId: string): SeenRoot {
  return { org_id: orgId, sequence: 0, digest: NO_ROOT };
}

/**
 * Goes on from what was seen: each root is signed, of the same org, has the next sequence and names the one before it (decision 13.2).
 * @returns the last one that was seen now
 * @throws LedgerError for the first root that does not fit
 */
export function followChain(seen: SeenRoot, roots: readonly MerkleRoot[], keys: LedgerKeys): SeenRoot {
  return roots.reduce((before, root) => next(before, root, keys), seen);
}

function next(before: SeenRoot, root: MerkleRoot, keys: LedgerKeys): SeenRoot {
  checkSignature(root, keys);
  const what = `root ${root.sequence}`;
  if (root.org_id !== before.org_id) throw new LedgerError(`${what}: it is of another org (${root.org_id})`);
  if (root.sequence !== before.sequence + 1) throw new LedgerError(`${what}: root ${before.sequence + 1} should stand there`);
  if (root.prev_root_hash !== before.digest) {
    throw new LedgerError(
      before.sequence === 0
        ? `${what}: prev_root_hash is not 64 zeros, though nothing stands before it`
        : `${what}: prev_root_hash is not that of root ${before.sequence}: history was rewritten, or a root is missing`,
    );
  }
  return { org_id: root.org_id, sequence: root.sequence, digest: rootDigest(root) };
}
