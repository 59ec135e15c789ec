import { LedgerError } from './ledger-error.ts';
import { checkSignature, type LedgerKeys, type MerkleRoot, NO_ROOT, rootDigest } from './merkle-root.ts';

/** A chain that fits together from its first to its last root. */
export interface WalkedChain extends SeenRoot {
  /** Sequence with which it begins; what stands before a first root above 1 is not proved by it. */
  readonly first: number;
}

/**
 * Walks a chain root by root, whatever its length: it begins with its first root and must go on without a gap (decision
 * 13.2). A root that somebody holds already can be looked for in it.
 */
export class ChainWalk {
  readonly #keys: LedgerKeys;
  readonly #wanted: MerkleRoot | undefined;
  #first: number | undefined;
  #seen: SeenRoot | undefined;
  #found = false;

  /** @param wanted a root that must be in the chain, byte for byte */
  constructor(keys: LedgerKeys, wanted?: MerkleRoot) {
    this.#keys = keys;
    this.#wanted = wanted;
  }

  /** @throws LedgerError when it is not the next one, or not the one that is looked for though it has its place */
  take(root: MerkleRoot): void {
    this.#seen = followChain(this.#seen ?? before(root), [root], this.#keys);
    this.#first ??= root.sequence;
    const wanted = this.#wanted;
    if (wanted === undefined || wanted.sequence !== root.sequence) return;
    if (wanted.org_id !== root.org_id)
      throw new LedgerError(`root ${root.sequence}: the chain is of another org (${root.org_id}) than the proof (${wanted.org_id})`);
    if (rootDigest(wanted) !== this.#seen.digest)
      throw new LedgerError(`root ${root.sequence}: that of the proof is another one than that of the chain: there are two histories`);
    this.#found = true;
  }

  /** @throws LedgerError when it has no root, or not the one that is looked for */
  end(): WalkedChain {
    if (this.#seen === undefined || this.#first === undefined) throw new LedgerError('roots: there is none');
    if (this.#wanted !== undefined && !this.#found)
      throw new LedgerError(
        `root ${this.#wanted.sequence}: that of the proof is not among the roots ${this.#first} to ${this.#seen.sequence} that were given`,
      );
    return { ...this.#seen, first: this.#first };
  }
}

/** The first root of a ledger names none before it; any other is taken at its word for what was there. */
function before(root: MerkleRoot): SeenRoot {
  if (root.sequence === 1) return nothingSeen(root.org_id);
  return { org_id: root.org_id, sequence: root.sequence - 1, digest: root.prev_root_hash };
}

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
 * Goes on from what was seen: each root is signed, of the same org, has the next sequence and names the one before it
 * (decision 13.2).
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
