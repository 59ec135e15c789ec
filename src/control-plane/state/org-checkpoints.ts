import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { GatewayError, messageOf } from '../../base/lib/gateway-error.ts';
import { checkpointText, logKey, restoredOriginOf, signCheckpoint } from '../../ledger/checkpoint.ts';
import { type TreeHead, treeHeadOf } from '../../ledger/consistency-proof.ts';
import { checkCosignature } from '../../ledger/cosignature.ts';
import type { ListedKey } from '../../ledger/ledger-answers.ts';
import { LedgerError } from '../../ledger/ledger-error.ts';
import type { MerkleRoot } from '../../ledger/merkle-root.ts';
import { type NoteKey, readSignatureLine } from '../../ledger/signed-note.ts';
import { unlessConflict } from '../../services/registers/commit.ts';
import type { Effect, Expectation, Store } from '../../storage/contract/store.ts';
import { cutsOf, newestRootOf, rootsOf } from '../ledger/org-ledger.ts';
import type { KeptSigningKey } from '../pki/kept-signing-key.ts';
import { keyIn, prefixOf, SPACE } from './control-plane-spaces.ts';
import type { ShownCheckpoint } from './control-plane-state.ts';

/** Digits of a sequence in a key, so that keys are in order. */
const SEQUENCE_DIGITS = 15;
/** Checkpoints of one org that are kept: beyond, the oldest gives way. */
export const MOST_CHECKPOINTS = 10_000;
/** A witness whose clock is so far ahead is not believed; seconds. */
const MOST_AHEAD = 300;
const MOST_TRIES = 16;

/** A cosignature as it is kept: each witness has its newest one beside a checkpoint. */
interface KeptCosignature {
  readonly witness: string;
  /** Whole seconds since the epoch, as the witness says. */
  readonly seconds: number;
  /** Of the signed note. */
  readonly line: string;
}

interface KeptCheckpoint extends TreeHead {
  /** As it was published: cosignatures are over it, also when the ledger is given another name later. */
  readonly origin: string;
  /** RFC 3339. */
  readonly published_at: string;
  readonly cosignatures: readonly KeptCosignature[];
}

/** What is known of the checkpoints of an org without reading them. */
interface CheckpointHead {
  /** Of the root of the one that is published. */
  readonly sequence: number;
  /** When it was, milliseconds since the epoch. */
  readonly at: number;
  /** Of the one before it, which a witness may have under way still; 0: there was none. */
  readonly previous: number;
  readonly kept: number;
  /** The newest that has one cosignature at least, two, and so on. */
  readonly newestWith: readonly number[];
}

/** How an org's checkpoints are made. */
export interface CheckpointRules {
  /**
   * Names the ledgers of this control plane: the first part of each origin. Undefined: the name of the first key that
   * signed roots, which stays when others follow it.
   */
  readonly ledgerName: string | undefined;
  /** Milliseconds for which a checkpoint stays the published one, so that all witnesses cosign the same. */
  readonly intervalMs: number;
  /** Whose cosignatures are taken. */
  readonly witnesses: readonly NoteKey[];
}

/** Whose turn it is to sign: checkpoints have no time of their own, so each is signed with the key of the moment. */
export interface CheckpointSigners {
  readonly firstKid: string;
  /** @param now milliseconds since the epoch */
  signerAt(now: number): Promise<{ readonly signer: KeptSigningKey }>;
}

export interface OrgCheckpointsOptions extends CheckpointRules {
  readonly store: Pick<Store, 'commit' | 'get' | 'entity' | 'entities' | 'list'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly signers: CheckpointSigners;
}

/** Cosignatures of one witness. */
export interface CosignatureCount {
  readonly witness: string;
  /** Taken since the start. */
  readonly taken: number;
  /** Time of the newest that was taken since the start, seconds since the epoch; 0: none was. */
  readonly newest: number;
}

/**
 * Checkpoints of the ledgers, and what witnesses say of them (decision 13.21). A new one is published when somebody
 * asks and the last is older than an interval: then every witness who looks in that time cosigns the same one.
 */
export class OrgCheckpoints {
  readonly #options: OrgCheckpointsOptions;
  readonly #counts = new Map<string, { taken: number; newest: number }>();

  constructor(options: OrgCheckpointsOptions) {
    this.#options = options;
    for (const { name } of options.witnesses) this.#counts.set(name, { taken: 0, newest: 0 });
  }

  get counts(): readonly CosignatureCount[] {
    return [...this.#counts].map(([witness, { taken, newest }]) => ({ witness, taken, newest }));
  }

  /** How a key of the ledger is handed to those who verify the checkpoints of an org. */
  async verifierKey(orgId: string, key: Pick<ListedKey, 'public_key'>): Promise<string> {
    return logKey(await this.#originOf(orgId), key).vkey;
  }

  /** The one that is published. @throws GatewayError `not_found` where no root has a tree yet */
  async published(orgId: string): Promise<ShownCheckpoint> {
    for (let left = MOST_TRIES; ; left--) {
      const kept = await this.#publish(orgId, left);
      if (kept !== undefined) return this.#shown(kept);
    }
  }

  /** That of one root, published or not. @throws GatewayError `not_found`; `conflict` for a root without a tree */
  async of(orgId: string, sequence: number): Promise<ShownCheckpoint> {
    const kept = await this.#kept(orgId, sequence);
    if (kept !== undefined) return this.#shown(kept);
    const [root] = await rootsOf(this.#options.store, orgId, sequence - 1, 1);
    if (root?.sequence !== sequence) throw new GatewayError('not_found', `There is no root ${sequence} of the org ${orgId}.`);
    return this.#shown({
      ...treeOf(root),
      origin: await this.#originOf(orgId, sequence),
      published_at: root.closed_at,
      cosignatures: [],
    });
  }

  /** The newest with so many cosignatures. @throws GatewayError `not_found` */
  async cosigned(orgId: string, count: number): Promise<ShownCheckpoint> {
    const sequence = headOf(await this.#options.store.get(SPACE.checkpointHeads, orgId)).newestWith[count - 1];
    const kept = sequence === undefined ? undefined : await this.#kept(orgId, sequence);
    if (kept === undefined) throw new GatewayError('not_found', `No checkpoint of the org ${orgId} has ${count} cosignatures.`);
    return this.#shown(kept);
  }

  /** Published ones of an org behind the root of a sequence, in order. @param limit at least 1 */
  async list(orgId: string, after: number, limit: number): Promise<readonly ShownCheckpoint[]> {
    const page = { prefix: prefixOf(orgId), after: keyIn(orgId, digits(after)), limit };
    const found = await this.#options.store.list(SPACE.checkpoints, page);
    return Promise.all(found.map(({ value }) => this.#shown(value as KeptCheckpoint)));
  }

  /**
   * Takes a cosignature of a published checkpoint. One that is older than what is kept of its witness changes nothing.
   * @param line of the signed note
   * @throws GatewayError `not_found` for a checkpoint that was not published, `invalid_request` for a line that is none
   * of a known witness, or does not fit
   */
  async cosign(orgId: string, sequence: number, line: string): Promise<ShownCheckpoint> {
    for (let left = MOST_TRIES; ; left--) {
      const kept = await this.#kept(orgId, sequence);
      if (kept === undefined)
        throw new GatewayError('not_found', `There is no published checkpoint of root ${sequence} of the org ${orgId}.`);
      const given = this.#checked(kept, line);
      const before = kept.cosignatures.find(({ witness }) => witness === given.witness);
      if (before !== undefined && before.seconds >= given.seconds) return this.#shown(kept);
      const cosignatures = [...kept.cosignatures.filter(({ witness }) => witness !== given.witness), given];
      const { version, cosignatures: _before, ...rest } = kept;
      if (await this.#store(orgId, { ...rest, cosignatures }, version, left)) {
        this.#counts.set(given.witness, { taken: (this.#counts.get(given.witness)?.taken ?? 0) + 1, newest: given.seconds });
        return this.#shown({ ...rest, cosignatures });
      }
    }
  }

  /** Stores it with its new cosignature. @returns false where somebody else was first: then it is tried again */
  async #store(orgId: string, checkpoint: KeptCheckpoint, version: string, left: number): Promise<boolean> {
    const { store } = this.#options;
    const { sequence, cosignatures } = checkpoint;
    const entity = await store.entity(SPACE.checkpointHeads, orgId);
    const head = headOf(entity?.value);
    const newestWith = cosignatures.map((_one, at) => Math.max(head.newestWith[at] ?? 0, sequence));
    const next: CheckpointHead = { ...head, newestWith: [...newestWith, ...head.newestWith.slice(newestWith.length)] };
    const key = keyIn(orgId, digits(sequence));
    return this.#commit(
      [
        { op: 'put', space: SPACE.checkpoints, key, value: checkpoint },
        { op: 'put', space: SPACE.checkpointHeads, key: orgId, value: next },
      ],
      [
        { space: SPACE.checkpoints, key, version },
        { space: SPACE.checkpointHeads, key: orgId, version: entity?.version },
      ],
      left,
    );
  }

  /** Undefined: somebody else was first. */
  async #publish(orgId: string, left: number): Promise<KeptCheckpoint | undefined> {
    const { store, clock, intervalMs } = this.#options;
    const entity = await store.entity(SPACE.checkpointHeads, orgId);
    const head = headOf(entity?.value);
    const now = clock.now();
    const last = head.sequence === 0 ? undefined : await this.#kept(orgId, head.sequence);
    // A clock that was set back publishes a new one rather than none for long.
    const origin = await this.#originOf(orgId);
    // Behind a restore witnesses are shown the log that goes on, at once.
    const isFresh = last?.origin === origin && now >= head.at && now - head.at < intervalMs;
    const root = isFresh ? undefined : await newestRootOf(store, orgId);
    if (last !== undefined && (root === undefined || root.sequence <= last.sequence)) return last;
    if (root === undefined) throw new GatewayError('not_found', `There is no root of the org ${orgId} yet.`);
    const next: KeptCheckpoint = { ...treeOf(root), origin, published_at: timestamp(now), cosignatures: [] };
    const gone = await this.#givingWay(orgId, head);
    const kept = head.kept + 1 - gone.length;
    const stored = await this.#commit(
      [
        ...gone.map((key): Effect => ({ op: 'delete', space: SPACE.checkpoints, key })),
        { op: 'put', space: SPACE.checkpoints, key: keyIn(orgId, digits(next.sequence)), value: next },
        {
          op: 'put',
          space: SPACE.checkpointHeads,
          key: orgId,
          value: { ...head, sequence: next.sequence, at: now, previous: head.sequence, kept },
        },
      ],
      [{ space: SPACE.checkpointHeads, key: orgId, version: entity?.version }],
      left,
    );
    return stored ? next : undefined;
  }

  /** Keys of what makes room: the one before the last where nobody has cosigned it, else the oldest of too many. */
  async #givingWay(orgId: string, { kept, previous }: CheckpointHead): Promise<readonly string[]> {
    const before = previous === 0 ? undefined : await this.#kept(orgId, previous);
    if (before?.cosignatures.length === 0) return [keyIn(orgId, digits(previous))];
    if (kept < MOST_CHECKPOINTS) return [];
    return (await this.#options.store.list(SPACE.checkpoints, { prefix: prefixOf(orgId), limit: 1 })).map(({ key }) => key);
  }

  async #commit(effects: readonly Effect[], expect: readonly Expectation[], left: number): Promise<boolean> {
    const commit = this.#options.store.commit(undefined, effects, expect);
    if (left > 0) return unlessConflict(commit);
    await commit;
    return true;
  }

  /** @throws GatewayError `invalid_request` */
  #checked({ origin, ...head }: KeptCheckpoint, line: string): KeptCosignature {
    const { witnesses, clock } = this.#options;
    try {
      const signature = readSignatureLine(line);
      const witness = witnesses.find(({ name, keyId }) => name === signature.name && keyId === signature.keyId);
      if (witness === undefined) throw new LedgerError('it is of no witness that is known here (CP_WITNESS_KEYS)');
      const seconds = checkCosignature(checkpointText(origin, head), signature, witness);
      if (seconds > clock.now() / 1000 + MOST_AHEAD) throw new LedgerError('its time is in the future');
      return { witness: witness.name, seconds, line };
    } catch (error) {
      if (!(error instanceof LedgerError)) throw error;
      const details = [{ path: 'cosignature', message: messageOf(error) }];
      // biome-ignore lint/style/useErrorCause: the cause is in the third argument
      throw new GatewayError('invalid_request', 'The cosignature is not taken.', { details, cause: error });
    }
  }

  async #kept(orgId: string, sequence: number): Promise<(KeptCheckpoint & { readonly version: string }) | undefined> {
    const entity = await this.#options.store.entity(SPACE.checkpoints, keyIn(orgId, digits(sequence)));
    return entity === undefined ? undefined : { ...(entity.value as KeptCheckpoint), version: entity.version };
  }

  /** Of the log that a root belongs to. @param sequence of the root; default: the last one */
  async #originOf(orgId: string, sequence = Number.POSITIVE_INFINITY): Promise<string> {
    const { store, ledgerName, signers } = this.#options;
    const restore = (await cutsOf(store, orgId)).findLast((cut) => cut.sequence <= sequence);
    return restoredOriginOf(ledgerName ?? signers.firstKid, orgId, restore?.sequence);
  }

  async #shown(kept: KeptCheckpoint): Promise<ShownCheckpoint> {
    const { signers, clock } = this.#options;
    return shownOf((await signers.signerAt(clock.now())).signer, kept);
  }
}

function shownOf(
  signer: KeptSigningKey,
  { origin, cosignatures, sequence, published_at, tree_size, tree_hash }: KeptCheckpoint,
): ShownCheckpoint {
  const lines = cosignatures.map(({ line }) => line);
  return {
    sequence,
    published_at,
    checkpoint: signCheckpoint(origin, { tree_size, tree_hash }, signer, lines),
    cosignatures: cosignatures.map(({ witness, seconds }) => ({ witness, time: timestamp(seconds * 1000) })),
  };
}

function headOf(value: unknown): CheckpointHead {
  return (value as CheckpointHead | undefined) ?? { sequence: 0, at: 0, previous: 0, kept: 0, newestWith: [] };
}

/** @throws GatewayError `conflict` */
function treeOf(root: MerkleRoot): TreeHead {
  const head = treeHeadOf(root);
  if (head === undefined) throw new GatewayError('conflict', `Root ${root.sequence} was signed before roots had a tree.`);
  return head;
}

function digits(sequence: number): string {
  return String(sequence).padStart(SEQUENCE_DIGITS, '0');
}
