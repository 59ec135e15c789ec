import type { KeyObject } from 'node:crypto';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { every, type RunningJob } from '../../base/lib/every.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Logger } from '../../base/lib/log.ts';
import { type ConsistencyProof, checkConsistency, type TreeHead, treeHeadOf } from '../../ledger/consistency-proof.ts';
import { type InclusionProof, proveInclusion, recordLeaf } from '../../ledger/inclusion-proof.ts';
import { type CutSpan, cutBy, restoreLeaf } from '../../ledger/ledger-restore.ts';
import { type MerkleRoot, NO_ROOT, ROOT_SCHEMA, rootDigest, signRoot } from '../../ledger/merkle-root.ts';
import { treeRoot } from '../../ledger/merkle-tree.ts';
import type { Leaves } from '../../storage/contract/leaves.ts';
import type { Effect, Expectation, Store } from '../../storage/contract/store.ts';
import { OrgTree } from './org-tree.ts';
import { dueRestore, type RestoreDeclaration } from './restore-declaration.ts';

/** A batch is closed when it has so many hashes, or so long after its first one (decision 13.2). */
const BATCH_HASHES = 256;
const BATCH_MS = 1_000;
const HEADS = 'ledger_head';
const ROOTS = 'ledger_root';
/** Digits of a sequence in a key, so that keys are in order. */
const SEQUENCE_DIGITS = 15;

/** The last root of an org. */
interface Head {
  readonly sequence: number;
  readonly digest: string;
  /** Leaves under all roots so far. */
  readonly leaves: number;
  /**
   * The latest time that one of its roots bears, RFC 3339: not always that of the last one, since a clock may have been
   * ahead. Undefined: the root is of a version that did not remember it.
   */
  readonly latest?: string;
  /** Of the frontier of the tree over them; undefined: the root is of a version that had none. */
  readonly peaks?: readonly string[];
  /** Restores that it has taken up, in order (decision 13.23); undefined: none. */
  readonly cuts?: readonly CutSpan[];
}

interface StoredRoot {
  readonly root: MerkleRoot;
  /** Place of its first leaf among all of the org. */
  readonly first_leaf: number;
}

export interface RootSigner {
  readonly kid: string;
  /** A private Ed25519 key. */
  readonly key: KeyObject;
}

/** Whose turn it is to sign. */
export interface RootSigners {
  /** @param now milliseconds since the epoch @returns the key, and the time that the root is to bear */
  signerAt(now: number): Promise<{ readonly signer: RootSigner; readonly at: number }>;
}

export interface OrgLedgerOptions {
  readonly orgId: string;
  readonly store: Pick<Store, 'commit' | 'entity' | 'entities' | 'get'>;
  /** Opened with as many leaves as {@link signedLeaves} says. */
  readonly leaves: Leaves;
  readonly signers: RootSigners;
  readonly clock: Clock;
  readonly log: Logger;
  /** That its data were restored; what was taken up already changes nothing. Undefined: nobody has said so. */
  readonly restore?: RestoreDeclaration | undefined;
  /** Nothing is signed while it says so (decision 13.23). */
  readonly isHeld?: () => boolean;
  /** Told of each root when it is stored. */
  readonly signed?: (root: MerkleRoot) => void;
}

export type Inclusion =
  | { readonly status: 'unknown' | 'pending_inclusion' }
  | { readonly status: 'verified'; readonly proof: InclusionProof };

/** How many leaves of an org have been signed for. */
export async function signedLeaves(store: Pick<Store, 'get'>, orgId: string): Promise<number> {
  return headOf(await store.get(HEADS, orgId)).leaves;
}

/** Roots of an org behind a sequence, in order; no leaf is needed for that. @param limit at least 1 */
export async function rootsOf(store: Pick<Store, 'entities'>, orgId: string, after: number, limit: number): Promise<readonly MerkleRoot[]> {
  const rows = await store.entities(ROOTS, { prefix: `${orgId} `, after: rootKey(orgId, after), limit });
  return rows.map(({ value }) => (value as StoredRoot).root);
}

/** The last root of an org; undefined: it has none. */
export async function newestRootOf(store: Pick<Store, 'get'>, orgId: string): Promise<MerkleRoot | undefined> {
  const { sequence } = headOf(await store.get(HEADS, orgId));
  return ((await store.get(ROOTS, rootKey(orgId, sequence))) as StoredRoot | undefined)?.root;
}

/** Restores that the ledger of an org has taken up, in order. */
export async function cutsOf(store: Pick<Store, 'get'>, orgId: string): Promise<readonly CutSpan[]> {
  return headOf(await store.get(HEADS, orgId)).cuts ?? [];
}

/** The last root of a ledger, and the restores that it has taken up. */
export interface LedgerEnd {
  readonly orgId: string;
  readonly sequence: number;
  readonly cuts: readonly CutSpan[];
}

/** Of every org that has a root. */
export async function ledgerEnds(store: Pick<Store, 'list'>): Promise<readonly LedgerEnd[]> {
  const heads = (await store.list(HEADS)).map(({ key, value }) => ({ orgId: key, ...headOf(value) }));
  return heads.map(({ orgId, sequence, cuts = [] }) => ({ orgId, sequence, cuts }));
}

/**
 * The latest time that a root of any org bears, milliseconds since the epoch; minus infinity: there is none. A head
 * that does not say it is taken at the word of its last root.
 */
export async function latestClosedAt(store: Pick<Store, 'get' | 'list'>): Promise<number> {
  let latest = Number.NEGATIVE_INFINITY;
  for (const { key, value } of await store.list(HEADS)) latest = Math.max(latest, await latestOf(store, key, headOf(value)));
  return latest;
}

async function latestOf(store: Pick<Store, 'get'>, orgId: string, { latest, sequence }: Head): Promise<number> {
  if (sequence === 0) return Number.NEGATIVE_INFINITY;
  if (latest !== undefined) return Date.parse(latest);
  const stored = (await store.get(ROOTS, rootKey(orgId, sequence))) as StoredRoot | undefined;
  return stored === undefined ? Number.NEGATIVE_INFINITY : Date.parse(stored.root.closed_at);
}

/**
 * The ledger of one org: hashes come in, batches of them are closed under signed roots, each of which names the one
 * before it. The root and the new head are one commit that expects the head before it, so that there are never two
 * roots of one sequence, whoever writes and whenever he dies.
 */
export class OrgLedger {
  readonly #options: OrgLedgerOptions;
  readonly #tree: OrgTree;
  #head: Head;
  /** What the last commit was to make of it. Should its answer have been lost, the store knows whether it did. */
  #attempted: Head | undefined;
  readonly #job: RunningJob;
  #ended = false;
  /** The last try to close a batch has failed. */
  #isFailing = false;

  private constructor(options: OrgLedgerOptions, head: Head) {
    this.#options = options;
    this.#tree = new OrgTree(options);
    this.#head = head;
    this.#job = every(options, {
      everyMs: () => (this.pending > 0 ? BATCH_MS : undefined),
      run: () => this.#closeBatches(),
      failed: 'batches of the ledger could not be closed',
    });
  }

  static async open(options: OrgLedgerOptions): Promise<OrgLedger> {
    const ledger = new OrgLedger(options, headOf(await options.store.get(HEADS, options.orgId)));
    await ledger.#takeUpRestore();
    // What a process before this one had taken and not closed any more.
    ledger.#look();
    return ledger;
  }

  /** Hashes that are under no root yet. */
  get pending(): number {
    return this.#options.leaves.count - this.#head.leaves;
  }

  /** Its leaves take nothing any more until they are opened again. */
  get isBroken(): boolean {
    return this.#options.leaves.isBroken === true;
  }

  get sequence(): number {
    return this.#head.sequence;
  }

  /**
   * Takes hashes of 32 bytes; when it has resolved they are never forgotten. Those that are there already change
   * nothing.
   * @throws GatewayError `record_store_unavailable` when they cannot be stored, such as on a full disk: none of them
   * counts
   */
  async submit(hashes: readonly Uint8Array[]): Promise<void> {
    try {
      await this.#options.leaves.append(hashes);
    } catch (error) {
      // A mistake of ours, and no disk.
      if (error instanceof TypeError) throw error;
      // biome-ignore lint/style/useErrorCause: the cause is in the third argument
      throw new GatewayError('record_store_unavailable', 'The ledger of the org cannot be written at the moment.', { cause: error });
    }
    this.#look();
  }

  /** What is known of a hash. */
  async inclusion(hash: Uint8Array): Promise<Inclusion> {
    const place = await this.#options.leaves.find(hash);
    if (place === undefined) return { status: 'unknown' };
    const stored = place < this.#head.leaves ? await this.#rootOver(place) : undefined;
    if (stored === undefined) return { status: 'pending_inclusion' };
    const { root, first_leaf: first } = stored;
    const hashes = (await this.#options.leaves.read(first, root.leaf_count)).map((leaf) => leaf.toString('hex'));
    return { status: 'verified', proof: proveInclusion(hashes, place - first, root) };
  }

  /**
   * That the tree of one root goes on in that of another; it is checked before it is given out.
   * @param first at most `second`
   * @throws GatewayError `not_found` for a root that is not there, `conflict` for one without a tree,
   * `record_store_unavailable` where the leaves are not those that were signed
   */
  async consistency(first: number, second: number): Promise<ConsistencyProof> {
    const heads = { first: await this.#treeOf(first), second: await this.#treeOf(second) };
    try {
      const proof = { ...heads, path: await this.#tree.path(heads.first.tree_size, heads.second.tree_size) };
      checkConsistency(proof, heads.first, heads.second);
      return proof;
    } catch (error) {
      const text = `What is stored of the ledger of ${this.#options.orgId} is not what roots ${first} and ${second} were signed over.`;
      // biome-ignore lint/style/useErrorCause: the cause is in the third argument
      throw new GatewayError('record_store_unavailable', text, { cause: error });
    }
  }

  /** As {@link rootsOf}. */
  roots(after: number, limit: number): Promise<readonly MerkleRoot[]> {
    return rootsOf(this.#options.store, this.#options.orgId, after, limit);
  }

  /** Closes a batch now rather than within a second. Never rejects. */
  async closeSoon(): Promise<void> {
    if (this.pending > 0) await this.#job.now();
  }

  /** Closes no further batch; hashes without a root get theirs at the next start. */
  async close(): Promise<void> {
    this.#ended = true;
    await this.#job.stop();
    await this.#options.leaves.close();
  }

  /**
   * A ledger that had roots shows the restore before a record comes: the declaration is a leaf of its own. One that had
   * none waits for its first hash.
   */
  async #takeUpRestore(): Promise<void> {
    const due = this.#dueRestore();
    const { orgId, leaves } = this.#options;
    if (due !== undefined && this.#head.sequence > 0) await leaves.append([restoreLeaf(orgId, this.#head.digest, due.restored)]);
  }

  #dueRestore(): ReturnType<typeof dueRestore> {
    return dueRestore(this.#options.restore, this.#head.sequence, this.#head.cuts);
  }

  /** Closes a batch now when it is full, else a second after its first hash. */
  #look(): void {
    if (this.pending >= BATCH_HASHES) void this.#job.now();
    else if (this.pending > 0) this.#job.within(BATCH_MS);
  }

  async #closeBatches(): Promise<void> {
    if (this.#options.isHeld?.() === true) return;
    try {
      do await this.#closeBatch();
      while (this.pending >= BATCH_HASHES && !this.#ended);
      this.#isFailing = false;
    } catch (error) {
      // One line for each time it breaks, not for each second.
      if (!this.#isFailing)
        this.#options.log.error(
          { err: error, org_id: this.#options.orgId },
          'a batch of the ledger could not be closed; it is tried again each second',
        );
      this.#isFailing = true;
    }
  }

  async #closeBatch(): Promise<void> {
    const { orgId, leaves, signers, clock, store } = this.#options;
    const version = await this.#storedHead();
    const hashes = await leaves.read(this.#head.leaves, BATCH_HASHES);
    if (hashes.length === 0) return;
    const due = this.#dueRestore();
    const sequence = due?.sequence ?? this.#head.sequence + 1;
    const frontier = await this.#tree.frontier(this.#head.leaves, this.#head.peaks);
    const nodes = this.#tree.grow(frontier, hashes);
    const before = await latestOf(store, orgId, this.#head);
    const { signer, at } = await signers.signerAt(clock.now());
    const root = signRoot(
      {
        schema: ROOT_SCHEMA,
        batch_id: `${orgId}/${sequence}`,
        org_id: orgId,
        sequence,
        prev_root_hash: this.#head.digest,
        root_hash: treeRoot(hashes.map((hash) => recordLeaf(hash.toString('hex')))).toString('hex'),
        leaf_count: hashes.length,
        tree_size: frontier.size,
        tree_hash: frontier.root.toString('hex'),
        closed_at: timestamp(at),
        ...(due && { restored: due.restored }),
      },
      signer.kid,
      signer.key,
    );
    const cut = cutBy(root);
    const cuts = cut === undefined ? this.#head.cuts : [...(this.#head.cuts ?? []), cut];
    const head: Head = {
      sequence,
      digest: rootDigest(root),
      leaves: frontier.size,
      latest: timestamp(Math.max(before, at)),
      peaks: frontier.peaks,
      ...(cuts && { cuts }),
    };
    const stored: StoredRoot = { root, first_leaf: this.#head.leaves };
    const effects: Effect[] = [
      ...nodes,
      { op: 'put', space: ROOTS, key: rootKey(orgId, sequence), value: stored },
      { op: 'put', space: HEADS, key: orgId, value: head },
    ];
    const expect: Expectation[] = [
      { space: HEADS, key: orgId, version },
      { space: ROOTS, key: rootKey(orgId, sequence), version: undefined },
    ];
    this.#attempted = head;
    await store.commit(undefined, effects, expect);
    this.#head = head;
    this.#options.signed?.(root);
  }

  /**
   * The version of the stored head, which is the one we know: also where a commit has succeeded without our hearing of
   * it.
   * @throws Error when somebody else has written it
   */
  async #storedHead(): Promise<string | undefined> {
    const { store, orgId } = this.#options;
    const entity = await store.entity(HEADS, orgId);
    const { digest } = headOf(entity?.value);
    if (this.#attempted !== undefined && digest === this.#attempted.digest) this.#head = this.#attempted;
    if (digest !== this.#head.digest) throw new Error(`somebody else writes the ledger of ${orgId}`);
    return entity?.version;
  }

  async #treeOf(sequence: number): Promise<TreeHead> {
    const { orgId } = this.#options;
    const stored = await this.#storedRoot(sequence);
    if (stored === undefined) throw new GatewayError('not_found', `There is no root ${sequence} of the org ${orgId}.`);
    const head = treeHeadOf(stored.root);
    if (head === undefined)
      throw new GatewayError(
        'conflict',
        `Root ${sequence} of the org ${orgId} was signed before roots had a tree: ask from a later one on.`,
      );
    return head;
  }

  async #storedRoot(sequence: number): Promise<StoredRoot | undefined> {
    const { store, orgId } = this.#options;
    return (await store.get(ROOTS, rootKey(orgId, sequence))) as StoredRoot | undefined;
  }

  /** Between two restores sequences have no gap. */
  async #rootOver(place: number): Promise<StoredRoot | undefined> {
    const { cuts = [], sequence } = this.#head;
    let last = sequence;
    for (const cut of cuts.toReversed()) {
      const first = await this.#storedRoot(cut.sequence);
      if (first !== undefined && place >= first.first_leaf) return this.#rootBetween(cut.sequence, last, place);
      last = cut.from_sequence;
    }
    return this.#rootBetween(1, last, place);
  }

  /** Sequences and first leaves ascend together. */
  async #rootBetween(first: number, last: number, place: number): Promise<StoredRoot | undefined> {
    let low = first;
    let high = last;
    while (low <= high) {
      const middle = Math.floor((low + high) / 2);
      const stored = await this.#storedRoot(middle);
      if (stored === undefined) return undefined;
      if (place < stored.first_leaf) high = middle - 1;
      else if (place >= stored.first_leaf + stored.root.leaf_count) low = middle + 1;
      else return stored;
    }
    return undefined;
  }
}

function headOf(value: unknown): Head {
  return (value as Head | undefined) ?? { sequence: 0, digest: NO_ROOT, leaves: 0 };
}

function rootKey(orgId: string, sequence: number): string {
  return `${orgId} ${String(sequence).padStart(SEQUENCE_DIGITS, '0')}`;
}
