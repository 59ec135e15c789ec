import { type TreeHead, treeHeadOf } from './consistency-proof.ts';
import { keyedOn } from './key-window.ts';
import { LedgerError } from './ledger-error.ts';
import { type CutSpan, cutBy, cutOver, cutText } from './ledger-restore.ts';
import { checkSignature, type LedgerKeys, type MerkleRoot, NO_ROOT, rootDigest } from './merkle-root.ts';

/** A chain that fits together from its first to its last root. */
export interface WalkedChain extends SeenRoot {
  /** Sequence with which it begins; what stands before a first root above 1 is not proved by it. */
  readonly first: number;
  /** Where roots were left out; undefined: nowhere. */
  readonly leap: RootLeap | undefined;
  /** Restores that its roots say, each with the span that it has cut. */
  readonly cuts: readonly CutSpan[];
  /** What is to be said of the root that was looked for, where it stands in a span that a restore has cut. */
  readonly wantedIsCut: string | undefined;
}

/**
 * Walks a chain root by root, whatever its length: it begins with its first root and must go on without a gap (decision
 * 13.2). A root that somebody holds already can be looked for in it.
 */
export class ChainWalk {
  readonly #keys: LedgerKeys;
  readonly #wanted: MerkleRoot | undefined;
  readonly #leap: RootLeap | undefined;
  #first: number | undefined;
  #seen: SeenRoot | undefined;
  #found = false;
  readonly #cuts: CutSpan[] = [];
  #leapt = false;

  /**
   * @param wanted a root that must be in the chain, byte for byte
   * @param leap roots that may be left out, because a proof of consistency shows that the later one goes on from the
   * earlier one
   */
  constructor(keys: LedgerKeys, wanted?: MerkleRoot, leap?: RootLeap) {
    this.#keys = keys;
    this.#wanted = wanted;
    this.#leap = leap;
  }

  /** @throws LedgerError when it is not the next one, or not the one that is looked for though it has its place */
  take(root: MerkleRoot): void {
    this.#seen = followChain(this.#before(root), [root], this.#keys);
    this.#first ??= root.sequence;
    const cut = cutBy(root);
    if (cut !== undefined) this.#cuts.push(cut);
    const wanted = this.#wanted;
    if (wanted === undefined || wanted.sequence !== root.sequence) return;
    if (wanted.org_id !== root.org_id)
      throw new LedgerError(`root ${root.sequence}: the chain is of another org (${root.org_id}) than the proof (${wanted.org_id})`);
    if (rootDigest(wanted) !== this.#seen.digest)
      throw new LedgerError(`root ${root.sequence}: that of the proof is another one than that of the chain: there are two histories`);
    this.#found = true;
  }

  #before(root: MerkleRoot): SeenRoot {
    const seen = this.#seen;
    if (seen === undefined) return before(root);
    const leaps = seen.sequence === this.#leap?.from && root.sequence === this.#leap.to && root.sequence > seen.sequence + 1;
    if (!leaps) return seen;
    this.#leapt = true;
    return { ...before(root), org_id: seen.org_id, keyed_from: seen.keyed_from };
  }

  /**
   * @throws LedgerError when it has no root, or not the one that is looked for, unless that one stands in a span that a
   * restore has cut
   */
  end(): WalkedChain {
    if (this.#seen === undefined || this.#first === undefined) throw new LedgerError('roots: there is none');
    const wantedIsCut = this.#wanted === undefined || this.#found ? undefined : this.#cutOf(this.#wanted, this.#first, this.#seen);
    const leap = this.#leapt ? this.#leap : undefined;
    return { ...this.#seen, first: this.#first, leap, cuts: this.#cuts, wantedIsCut };
  }

  /** @throws LedgerError when no cut says why it is not there */
  #cutOf({ sequence, org_id: orgId }: MerkleRoot, first: number, { sequence: last, org_id: walked }: SeenRoot): string {
    const cut = orgId === walked ? cutOver(this.#cuts, sequence) : undefined;
    if (cut === undefined)
      throw new LedgerError(`root ${sequence}: that of the proof is not among the roots ${first} to ${last} that were given`);
    return `root ${sequence}: that of the proof is of a span that a restore has cut. It was signed, and the ledger does not have it any more; ask for a new proof: ${cutText(cut)}`;
  }
}

/** The first root of a ledger names none before it; any other is taken at its word for what was there. */
function before(root: MerkleRoot): SeenRoot {
  const sequence = root.restored?.from_sequence ?? root.sequence - 1;
  if (sequence === 0) return nothingSeen(root.org_id);
  return {
    org_id: root.org_id,
    sequence,
    digest: root.prev_root_hash,
    leaves: undefined,
    tree: undefined,
    keyed_from: undefined,
  };
}

/** From a root to a later one, by their sequences. */
export interface RootLeap {
  readonly from: number;
  readonly to: number;
}

/** Where a chain was when somebody looked: the last root that he has seen. */
export interface SeenRoot {
  readonly org_id: string;
  readonly sequence: number;
  /** {@link rootDigest} of it. */
  readonly digest: string;
  /** Hashes under all roots so far; undefined where the chain began later, and no root has said it yet. */
  readonly leaves: number | undefined;
  /** The newest tree that a root has signed. */
  readonly tree: TreeHead | undefined;
  /** When the newest key that has signed a root began, RFC 3339; undefined: no key that has signed says it. */
  readonly keyed_from: string | undefined;
}

/** Before the first root of an org. */
export function nothingSeen(orgId: string): SeenRoot {
  return { org_id: orgId, sequence: 0, digest: NO_ROOT, leaves: 0, tree: undefined, keyed_from: undefined };
}

/**
 * Goes on from what was seen: each root is signed, of the same org, has the next sequence and names the one before it
 * (decision 13.2). One that says that the ledger was restored may leave sequences out behind the root that it says
 * (decision 13.23); whoever calls decides what he makes of it.
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
  checkPlace(before, root, what);
  if (root.prev_root_hash !== before.digest) {
    throw new LedgerError(
      before.sequence === 0
        ? `${what}: prev_root_hash is not 64 zeros, though nothing stands before it`
        : `${what}: prev_root_hash is not that of root ${before.sequence}: history was rewritten, or a root is missing`,
    );
  }
  const { kid } = root.sig;
  const keyed_from = keyedOn(before.keyed_from, keys.windowOf(kid), kid, what);
  const leaves = leavesUpTo(before, root);
  const tree = treeHeadOf(root) ?? before.tree;
  return { org_id: root.org_id, sequence: root.sequence, digest: rootDigest(root), leaves, tree, keyed_from };
}

/** @throws LedgerError */
function checkPlace(before: SeenRoot, { sequence, restored }: MerkleRoot, what: string): void {
  if (restored !== undefined && restored.from_sequence !== before.sequence)
    throw new LedgerError(
      `${what}: it says that the ledger was restored up to root ${restored.from_sequence}, and root ${before.sequence} stands before it`,
    );
  const isNext = restored === undefined ? sequence === before.sequence + 1 : sequence > before.sequence + 1;
  if (!isNext) throw new LedgerError(`${what}: root ${before.sequence + 1} should stand there`);
}

/** @throws LedgerError when the tree that the root signs has another size than its batches */
function leavesUpTo({ leaves: before }: SeenRoot, root: MerkleRoot): number | undefined {
  const { leaf_count: count, tree_size: size, tree_hash: hash } = root;
  const leaves = before === undefined ? size : before + count;
  const isOff = size !== undefined && (size !== leaves || size < count);
  if (isOff) throw new LedgerError(`root ${root.sequence}: tree_size is ${size}, and ${leaves} hashes are under the roots up to it`);
  // The first batch of an org is its whole tree.
  if (size === count && hash !== root.root_hash)
    throw new LedgerError(`root ${root.sequence}: tree_hash is not root_hash, though its batch is all there is`);
  return leaves;
}
